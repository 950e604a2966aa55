//! An event's JSON, identity and times.

use std::collections::HashSet;

use super::*;

#[test]
fn an_event_has_the_fields_of_the_contract_in_their_order() {
    let body = encode(&Envelope {
        event_id: Uuid::nil(),
        event_name: "device.property.reported",
        event_version: "1.0",
        event_time: Timestamp(1_792_053_000_123),
        producer: "jetway",
        trace_id: "0af7651916cd43dd8448eb211c80319c",
        data: [("a", 1)]
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>(),
    });
    assert_eq!(
        body,
        concat!(
            r#"{"event_id":"00000000-0000-0000-0000-000000000000","event_name":"device.property.reported","event_version":"1.0","#,
            r#""event_time":"2026-10-15T08:30:00.123Z","producer":"jetway","trace_id":"0af7651916cd43dd8448eb211c80319c","data":{"a":1}}"#
        )
    );
}

#[test]
fn an_id_is_the_same_for_the_same_parts_and_no_others() {
    let id = derived_id(1_754_000_000_123, &[b"DEVICE_UP", b"12", b"3"]);
    assert_eq!(
        id,
        derived_id(1_754_000_000_123, &[b"DEVICE_UP", b"12", b"3"])
    );
    assert_eq!(id.get_version_num(), 7);
    let time = id.get_timestamp().unwrap().to_unix();
    assert_eq!(time, (1_754_000_000, 123_000_000));
    let others: HashSet<_> = [
        derived_id(1_754_000_000_123, &[b"DEVICE_UP", b"1", b"23"]),
        derived_id(1_754_000_000_123, &[b"DEVICE_UP", b"123"]),
        derived_id(1_754_000_000_123, &[b"DEVICE_UP", b"12", b"3", b""]),
        derived_id(1_754_000_000_124, &[b"DEVICE_UP", b"12", b"3"]),
        id,
    ]
    .into();
    assert_eq!(others.len(), 5);
}

#[test]
fn a_time_has_milliseconds_always() {
    for (unix_ms, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_709_164_800_100, "2024-02-29T00:00:00.100Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (u64::MAX, ""),
    ] {
        assert_eq!(iso8601(unix_ms), expected);
    }
}
