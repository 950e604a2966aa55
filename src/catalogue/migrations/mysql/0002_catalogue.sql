-- A device's state is one number: 0 disabled, 1 enabled, 2 blocked. Its secret is sealed with the key of that id, or plain without
-- one. Certificates and bindings go with their devices. The change of the table is one statement, which is left out where it was
-- done before: MySQL knows no IF NOT EXISTS for columns.
SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'device' AND column_name = 'state') = 0,
    'ALTER TABLE device CHANGE COLUMN enabled state SMALLINT NOT NULL, MODIFY COLUMN secret VARCHAR(512) NOT NULL, ADD COLUMN key_id VARCHAR(64) NOT NULL DEFAULT ''''',
    'DO 0'
);
PREPARE change_device FROM @change;
EXECUTE change_device;
DEALLOCATE PREPARE change_device;

CREATE TABLE IF NOT EXISTS certificate (
    fingerprint BINARY(32) NOT NULL PRIMARY KEY,
    product_id VARBINARY(128) NOT NULL,
    name VARBINARY(128) NOT NULL,
    created_at_ms BIGINT NOT NULL,
    INDEX certificate_device (product_id, name),
    FOREIGN KEY (product_id, name) REFERENCES device (product_id, name) ON DELETE CASCADE
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS binding (
    product_id VARBINARY(128) NOT NULL,
    name VARBINARY(128) NOT NULL,
    gateway_product_id VARBINARY(128) NOT NULL,
    gateway_name VARBINARY(128) NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name),
    INDEX binding_gateway (gateway_product_id, gateway_name, product_id, name),
    FOREIGN KEY (product_id, name) REFERENCES device (product_id, name) ON DELETE CASCADE,
    FOREIGN KEY (gateway_product_id, gateway_name) REFERENCES device (product_id, name) ON DELETE CASCADE
) ENGINE = InnoDB;
