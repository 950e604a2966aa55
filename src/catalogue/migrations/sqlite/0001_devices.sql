-- Products and their devices. Plain SQL: no type, default or function that only one database knows.
CREATE TABLE product (
    id VARCHAR(128) NOT NULL PRIMARY KEY,
    created_at_ms BIGINT NOT NULL
);

CREATE TABLE device (
    product_id VARCHAR(128) NOT NULL,
    name VARCHAR(128) NOT NULL,
    secret VARCHAR(255) NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name),
    FOREIGN KEY (product_id) REFERENCES product (id)
);
