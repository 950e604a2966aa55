-- What the jobs make of GPS reports: how far each is, windows that are to be closed, what was in them, and what is watched.
-- Names of devices are bytes, as in gps_report: every collation makes some of them the same.

-- Up to which report a job has come: the stream's time of creation, the sequence there, the place in the message.
CREATE TABLE IF NOT EXISTS job_position (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    stream_created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    point BIGINT NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Windows with reports that no summary has yet.
CREATE TABLE IF NOT EXISTS gps_window (
    window_start_ms BIGINT NOT NULL,
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    PRIMARY KEY (window_start_ms, product_id, device_name)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What a device reported in a window, as often revised as reports came for it after it was closed.
CREATE TABLE IF NOT EXISTS gps_summary (
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    window_start_ms BIGINT NOT NULL,
    window_end_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    points BIGINT NOT NULL,
    -- With a fix and a time that can be: the following is about these, in WGS84.
    valid BIGINT NOT NULL,
    first_ms BIGINT,
    first_latitude DOUBLE,
    first_longitude DOUBLE,
    last_ms BIGINT,
    last_latitude DOUBLE,
    last_longitude DOUBLE,
    distance_m DOUBLE NOT NULL,
    speed_max_mps DOUBLE,
    closed_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, device_name, window_start_ms)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which rules a device breaks now, as JSON.
CREATE TABLE IF NOT EXISTS gps_watch (
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (product_id, device_name)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
