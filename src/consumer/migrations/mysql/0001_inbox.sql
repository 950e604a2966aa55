-- Which events each durable has handled; both are told apart by their bytes.
CREATE TABLE IF NOT EXISTS consumer_inbox (
    durable VARBINARY(128) NOT NULL,
    event_id VARBINARY(64) NOT NULL,
    handled_at_ms BIGINT NOT NULL,
    PRIMARY KEY (durable, event_id),
    KEY consumer_inbox_handled_at (durable, handled_at_ms)
) ENGINE = InnoDB;
