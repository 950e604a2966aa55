-- GPS reports, what is latest of each device, and how far the worker is.
-- Times are Unix milliseconds. A row of gps_report is never changed; it is there as often as its event: once.
-- A partition a day, in UTC: the worker makes them ahead and drops those that are too old.
CREATE TABLE gps_report (
    -- A UUID of version 7 of received_ms, so the key is in the order of time.
    event_id UUID NOT NULL,
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    -- The device's time if it is usable, else when it was received.
    at_ms BIGINT NOT NULL,
    device_ms BIGINT,
    received_ms BIGINT NOT NULL,
    latitude DOUBLE PRECISION NOT NULL,
    longitude DOUBLE PRECISION NOT NULL,
    -- 0 WGS84, 1 GCJ02, 2 BD09
    coordinate_system SMALLINT NOT NULL,
    altitude_m DOUBLE PRECISION,
    speed_mps DOUBLE PRECISION,
    course_deg DOUBLE PRECISION,
    satellites INTEGER,
    hdop DOUBLE PRECISION,
    accuracy_m DOUBLE PRECISION,
    flags INTEGER NOT NULL,
    -- A newer valid fix of the device was stored before it.
    late BOOLEAN NOT NULL,
    -- Its message: the stream's time of creation in nanoseconds, the sequence there, and the place in the message.
    stream_created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    point INTEGER NOT NULL,
    PRIMARY KEY (event_id, received_ms)
) PARTITION BY RANGE (received_ms);
CREATE INDEX gps_report_device ON gps_report (product_id, device_name, at_ms);
CREATE INDEX gps_report_sequence ON gps_report (sequence);

-- The newest valid fix of each device.
CREATE TABLE gps_latest (
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    event_id UUID NOT NULL,
    at_ms BIGINT NOT NULL,
    device_ms BIGINT,
    received_ms BIGINT NOT NULL,
    latitude DOUBLE PRECISION NOT NULL,
    longitude DOUBLE PRECISION NOT NULL,
    coordinate_system SMALLINT NOT NULL,
    altitude_m DOUBLE PRECISION,
    speed_mps DOUBLE PRECISION,
    course_deg DOUBLE PRECISION,
    satellites INTEGER,
    hdop DOUBLE PRECISION,
    accuracy_m DOUBLE PRECISION,
    flags INTEGER NOT NULL,
    PRIMARY KEY (product_id, device_name)
);

-- Fences, trip and sampling of each device, as JSON.
CREATE TABLE gps_track (
    product_id TEXT NOT NULL,
    device_name TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (product_id, device_name)
);

-- Up to where the uplink stream is in the tables above, for each shard of devices.
CREATE TABLE gps_cursor (
    shard INTEGER NOT NULL PRIMARY KEY,
    shards INTEGER NOT NULL,
    stream TEXT NOT NULL,
    -- As the server writes it, and in nanoseconds.
    created TEXT NOT NULL,
    created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL
);
