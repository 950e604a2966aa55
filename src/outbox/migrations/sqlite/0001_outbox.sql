-- Times are Unix milliseconds of this database's clock. An aggregate is told by a hash of its type and id; those whose hash is the
-- same wait for each other, which keeps the order as well.
CREATE TABLE outbox_event (
    -- AUTOINCREMENT: the number of a row that was purged is not given out again.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id BLOB NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    event_version TEXT NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id TEXT NOT NULL,
    aggregate INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    subject TEXT NOT NULL,
    payload BLOB NOT NULL,
    -- A JSON array of pairs; empty for none.
    headers TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    -- pending, sending, published, dead
    status TEXT NOT NULL DEFAULT 'pending',
    -- 1: waits in the lane of its aggregate.
    held INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    lease_owner TEXT,
    lease_until INTEGER,
    -- When it was first in the hands of a relay that did not tell what became of it.
    tried_at INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    published_at INTEGER
);
-- What is published is in none but the last of these, so no claim and no count ever passes it.
CREATE INDEX outbox_ready ON outbox_event (shard, id) WHERE status = 'pending' AND held = 0;
CREATE INDEX outbox_sending ON outbox_event (shard, id) WHERE status = 'sending';
CREATE INDEX outbox_held ON outbox_event (aggregate, id) WHERE status = 'pending' AND held = 1;
CREATE INDEX outbox_dead ON outbox_event (id) WHERE status = 'dead';
CREATE INDEX outbox_published ON outbox_event (published_at) WHERE status = 'published';

-- Who has the rows of a shard in hand; the shard -1 is the one who purges.
CREATE TABLE outbox_shard (
    shard INTEGER PRIMARY KEY,
    lease_owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
);
INSERT INTO outbox_shard (shard)
WITH RECURSIVE series (shard) AS (SELECT -1 UNION ALL SELECT shard + 1 FROM series WHERE shard < 63)
SELECT shard FROM series;

-- Aggregates with a row that was not published when it was tried, until all rows that wait behind it are.
CREATE TABLE outbox_lane (
    aggregate INTEGER PRIMARY KEY,
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL
);
CREATE INDEX outbox_lane_due ON outbox_lane (shard, due_at);
