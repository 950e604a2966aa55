//! Bytes that are no packet, and what the error says about them.

use crate::wire::{bytes, decode};
use jetway::mqtt::{ReasonCode, Version};

struct Row<'a> {
    name: &'a str,
    reason: ReasonCode,
    version: Option<Version>,
    bytes: Vec<u8>,
    /// Packet and field of the error.
    place: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let lines = include_str!("rejected.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(row).collect()
}

fn row(line: &str) -> Row<'_> {
    let columns: Vec<_> = line.split('|').map(str::trim).collect();
    let [reason, version, text, place, name] = columns[..] else {
        panic!("not five columns: {line}");
    };
    let reason = u8::from_str_radix(reason, 16).unwrap();
    Row {
        name,
        reason: ReasonCode::from_value(reason).unwrap(),
        version: match version {
            "4" => Some(Version::V3_1_1),
            "5" => Some(Version::V5),
            "-" => None,
            _ => panic!("no such version: {line}"),
        },
        bytes: bytes(text),
        place,
    }
}

#[test]
fn bytes_are_refused_with_the_right_reason_at_the_right_place() {
    for row in rows() {
        let error = match decode(row.version, &row.bytes) {
            Err(error) => error,
            Ok(decoded) => panic!("{}: {decoded:?}", row.name),
        };
        assert_eq!(error.reason, row.reason, "{}: {error}", row.name);
        let text = error.to_string();
        let start = format!("{}: expected ", row.place);
        assert!(text.starts_with(&start), "{}: {text}", row.name);
    }
}

/// A table in which a row says the same as another would hide a missing one.
#[test]
fn rows_differ() {
    let rows = rows();
    for (index, row) in rows.iter().enumerate() {
        let same = rows[..index].iter().find(|other| {
            other.name == row.name || (other.version == row.version && other.bytes == row.bytes)
        });
        assert!(same.is_none(), "{} is there twice", row.name);
    }
}

/// Refusing must not wait for more bytes than it takes to see the fault.
#[test]
fn a_bad_fixed_header_is_refused_before_the_rest_is_there() {
    // [MQTT-2.1.3-1], [MQTT-3.1.0-1]
    for (version, first) in [
        (None, 0x30),
        (None, 0x11),
        (Some(Version::V5), 0x00),
        (Some(Version::V5), 0x60),
        (Some(Version::V5), 0x80),
        (Some(Version::V3_1_1), 0xf0),
    ] {
        assert!(decode(version, &[first]).is_err(), "{first:#x}");
    }
}
