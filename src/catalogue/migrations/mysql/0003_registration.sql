-- A product says whether devices may register themselves (0 no, 1 those that are there, 2 new ones, too) and holds the secret that
-- they prove it with, sealed as those of devices. A device that logged in once does not register any more; those of before are
-- taken for such. A nonce of a registration is good once. Each change of a table is one statement, left out where it was done before.
SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'product' AND column_name = 'registration') = 0,
    'ALTER TABLE product ADD COLUMN registration SMALLINT NOT NULL DEFAULT 0, ADD COLUMN secret VARCHAR(512) NOT NULL DEFAULT '''', ADD COLUMN key_id VARCHAR(64) NOT NULL DEFAULT ''''',
    'DO 0'
);
PREPARE change_product FROM @change;
EXECUTE change_product;
DEALLOCATE PREPARE change_product;

SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'device' AND column_name = 'activated_at_ms') = 0,
    'ALTER TABLE device ADD COLUMN activated_at_ms BIGINT',
    'DO 0'
);
PREPARE change_device FROM @change;
EXECUTE change_device;
DEALLOCATE PREPARE change_device;
UPDATE device SET activated_at_ms = created_at_ms;

CREATE TABLE IF NOT EXISTS registration (
    product_id VARBINARY(128) NOT NULL,
    name VARBINARY(128) NOT NULL,
    nonce BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name, nonce),
    INDEX registration_end (expires_at_ms)
) ENGINE = InnoDB;
