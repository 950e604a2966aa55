//! What is written is read back, and time is counted from the end of the connection.

use bytes::Bytes;
use bytestring::ByteString;

use super::*;
use crate::mqtt::PublishProperties;

fn connection() -> Connection {
    Connection {
        device: DeviceId::new("p", "d.1").unwrap(),
        client_id: "p&d.1".into(),
        connection_id: "run.7".into(),
        epoch: 42,
        version: "5.0",
        peer: Some("[::1]:1883".parse().unwrap()),
        connected_at_ms: 1_754_000_000_123,
    }
}

fn will(qos: QoS, delay_s: u32) -> WillMessage {
    WillMessage {
        publish: Publish {
            dup: false,
            qos,
            retain: true,
            topic: "a/ü".into(),
            packet_id: None,
            properties: PublishProperties {
                content_type: Some(ByteString::from("text/plain")),
                correlation_data: Some(Bytes::from_static(b"\0\xff")),
                message_expiry_interval: Some(9),
                ..PublishProperties::default()
            },
            payload: Bytes::from_static(b"\0gone\xff"),
        },
        delay_s,
    }
}

fn document(will: Option<&WillMessage>, expiry_s: u32) -> Document {
    Document {
        node: Some("run".into()),
        disconnected_at_ms: None,
        epoch: 0,
        connection: Arc::new(Connection {
            epoch: 0,
            ..connection()
        }),
        expiry_s,
        will: will.map(|will| Box::new(WillDocument::new(will))),
        session: Some(Box::new(Record {
            id: "s".into(),
            taken: 9,
            ..Record::default()
        })),
    }
}

#[test]
fn a_document_is_read_back_by_this_release_and_by_others() {
    let mut whole = document(Some(&will(QoS::ExactlyOnce, 5)), 60);
    assert_eq!(Document::read(&whole.write()), Some(whole.clone()));
    whole.set_epoch(42);
    assert_eq!(*whole.connection, connection());
    whole.set_epoch(0);

    let mut later: serde_json::Value = serde_json::from_slice(&whole.write()).unwrap();
    later["later"] = serde_json::json!({"a": 1});
    let later = serde_json::to_vec(&later).unwrap();
    assert_eq!(Document::read(&later), Some(whole));

    let mut least = document(None, 0);
    least.node = None;
    least.session = None;
    let text = String::from_utf8(least.write().to_vec()).unwrap();
    for absent in ["node", "will", "session", "disconnected_at_ms"] {
        assert!(!text.contains(&format!("\"{absent}\":")), "{text}");
    }
    assert_eq!(Document::read(text.as_bytes()), Some(least));
    for foreign in ["", "{}", "null", "\u{0}", "{\"epoch\":\"x\"}"] {
        assert_eq!(Document::read(foreign.as_bytes()), None, "{foreign:?}");
    }
}

#[test]
fn a_will_is_kept_byte_for_byte() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let will = will(qos, 5);
        let kept = WillDocument::new(&will);
        assert_eq!(kept.publish(), Some(will.publish));
        assert_eq!((kept.delay_s, kept.due_ms), (5, None));
    }
    let mut foreign = WillDocument::new(&will(QoS::AtMostOnce, 0));
    for text in ["", "no base64!", "AAAA"] {
        foreign.publish = text.to_owned();
        assert_eq!(foreign.publish(), None, "{text:?}");
    }
}

#[test]
fn a_will_is_due_after_its_delay_or_with_the_end_of_the_session() {
    // [MQTT-3.1.3-9], [MQTT-3.1.2-8]
    let now = 1_000_000;
    for (delay_s, expiry_s, waits_s) in [
        (0, 60, 0),
        (5, 60, 5),
        (60, 60, 60),
        (90, 60, 60),
        (5, 0, 0),
    ] {
        let will = will(QoS::AtLeastOnce, delay_s);
        let mut document = document(Some(&will), expiry_s);
        assert!(document.is_connected());
        assert_eq!(document.take_due_will(u64::MAX), None, "it is connected");
        document.disconnect(now);
        assert!(!document.is_connected());
        let due = now + waits_s * 1_000;
        if waits_s > 0 {
            assert_eq!(document.take_due_will(due - 1), None);
        }
        assert_eq!(
            document.take_due_will(due),
            Some(will.publish),
            "{delay_s} of {expiry_s}"
        );
        assert_eq!(document.take_due_will(u64::MAX), None, "once");
    }
}

#[test]
fn a_session_lives_for_its_expiry_behind_its_connection() {
    let now = 1_000_000;
    let mut document = document(None, 60);
    assert!(!document.is_expired(u64::MAX), "it is connected");
    document.disconnect(now);
    for (later_ms, expired, left_s) in [
        (0, false, 60),
        (999, false, 60),
        (1_000, false, 59),
        (59_999, false, 1),
        (60_000, true, 1),
        (u64::MAX - now, true, 1),
    ] {
        let at = now + later_ms;
        let found = (document.is_expired(at), document.time_to_live_s(at));
        assert_eq!(found, (expired, left_s), "{later_ms} ms later");
    }
    document.expiry_s = 0;
    assert!(document.is_expired(now), "it ended with its connection");
}
