-- Which events each durable has handled.
CREATE TABLE consumer_inbox (
    durable VARCHAR(128) COLLATE "C" NOT NULL,
    event_id VARCHAR(64) COLLATE "C" NOT NULL,
    handled_at_ms BIGINT NOT NULL,
    PRIMARY KEY (durable, event_id)
);

CREATE INDEX consumer_inbox_handled_at ON consumer_inbox (durable, handled_at_ms);
