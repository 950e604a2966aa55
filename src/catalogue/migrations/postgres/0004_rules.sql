-- Which topics the devices of a product may use beside their own, and which they may not. Rules go with their product.
CREATE TABLE product_rule (
    product_id VARCHAR(128) COLLATE "C" NOT NULL,
    effect VARCHAR(16) COLLATE "C" NOT NULL,
    action VARCHAR(16) COLLATE "C" NOT NULL,
    topic_filter VARCHAR(512) COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, effect, action, topic_filter),
    FOREIGN KEY (product_id) REFERENCES product (id) ON DELETE CASCADE
);
