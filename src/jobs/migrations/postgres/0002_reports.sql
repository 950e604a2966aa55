-- What the jobs make of GPS reports: how far each is, windows that are to be closed, what was in them, and what is watched.

-- Up to which report a job has come: the stream's time of creation, the sequence there, the place in the message.
CREATE TABLE job_position (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    stream_created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    point BIGINT NOT NULL
);

-- Windows with reports that no summary has yet.
CREATE TABLE gps_window (
    window_start_ms BIGINT NOT NULL,
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    PRIMARY KEY (window_start_ms, product_id, device_name)
);

-- What a device reported in a window, as often revised as reports came for it after it was closed.
CREATE TABLE gps_summary (
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    window_start_ms BIGINT NOT NULL,
    window_end_ms BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    points BIGINT NOT NULL,
    -- With a fix and a time that can be: the following is about these, in WGS84.
    valid BIGINT NOT NULL,
    first_ms BIGINT,
    first_latitude DOUBLE PRECISION,
    first_longitude DOUBLE PRECISION,
    last_ms BIGINT,
    last_latitude DOUBLE PRECISION,
    last_longitude DOUBLE PRECISION,
    distance_m DOUBLE PRECISION NOT NULL,
    speed_max_mps DOUBLE PRECISION,
    closed_ms BIGINT NOT NULL,
    PRIMARY KEY (product_id, device_name, window_start_ms)
);

-- Which rules a device breaks now, as JSON.
CREATE TABLE gps_watch (
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (product_id, device_name)
);
