-- A device's state is one number: 0 disabled, 1 enabled, 2 blocked. Its secret is sealed with the key of that id, or plain without
-- one. Certificates and bindings go with their devices.
ALTER TABLE device ALTER COLUMN enabled TYPE SMALLINT USING CASE WHEN enabled THEN 1 ELSE 0 END;
ALTER TABLE device RENAME COLUMN enabled TO state;
ALTER TABLE device ALTER COLUMN secret TYPE VARCHAR(512);
ALTER TABLE device ADD COLUMN key_id VARCHAR(64) NOT NULL DEFAULT '';

CREATE TABLE certificate (
    fingerprint BYTEA NOT NULL PRIMARY KEY,
    product_id VARCHAR(128) COLLATE "C" NOT NULL,
    name VARCHAR(128) COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    FOREIGN KEY (product_id, name) REFERENCES device (product_id, name) ON DELETE CASCADE
);
CREATE INDEX certificate_device ON certificate (product_id, name);

CREATE TABLE binding (
    product_id VARCHAR(128) COLLATE "C" NOT NULL,
    name VARCHAR(128) COLLATE "C" NOT NULL,
    gateway_product_id VARCHAR(128) COLLATE "C" NOT NULL,
    gateway_name VARCHAR(128) COLLATE "C" NOT NULL,
    created_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name),
    FOREIGN KEY (product_id, name) REFERENCES device (product_id, name) ON DELETE CASCADE,
    FOREIGN KEY (gateway_product_id, gateway_name) REFERENCES device (product_id, name) ON DELETE CASCADE
);
CREATE INDEX binding_gateway ON binding (gateway_product_id, gateway_name, product_id, name);
