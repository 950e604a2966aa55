-- GPS reports, what is latest of each device, and how far the worker is.
-- Times are Unix milliseconds. A row of gps_report is never changed; it is there as often as its event: once.
-- Names are bytes: no collation of both servers tells a name from the same one with a space behind it.
CREATE TABLE IF NOT EXISTS gps_report (
    -- A UUID of version 7 of received_ms, so the key is in the order of time and retention needs no index of its own.
    event_id BINARY(16) NOT NULL PRIMARY KEY,
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    -- The device's time if it is usable, else when it was received.
    at_ms BIGINT NOT NULL,
    device_ms BIGINT,
    received_ms BIGINT NOT NULL,
    latitude DOUBLE NOT NULL,
    longitude DOUBLE NOT NULL,
    -- 0 WGS84, 1 GCJ02, 2 BD09
    coordinate_system SMALLINT NOT NULL,
    altitude_m DOUBLE,
    speed_mps DOUBLE,
    course_deg DOUBLE,
    satellites INTEGER,
    hdop DOUBLE,
    accuracy_m DOUBLE,
    flags INTEGER NOT NULL,
    -- A newer valid fix of the device was stored before it.
    late BOOLEAN NOT NULL,
    -- Its message: the stream's time of creation in nanoseconds, the sequence there, and the place in the message.
    stream_created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    point INTEGER NOT NULL,
    KEY gps_report_device (product_id, device_name, at_ms),
    KEY gps_report_sequence (sequence)
);

-- The newest valid fix of each device.
CREATE TABLE IF NOT EXISTS gps_latest (
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    event_id BINARY(16) NOT NULL,
    at_ms BIGINT NOT NULL,
    device_ms BIGINT,
    received_ms BIGINT NOT NULL,
    latitude DOUBLE NOT NULL,
    longitude DOUBLE NOT NULL,
    coordinate_system SMALLINT NOT NULL,
    altitude_m DOUBLE,
    speed_mps DOUBLE,
    course_deg DOUBLE,
    satellites INTEGER,
    hdop DOUBLE,
    accuracy_m DOUBLE,
    flags INTEGER NOT NULL,
    PRIMARY KEY (product_id, device_name)
);

-- Fences, trip and sampling of each device, as JSON.
CREATE TABLE IF NOT EXISTS gps_track (
    product_id VARBINARY(128) NOT NULL,
    device_name VARBINARY(128) NOT NULL,
    state MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (product_id, device_name)
);

-- Up to where the uplink stream is in the tables above, for each shard of devices.
CREATE TABLE IF NOT EXISTS gps_cursor (
    shard INTEGER NOT NULL PRIMARY KEY,
    shards INTEGER NOT NULL,
    stream VARCHAR(255) NOT NULL,
    -- As the server writes it, and in nanoseconds.
    created VARCHAR(64) NOT NULL,
    created_ns BIGINT NOT NULL,
    sequence BIGINT NOT NULL
);
