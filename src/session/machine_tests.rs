//! The session as a table: what happens, and what has to come out.

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::mqtt::{PacketId, PublishProperties, Subscription, TopicFilter};
use crate::session::connect::agree;
use crate::session::connect::tests::connect;

#[path = "closing_tests.rs"]
mod closing;
#[path = "subscribing_tests.rs"]
mod subscribing;

const DENIED: Problem = Problem {
    reason: ReasonCode::NotAuthorized,
    words: "topic of another device",
};
const FULL: Problem = Problem {
    reason: ReasonCode::QuotaExceeded,
    words: "the store is full",
};

fn config() -> Config {
    Config {
        uplink_inflight_max: 3,
        uplink_inflight_bytes_max: 4_000,
        downlink_inflight_max: 2,
        subscriptions_max: 2,
        keep_alive_max_s: 100,
        ..Config::default()
    }
}

fn session(version: Version, now: Instant) -> Session {
    let agreement = agree(&connect(version), &config()).unwrap();
    let mut session = Session::new(agreement, &config(), now);
    assert!(matches!(
        session.poll_output(),
        Some(Output::Send(Packet::Connack(_)))
    ));
    session
}

fn publish(qos: QoS, packet_id: u16) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: "up".into(),
        packet_id: PacketId::new(packet_id),
        properties: PublishProperties::default(),
        payload: Bytes::from_static(b"0123456789"),
    }
}

fn subscribe(filter: &str, qos: QoS) -> Subscribe {
    Subscribe {
        packet_id: PacketId::new(9).unwrap(),
        identifier: None,
        filters: vec![Subscription {
            filter: TopicFilter::try_from(ByteString::from(filter)).unwrap(),
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: 0,
        }],
        user: UserProperties::default(),
    }
}

/// One word a packet, so that a test reads as a line.
fn word(output: &Output) -> String {
    match output {
        Output::Send(Packet::Puback(ack)) => {
            format!("PUBACK {} {:#04x}", ack.packet_id.get(), ack.reason as u8)
        }
        Output::Send(Packet::Suback(suback)) => {
            let codes: Vec<_> = suback
                .reasons
                .iter()
                .map(|code| format!("{:#04x}", *code as u8))
                .collect();
            format!("SUBACK {}", codes.join(" "))
        }
        Output::Send(Packet::Unsuback(unsuback)) => {
            let codes: Vec<_> = unsuback
                .reasons
                .iter()
                .map(|code| format!("{:#04x}", *code as u8))
                .collect();
            format!("UNSUBACK {}", codes.join(" "))
        }
        Output::Send(Packet::Publish(publish)) => {
            let id = publish.packet_id.map_or(0, PacketId::get);
            format!("PUBLISH {} q{} #{id}", publish.topic, publish.qos as u8)
        }
        Output::Send(Packet::Pingresp) => "PINGRESP".to_owned(),
        Output::Publish(publish) => format!("store {}", publish.packet_id.map_or(0, PacketId::get)),
        Output::Authorize(_) => "authorize".to_owned(),
        Output::Close(reason) => format!("close {}", reason.as_str()),
        Output::Send(other) => format!("{other:?}"),
    }
}

fn admission(session: &mut Session, publish: &Publish) -> Admission {
    session.admission(&mut publish.clone()).unwrap()
}

fn outputs(session: &mut Session) -> Vec<String> {
    std::iter::from_fn(|| session.poll_output())
        .map(|output| word(&output))
        .collect()
}

/// Feeds steps such as `recv 1 q1; stored 1; denied`, and compares everything that came out.
fn check(version: Version, steps: &str, expected: &str) {
    let now = Instant::now();
    let mut session = session(version, now);
    let mut seen = Vec::new();
    for step in steps
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
    {
        let words: Vec<&str> = step.split(' ').collect();
        let result = match words.as_slice() {
            ["recv", id, qos] => {
                let qos = QoS::try_from(qos[1..].parse::<u8>().unwrap()).unwrap();
                session.handle_packet(now, Packet::Publish(publish(qos, id.parse().unwrap())))
            }
            ["stored", count] => {
                session.handle_stored(count.parse().unwrap());
                Ok(())
            }
            ["refused"] => {
                session.handle_not_stored(FULL);
                Ok(())
            }
            ["denied"] => {
                session.handle_denied(DENIED);
                Ok(())
            }
            other => panic!("unknown step {other:?}"),
        };
        seen.extend(outputs(&mut session));
        if let Err(reason) = result {
            seen.push(format!("error {:#04x}", reason as u8));
        }
    }
    assert_eq!(seen.join("; "), expected, "{version} {steps}");
}

#[test]
fn no_puback_before_stored_and_pubacks_leave_in_publish_order() {
    // [MQTT-4.6.0-2], a client rule that we hold ourselves to
    for version in [Version::V3_1_1, Version::V5] {
        check(version, "recv 5 q1; recv 6 q1", "store 5; store 6");
        check(
            version,
            "recv 5 q1; recv 6 q1; stored 1; stored 1",
            "store 5; store 6; PUBACK 5 0x00; PUBACK 6 0x00",
        );
        check(
            version,
            "recv 5 q1; recv 0 q0; recv 6 q1; stored 3",
            "store 5; store 0; store 6; PUBACK 5 0x00; PUBACK 6 0x00",
        );
    }
}

#[test]
fn a_denied_publish_gets_0x87_and_3_1_1_is_acknowledged_and_discarded() {
    // [MQTT-3.3.5-2]
    check(Version::V5, "recv 1 q1; denied", "store 1; PUBACK 1 0x87");
    check(
        Version::V3_1_1,
        "recv 1 q1; denied",
        "store 1; PUBACK 1 0x00",
    );
    check(
        Version::V5,
        "recv 1 q1; recv 2 q1; denied; stored 1",
        "store 1; store 2; PUBACK 1 0x00; PUBACK 2 0x87",
    );
}

/// The Reason Strings of what comes out for a PUBLISH that is denied, one that is not stored and one that is, and for a SUBSCRIBE that is denied.
fn explained(request_problem_information: Option<bool>) -> Vec<Option<String>> {
    let now = Instant::now();
    let mut asking = connect(Version::V5);
    asking.properties.request_problem_information = request_problem_information;
    let mut session = Session::new(agree(&asking, &config()).unwrap(), &config(), now);
    for id in 1..=3 {
        let publish = Packet::Publish(publish(QoS::AtLeastOnce, id));
        session.handle_packet(now, publish).unwrap();
    }
    session.handle_denied(DENIED);
    session.handle_not_stored(FULL);
    session.handle_stored(1);
    session.handle_authorized(subscribe("a", QoS::AtMostOnce), |_| Err(DENIED));
    let outputs = std::iter::from_fn(|| session.poll_output());
    let reason_string = |output| match output {
        Output::Send(Packet::Puback(ack)) => Some(ack.reason_string.map(|text| text.to_string())),
        Output::Send(Packet::Suback(suback)) => {
            Some(suback.reason_string.map(|text| text.to_string()))
        }
        _ => None,
    };
    outputs.filter_map(reason_string).collect()
}

#[test]
fn a_refusal_is_explained_to_who_does_not_decline_it() {
    // [MQTT-3.1.2-29]
    let said = |words: &str| Some(words.to_owned());
    let all = [
        said(FULL.words),
        None,
        said(DENIED.words),
        said(DENIED.words),
    ];
    assert_eq!(explained(None), all);
    assert_eq!(explained(Some(true)), all);
    assert_eq!(explained(Some(false)), [None, None, None, None]);
}

#[test]
fn what_the_stream_refuses_is_never_acknowledged_positively() {
    check(Version::V5, "recv 1 q1; refused", "store 1; PUBACK 1 0x97");
    check(
        Version::V3_1_1,
        "recv 1 q1; recv 2 q1; refused; stored 1",
        "store 1; store 2; close not_stored",
    );
    for version in [Version::V3_1_1, Version::V5] {
        // Nobody waits for an answer to QoS 0.
        check(
            version,
            "recv 0 q0; recv 1 q1; refused; stored 1",
            "store 0; store 1; PUBACK 1 0x00",
        );
    }
}

#[test]
fn what_was_announced_as_unavailable_is_refused_with_its_code() {
    // [MQTT-3.2.2-11]
    check(Version::V5, "recv 1 q2", "error 0x9b");
    let now = Instant::now();
    let mut retained = publish(QoS::AtLeastOnce, 1);
    retained.retain = true;
    // [MQTT-3.2.2-14]
    let refused = session(Version::V5, now).handle_packet(now, Packet::Publish(retained));
    assert_eq!(refused, Err(ReasonCode::RetainNotSupported));
    let mut servers = publish(QoS::AtLeastOnce, 1);
    servers.properties.subscription_identifiers = vec![std::num::NonZeroU32::MIN];
    // [MQTT-3.3.4-6]
    let refused = session(Version::V5, now).handle_packet(now, Packet::Publish(servers));
    assert_eq!(refused, Err(ReasonCode::ProtocolError));
}

#[test]
fn beyond_receive_maximum_mqtt_5_gets_0x93_and_3_1_1_is_held() {
    // [MQTT-3.3.4-9]
    check(
        Version::V5,
        "recv 1 q1; recv 2 q1; recv 3 q1; recv 4 q1",
        "store 1; store 2; store 3; error 0x93",
    );
    let now = Instant::now();
    let mut session = session(Version::V3_1_1, now);
    for id in 1..=3 {
        assert_eq!(
            admission(&mut session, &publish(QoS::AtLeastOnce, id)),
            Admission::Admit
        );
        session
            .handle_packet(now, Packet::Publish(publish(QoS::AtLeastOnce, id)))
            .unwrap();
    }
    assert_eq!(
        admission(&mut session, &publish(QoS::AtLeastOnce, 4)),
        Admission::Hold
    );
    assert_eq!(
        admission(&mut session, &publish(QoS::AtMostOnce, 0)),
        Admission::Admit
    );
    session.handle_stored(1);
    assert_eq!(
        admission(&mut session, &publish(QoS::AtLeastOnce, 4)),
        Admission::Admit
    );
}

#[test]
fn what_is_not_payload_counts_in_the_byte_window() {
    let now = Instant::now();
    let mut described = publish(QoS::AtLeastOnce, 1);
    let user = [("a", "x".repeat(1_500)), ("b", "y".repeat(1_500))];
    described.properties.user = user
        .map(|(name, value)| (name.into(), value))
        .into_iter()
        .collect();
    let mut empty = publish(QoS::AtMostOnce, 0);
    empty.payload = Bytes::new();
    for (message, admitted) in [(described, 1), (empty, 7)] {
        let mut session = session(Version::V5, now);
        let mut fits = |_: &_| {
            let packet = Packet::Publish(message.clone());
            admission(&mut session, &message) == Admission::Admit
                && session.handle_packet(now, packet).is_ok()
        };
        assert_eq!((0..100).take_while(&mut fits).count(), admitted);
    }
}

#[test]
fn beyond_the_byte_window_qos_1_is_held_and_qos_0_is_shed() {
    let now = Instant::now();
    let mut session = session(Version::V5, now);
    let mut large = publish(QoS::AtLeastOnce, 1);
    large.payload = Bytes::from(vec![0; 3_400]);
    assert_eq!(admission(&mut session, &large), Admission::Admit);
    session
        .handle_packet(now, Packet::Publish(large.clone()))
        .unwrap();
    assert_eq!(
        admission(&mut session, &publish(QoS::AtLeastOnce, 2)),
        Admission::Hold
    );
    assert_eq!(
        admission(&mut session, &publish(QoS::AtMostOnce, 0)),
        Admission::Shed
    );
    session.handle_stored(1);
    large.payload = Bytes::from(vec![0; 5_000]);
    assert_eq!(
        admission(&mut session, &large),
        Admission::Admit,
        "a window that is empty takes anything"
    );
}

/// A session that is subscribed to `down` with QoS 1.
fn subscribed(version: Version, now: Instant) -> Session {
    let mut session = session(version, now);
    session.handle_authorized(subscribe("down", QoS::AtLeastOnce), |_| Ok(()));
    outputs(&mut session);
    session
}

fn downlink(qos: QoS) -> Publish {
    let mut publish = publish(qos, 0);
    publish.topic = "down".into();
    publish
}

#[test]
fn downlinks_keep_within_the_window_and_move_the_cursor() {
    // [MQTT-3.3.4-9]
    let now = Instant::now();
    let mut session = subscribed(Version::V5, now);
    assert_eq!(
        session.handle_downlink(downlink(QoS::AtLeastOnce), 11),
        Delivered::Sent
    );
    assert_eq!(
        session.handle_downlink(downlink(QoS::AtLeastOnce), 12),
        Delivered::Sent
    );
    assert!(!session.has_room());
    assert_eq!(
        outputs(&mut session),
        ["PUBLISH down q1 #1", "PUBLISH down q1 #2"]
    );
    assert_eq!(session.cursor(), 10);
    let ack = |id| Packet::Puback(Ack::new(PacketId::new(id).unwrap(), ReasonCode::Success));
    session.handle_packet(now, ack(2)).unwrap();
    assert!(session.has_room());
    assert_eq!(session.cursor(), 10, "the older one is still on its way");
    session.handle_packet(now, ack(1)).unwrap();
    session.handle_packet(now, ack(1)).unwrap();
    assert_eq!(session.cursor(), 12);
    session.handle_downlink(downlink(QoS::AtMostOnce), 13);
    assert_eq!(session.cursor(), 13);
}

#[test]
fn downlinks_that_nobody_subscribes_or_that_cannot_be_written_do_not_stop_the_next() {
    let now = Instant::now();
    let mut session = subscribed(Version::V5, now);
    let mut other = downlink(QoS::AtLeastOnce);
    other.topic = "elsewhere".into();
    assert_eq!(session.handle_downlink(other, 1), Delivered::NotSubscribed);
    for sequence in 2..10 {
        assert!(session.has_room());
        assert_eq!(
            session.handle_downlink(downlink(QoS::AtLeastOnce), sequence),
            Delivered::Sent
        );
        let Some(Output::Send(Packet::Publish(unwritable))) = session.poll_output() else {
            panic!("nothing to write");
        };
        session.handle_undeliverable(unwritable.packet_id);
    }
    assert_eq!(session.cursor(), 9);
    let unsubscribe = Unsubscribe {
        packet_id: PacketId::new(4).unwrap(),
        filters: subscribe("down", QoS::AtMostOnce)
            .filters
            .into_iter()
            .map(|asked| asked.filter)
            .collect(),
        user: UserProperties::default(),
    };
    // [MQTT-3.10.4-4], [MQTT-3.10.4-5]
    session
        .handle_packet(now, Packet::Unsubscribe(unsubscribe.clone()))
        .unwrap();
    session
        .handle_packet(now, Packet::Unsubscribe(unsubscribe))
        .unwrap();
    assert_eq!(outputs(&mut session), ["UNSUBACK 0x00", "UNSUBACK 0x11"]);
    assert_eq!(
        session.handle_downlink(downlink(QoS::AtLeastOnce), 4),
        Delivered::NotSubscribed
    );
}
