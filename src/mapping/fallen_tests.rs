//! A message becomes a dead letter, is replayed, and falls out again.

use super::*;
use crate::mapping::{Letter, Unreplayable};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn message(subject: &str, headers: &[(&str, &str)]) -> Message {
    let mut map = Headers::default();
    for (name, value) in headers {
        map.push(*name, *value);
    }
    Message {
        subject: subject.into(),
        headers: map,
        payload: "bytes".into(),
    }
}

fn fallen(sequence: u64) -> Fallen<'static> {
    Fallen {
        stream: "S",
        durable: "d",
        sequence,
        reason: "terminated",
        detail: Some("no\nway"),
        attempts: 4,
        at_ms: 9,
    }
}

fn dead(sequence: u64, message: &Message) -> Message {
    let original = Original {
        message,
        stored_ms: 5,
    };
    Mapping::dead_delivery(&fallen(sequence), Some(&original), 1_000_000)
}

fn headers(message: &Message) -> Vec<(&str, &str)> {
    message.headers.iter().collect()
}

#[test]
fn a_replayed_dead_letter_is_the_original_for_its_durable_alone() {
    let own = [
        ("Jw-Ts", "1"),
        ("Jw-Id", "a"),
        ("traceparent", TRACE),
        ("Jw-Original-Ts", "0"),
    ];
    let sent = [&own[..], &[("Nats-Sequence", "7"), ("nats-ttl", "1")]].concat();
    let original = message("device.up.mqtt.thing.P.D", &sent);
    let letter = dead(7, &original);
    assert_eq!(letter.subject, "dlq.durable.S.d.7");
    let expected = [
        ("Jw-Reason", "terminated"),
        ("Jw-Detail", "no%0Away"),
        ("Jw-Stream", "S"),
        ("Jw-Durable", "d"),
        ("Jw-Sequence", "7"),
        ("Jw-Attempts", "4"),
        ("Jw-Ts", "9"),
        ("Nats-Msg-Id", "dead.S.d.7.5"),
        ("Jw-First-Ts", "5"),
        ("Jw-Subject", "device.up.mqtt.thing.P.D"),
        ("Jw-Original-Jw-Ts", "1"),
        ("Jw-Id", "a"),
        ("traceparent", TRACE),
        ("Jw-Original-Jw-Original-Ts", "0"),
    ];
    assert_eq!(headers(&letter), expected);

    let replay = Mapping::replay(3, &letter).unwrap();
    assert_eq!(replay.subject, "replay.d.device.up.mqtt.thing.P.D");
    assert_eq!(replay.payload, "bytes");
    let more = [
        ("Nats-Msg-Id", "replay.3"),
        ("Jw-Replay", "1"),
        ("Jw-Subject", "device.up.mqtt.thing.P.D"),
    ];
    assert_eq!(headers(&replay), [&own[..], &more].concat());

    let again = dead(8, &replay);
    assert_eq!(
        again.headers.get("Jw-Subject"),
        Some("device.up.mqtt.thing.P.D")
    );
    let replay = Mapping::replay(4, &again).unwrap();
    assert_eq!(replay.subject, "replay.d.device.up.mqtt.thing.P.D");
    assert_eq!(replay.headers.get("Jw-Replay"), Some("2"));
    assert_eq!(Letter::read(4, &again, 0).replays, 1);
}

#[test]
fn a_letter_says_what_happened() {
    let original = message("a.b", &[("traceparent", TRACE)]);
    let letter = Letter::read(3, &dead(7, &original), 0);
    assert_eq!(letter.origin, "durable");
    assert_eq!(letter.reason, "terminated");
    assert_eq!(letter.detail.as_deref(), Some("no\nway"));
    assert_eq!((letter.sequence, letter.attempts), (Some(7), Some(4)));
    assert_eq!((letter.first_ms, letter.at_ms), (Some(5), 9));
    assert_eq!(
        letter.trace_id.as_deref(),
        Some("4bf92f3577b34da6a3ce929d0e0e4736")
    );
    assert_eq!(letter.unreplayable, None);
}

#[test]
fn what_is_gone_or_too_large_is_told_without_its_bytes() {
    let gone = Mapping::dead_delivery(&fallen(7), None, 1_000);
    assert_eq!(gone.headers.get("Jw-Omitted"), Some("gone"));
    assert!(Mapping::is_of(&gone, None));
    let large = Message {
        payload: vec![0; 2_000].into(),
        ..message("a.b", &[("traceparent", TRACE), ("x", "y")])
    };
    let original = Original {
        message: &large,
        stored_ms: 5,
    };
    let letter = Mapping::dead_delivery(&fallen(7), Some(&original), 1_000);
    assert_eq!(letter.headers.get("Jw-Omitted"), Some("too_large"));
    assert_eq!(letter.headers.get("traceparent"), Some(TRACE));
    assert_eq!((letter.headers.get("x"), letter.payload.len()), (None, 0));
    assert!(Mapping::is_of(&letter, Some(&original)) && !Mapping::is_of(&letter, None));
    let refused = Mapping::replay(1, &letter).unwrap_err();
    assert_eq!(refused, Unreplayable::Omitted("too_large".to_owned()));
}

#[test]
fn dead_letters_of_others_are_replayed_where_someone_takes_them() {
    let said = [
        ("Jw-Reason", "expired"),
        ("Jw-Ts", "5"),
        ("Jw-Subject", "device.down.mqtt.thing.P.D"),
        ("Jw-Expires", "4"),
        ("Jw-Type", "action"),
    ];
    let down = Mapping::replay(2, &message("dlq.downlink.P.D", &said)).unwrap();
    assert_eq!(down.subject, "device.down.mqtt.thing.P.D");
    assert_eq!(
        headers(&down),
        [("Jw-Type", "action"), ("Nats-Msg-Id", "replay.2")]
    );
    let refused = |subject: &str, original: &str| {
        let dead = message(subject, &[("Jw-Subject", original)]);
        Mapping::replay(2, &dead).unwrap_err()
    };
    let origin = Unreplayable::Origin("events".to_owned());
    assert_eq!(
        refused("dlq.events.P.D", "device.up.mqtt.thing.P.D"),
        origin
    );
    let shared = Unreplayable::Origin("mqtt.a".to_owned());
    assert_eq!(refused("dlq.downlink.open.c", "mqtt.a"), shared);
    for original in ["", "a.*", "a b"] {
        let header = Unreplayable::Header("Jw-Subject");
        assert_eq!(refused("dlq.downlink.P.D", original), header, "{original}");
    }
    let header = Unreplayable::Header("Jw-Durable");
    assert_eq!(refused("dlq.durable.S.d.1", "a.b"), header);
}
