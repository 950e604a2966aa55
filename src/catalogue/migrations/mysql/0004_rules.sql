-- Which topics the devices of a product may use beside their own, and which they may not. Rules go with their product.
CREATE TABLE IF NOT EXISTS product_rule (
    product_id VARBINARY(128) NOT NULL,
    effect VARBINARY(16) NOT NULL,
    action VARBINARY(16) NOT NULL,
    topic_filter VARBINARY(512) NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, effect, action, topic_filter),
    FOREIGN KEY (product_id) REFERENCES product (id) ON DELETE CASCADE
) ENGINE = InnoDB;
