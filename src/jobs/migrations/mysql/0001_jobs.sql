-- Jobs: who runs which, what was run, what it said, and which results a scheduler has not taken yet.
-- Names are told apart to the letter, as everywhere else.

-- owner is the run that has the lock, empty if nobody has it; it is anybody's when lease_until_ms has passed.
CREATE TABLE IF NOT EXISTS job_lock (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    owner VARCHAR(36) NOT NULL,
    lease_until_ms BIGINT NOT NULL,
    started_ms BIGINT NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Whose lease has passed before it ended was run by a node that is gone.
CREATE TABLE IF NOT EXISTS job_run (
    id VARCHAR(36) NOT NULL PRIMARY KEY,
    name VARCHAR(64) NOT NULL,
    params TEXT NOT NULL,
    cause VARCHAR(16) NOT NULL,
    node VARCHAR(64) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    message TEXT NOT NULL,
    log_id BIGINT,
    log_ms BIGINT,
    queued_ms BIGINT NOT NULL,
    started_ms BIGINT,
    ended_ms BIGINT,
    lease_until_ms BIGINT NOT NULL,
    INDEX job_run_ended (ended_ms),
    INDEX job_run_queued (queued_ms),
    INDEX job_run_log (log_id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;


CREATE TABLE IF NOT EXISTS job_line (
    run_id VARCHAR(36) NOT NULL,
    line_no BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (run_id, line_no)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Gone when the scheduler has taken it; nobody else sends it before due_ms.
CREATE TABLE IF NOT EXISTS job_callback (
    run_id VARCHAR(36) NOT NULL PRIMARY KEY,
    log_id BIGINT NOT NULL,
    log_ms BIGINT NOT NULL,
    code BIGINT NOT NULL,
    message TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    INDEX job_callback_due (due_ms)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

