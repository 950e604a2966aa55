//! A held message gives back the message that it holds, and nothing else is one.

use super::*;
use bytes::Bytes;

const HOLDER: Holder<'_> = Holder {
    tokens: "open.a%2Fb",
    session: "run.7",
};

fn id(packet_id: u16) -> PacketId {
    PacketId::new(packet_id).unwrap()
}

fn message(headers: &[(&'static str, &str)]) -> Message {
    let mut message = Message {
        subject: "mqtt.a.b".into(),
        headers: Headers::default(),
        payload: Bytes::from_static(b"x"),
    };
    message.headers.push("Nats-Msg-Id", "run.7.1");
    message.headers.push("Jw-Id", "run.7.1");
    for (name, value) in headers {
        message.headers.push(*name, *value);
    }
    message
}

/// As the reader of the stream gives it.
fn read_back(held: &Message) -> Message {
    let mut headers = Headers::default();
    headers.push("Nats-Subject", &held.subject);
    headers.push("Nats-Sequence", "7");
    headers.push("Nats-Time-Stamp", "2026-01-01T00:00:00Z");
    for (name, value) in held.headers.iter() {
        headers.push(name, value);
    }
    Message {
        headers,
        ..held.clone()
    }
}

#[test]
fn what_is_released_is_what_was_held() {
    let message = message(&[("Jw-User-a", "1"), ("Jw-User-a", "2")]);
    let held = HOLDER.hold(message.clone(), id(9)).unwrap();
    assert_eq!(held.subject, "mqtt_held.open.a%2Fb.9");
    let header = |name| held.headers.get(name);
    assert_eq!(header("Nats-Msg-Id"), Some("run.7.1.held"));
    assert_eq!(header("Jw-Subject"), Some("mqtt.a.b"));
    assert_eq!(header("Jw-Session"), Some("run.7"));
    let released = HOLDER.release(&read_back(&held), 0).unwrap();
    assert_eq!(released.message, message);
    assert_eq!((released.live, released.retained), (None, None));
}

#[test]
fn another_session_releases_nothing() {
    let held = HOLDER.hold(message(&[]), id(9)).unwrap();
    let other = Holder {
        session: "run.70",
        ..HOLDER
    };
    assert_eq!(other.release(&held, 0), None);
    // Nor is what somebody else wrote there anybody's.
    assert_eq!(HOLDER.release(&message(&[]), 0), None);
    assert_eq!(
        HOLDER.release(&message(&[("Jw-Session", "run.7")]), 0),
        None
    );
}

#[test]
fn the_retained_copy_is_made_at_the_release_with_the_lifetime_that_is_left() {
    // [MQTT-3.3.1-5]
    let retained = |headers: &[(&'static str, &str)], now_ms| {
        let held = HOLDER.hold(message(headers), id(1)).unwrap();
        HOLDER.release(&held, now_ms).unwrap().retained
    };
    let time_to_live = |expires, now_ms| match retained(&[("Jw-Retain", "1"), expires], now_ms) {
        Some(message) => {
            assert_eq!(message.subject, "$KV.jetway_retained.mqtt.a.b");
            message.headers.get("Nats-TTL").map(str::to_owned)
        }
        other => panic!("{other:?}"),
    };
    let expires = ("Jw-Expires", "60000");
    assert_eq!(time_to_live(("Jw-Qos", "2"), 0), None);
    assert_eq!(time_to_live(expires, 0).as_deref(), Some("60"));
    assert_eq!(time_to_live(expires, 50_001).as_deref(), Some("10"));
    assert_eq!(time_to_live(expires, 99_000).as_deref(), Some("1"));
    assert_eq!(retained(&[], 0), None);
}

#[test]
fn what_jetstream_would_refuse_is_refused() {
    let long = "x".repeat(SUBJECT_BYTES_MAX);
    let holder = Holder {
        tokens: &long,
        ..HOLDER
    };
    let refused = holder.hold(message(&[]), id(1));
    assert!(matches!(refused, Err(Error::SubjectTooLong(_))));
    // It fits, and what is added does not.
    let room = header::BYTES_MAX - message(&[("A", "")]).headers.wire_bytes();
    let full = message(&[("A", &"x".repeat(room))]);
    let refused = HOLDER.hold(full, id(1));
    assert!(matches!(refused, Err(Error::HeadersTooLong(_))));
}

#[test]
fn all_of_a_device_and_of_all_devices_are_found() {
    assert_eq!(Holder::all("open.a"), "mqtt_held.open.a.*");
    assert!(crate::message::covers(ALL, &HOLDER.subject(id(65_535))));
}
