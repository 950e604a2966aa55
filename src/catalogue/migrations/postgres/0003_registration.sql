-- A product says whether devices may register themselves (0 no, 1 those that are there, 2 new ones, too) and holds the secret that
-- they prove it with, sealed as those of devices. A device that logged in once does not register any more; those of before are
-- taken for such. A nonce of a registration is good once.
ALTER TABLE product ADD COLUMN registration SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE product ADD COLUMN secret VARCHAR(512) NOT NULL DEFAULT '';
ALTER TABLE product ADD COLUMN key_id VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE device ADD COLUMN activated_at_ms BIGINT;
UPDATE device SET activated_at_ms = created_at_ms;

CREATE TABLE registration (
    product_id VARCHAR(128) COLLATE "C" NOT NULL,
    name VARCHAR(128) COLLATE "C" NOT NULL,
    nonce BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, name, nonce)
);
CREATE INDEX registration_end ON registration (expires_at_ms);
