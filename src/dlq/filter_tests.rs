//! Conditions as typed, and what they select.

use super::*;

const NOW: u64 = 1_000_000_000_000;

fn filter(conditions: &[(&str, &str)]) -> Result<Filter, String> {
    let mut filter = Filter::default();
    for (key, value) in conditions {
        assert_eq!(filter.set(key, value, NOW)?, *key != "colour");
    }
    Ok(filter)
}

fn letter() -> Letter {
    Letter {
        id: 7,
        origin: "durable".to_owned(),
        reason: "terminated".to_owned(),
        detail: None,
        stream: Some("S".to_owned()),
        durable: Some("d".to_owned()),
        subject: Some("device.up.mqtt.thing.P.D".to_owned()),
        sequence: Some(3),
        attempts: Some(4),
        first_ms: Some(1),
        at_ms: NOW - 60_000,
        replays: 0,
        trace_id: None,
        bytes: 1,
        unreplayable: None,
    }
}

#[test]
fn every_condition_must_hold() {
    for (key, yes, no) in [
        ("id", "7", "8"),
        ("origin", "durable", "downlink"),
        ("stream", "S", "T"),
        ("durable", "d", "e"),
        ("reason", "terminated", "max_deliveries"),
        ("device", "P/D", "thing/D"),
        ("device", "P.D", "P.DD"),
        ("subject", "device.up.*.thing.>", "device.up.*"),
        ("since", "60s", "59s"),
        ("until", "59s", "1m"),
        ("since", "2001-09-09T01:45:40Z", "2001-09-09T01:45:41Z"),
        ("colour", "red", ""),
    ] {
        assert!(
            filter(&[(key, yes)]).unwrap().matches(&letter()),
            "{key}={yes}"
        );
        if !no.is_empty() {
            let both = filter(&[("stream", "S"), (key, no)]).unwrap();
            assert!(!both.matches(&letter()), "{key}={no}");
        }
    }
    assert!(
        filter(&[("id", "1"), ("id", "7")])
            .unwrap()
            .matches(&letter())
    );
    assert!(filter(&[("id", "")]).unwrap().is_empty());
}

#[test]
fn what_is_wrong_is_named() {
    for (key, value) in [
        ("id", "x"),
        ("since", "soon"),
        ("until", "5w"),
        ("since", "é"),
    ] {
        let fault = filter(&[(key, value)]).unwrap_err();
        assert!(
            fault.starts_with(&format!("{key}: found {value:?}, expected")),
            "{fault}"
        );
    }
}

#[test]
fn only_the_part_of_the_stream_that_can_match_is_read() {
    for (conditions, expected) in [
        (&[][..], "dlq.>"),
        (&[("origin", "downlink")], "dlq.downlink.>"),
        (&[("stream", "S")], "dlq.durable.S.>"),
        (&[("durable", "d")], "dlq.durable.*.d.>"),
        (&[("stream", "S"), ("durable", "d")], "dlq.durable.S.d.>"),
    ] {
        assert_eq!(filter(conditions).unwrap().dead_subject(), expected);
    }
}
