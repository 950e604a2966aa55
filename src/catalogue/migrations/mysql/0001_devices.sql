-- Products and their devices. Names are bytes: no collation that MySQL and MariaDB share tells a name from the same one with a
-- space behind it.
CREATE TABLE IF NOT EXISTS product (
    id VARBINARY(128) NOT NULL PRIMARY KEY,
    created_at_ms BIGINT NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS device (
    product_id VARBINARY(128) NOT NULL,
    name VARBINARY(128) NOT NULL,
    secret VARCHAR(255) NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name),
    FOREIGN KEY (product_id) REFERENCES product (id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
