-- Times are Unix milliseconds of this database's clock. An aggregate is told by a hash of its type and id; those whose hash is the
-- same wait for each other, which keeps the order as well.
CREATE TABLE outbox_event (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id UUID NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    event_version TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id TEXT NOT NULL,
    aggregate BIGINT NOT NULL,
    shard SMALLINT NOT NULL,
    subject TEXT NOT NULL,
    payload BYTEA NOT NULL,
    -- A JSON array of pairs; empty for none.
    headers TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    -- pending, sending, published, dead
    status TEXT NOT NULL DEFAULT 'pending',
    -- 1: waits in the lane of its aggregate.
    held SMALLINT NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    lease_owner TEXT,
    lease_until BIGINT,
    -- When it was first in the hands of a relay that did not tell what became of it.
    tried_at BIGINT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    published_at BIGINT
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- What is published is in none but the last of these, so no claim and no count ever passes it.
CREATE INDEX outbox_ready ON outbox_event (shard, id) WHERE status = 'pending' AND held = 0;
CREATE INDEX outbox_sending ON outbox_event (shard, id) WHERE status = 'sending';
CREATE INDEX outbox_held ON outbox_event (aggregate, id) WHERE status = 'pending' AND held = 1;
CREATE INDEX outbox_dead ON outbox_event (id) WHERE status = 'dead';
CREATE INDEX outbox_published ON outbox_event (published_at) WHERE status = 'published';

-- Who has the rows of a shard in hand; the shard -1 is the one who purges.
CREATE TABLE outbox_shard (
    shard SMALLINT PRIMARY KEY,
    lease_owner TEXT,
    lease_until BIGINT NOT NULL DEFAULT 0
);
INSERT INTO outbox_shard (shard) SELECT generate_series(-1, 63);

-- Aggregates with a row that was not published when it was tried, until all rows that wait behind it are.
CREATE TABLE outbox_lane (
    aggregate BIGINT PRIMARY KEY,
    shard SMALLINT NOT NULL,
    due_at BIGINT NOT NULL
);
CREATE INDEX outbox_lane_due ON outbox_lane (shard, due_at);
