-- Which events each durable has handled. Plain SQL: no type, default or function that only one database knows.
CREATE TABLE consumer_inbox (
    durable VARCHAR(128) NOT NULL,
    event_id VARCHAR(64) NOT NULL,
    handled_at_ms BIGINT NOT NULL,
    PRIMARY KEY (durable, event_id)
);

CREATE INDEX consumer_inbox_handled_at ON consumer_inbox (durable, handled_at_ms);
