-- Times are Unix milliseconds of this database's clock. An aggregate is told by a hash of its type and id; those whose hash is the
-- same wait for each other, which keeps the order as well.
CREATE TABLE IF NOT EXISTS outbox_event (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    event_id BINARY(16) NOT NULL,
    event_type VARCHAR(255) NOT NULL,
    event_version VARCHAR(32) NOT NULL,
    aggregate_type VARCHAR(255) NOT NULL,
    aggregate_id VARCHAR(512) NOT NULL,
    aggregate BIGINT NOT NULL,
    shard SMALLINT NOT NULL,
    subject TEXT NOT NULL,
    payload LONGBLOB NOT NULL,
    -- A JSON array of pairs; empty for none.
    headers MEDIUMTEXT NOT NULL,
    trace_id VARCHAR(64) NOT NULL,
    -- pending, sending, published, dead
    status VARCHAR(9) NOT NULL DEFAULT 'pending',
    -- 1: waits in the lane of its aggregate.
    held SMALLINT NOT NULL DEFAULT 0,
    attempts INT NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    lease_owner VARCHAR(64),
    lease_until BIGINT,
    -- When it was first in the hands of a relay that did not tell what became of it.
    tried_at BIGINT,
    last_error TEXT,
    created_at BIGINT NOT NULL,
    published_at BIGINT,
    -- There are no partial indexes; each has in front what tells the rows that are looked for from those that are published. As few
    -- as possible have the status, which changes twice.
    UNIQUE KEY outbox_event_id (event_id),
    KEY outbox_ready (status, held, shard),
    KEY outbox_held (held, aggregate),
    KEY outbox_published (published_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Who has the rows of a shard in hand; the shard -1 is the one who purges.
CREATE TABLE IF NOT EXISTS outbox_shard (
    shard SMALLINT NOT NULL PRIMARY KEY,
    lease_owner VARCHAR(64),
    lease_until BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO outbox_shard (shard) VALUES
    (-1), (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19), (20),
    (21), (22), (23), (24), (25), (26), (27), (28), (29), (30), (31), (32), (33), (34), (35), (36), (37), (38), (39), (40), (41),
    (42), (43), (44), (45), (46), (47), (48), (49), (50), (51), (52), (53), (54), (55), (56), (57), (58), (59), (60), (61), (62),
    (63);

-- Aggregates with a row that was not published when it was tried, until all rows that wait behind it are.
CREATE TABLE IF NOT EXISTS outbox_lane (
    aggregate BIGINT NOT NULL PRIMARY KEY,
    shard SMALLINT NOT NULL,
    due_at BIGINT NOT NULL,
    KEY outbox_lane_due (shard, due_at)
) ENGINE = InnoDB;
