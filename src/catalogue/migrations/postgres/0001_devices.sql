-- Products and their devices, in the order of the bytes of their names.
CREATE TABLE product (
    id VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    created_at_ms BIGINT NOT NULL
);

CREATE TABLE device (
    product_id VARCHAR(128) COLLATE "C" NOT NULL REFERENCES product (id),
    name VARCHAR(128) COLLATE "C" NOT NULL,
    secret VARCHAR(255) NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name)
);
