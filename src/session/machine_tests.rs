//! The session as a table: what happens, and what has to come out.

use std::time::Duration;

use bytes::Bytes;

use bytestring::ByteString;

use super::*;
use crate::mqtt::{
    PacketId, Publish, PublishProperties, QoS, Subscribe, Subscription, TopicFilter, Unsubscribe,
    UserProperties,
};
use crate::session::connect::agree;
use crate::session::connect::tests::connect;
use crate::session::{Admission, Delivered, Incoming, InflightRecord, Problem, Source};

#[path = "closing_tests.rs"]
mod closing;
#[path = "crashing_tests.rs"]
mod crashing;
#[path = "delivering_tests.rs"]
mod delivering;
#[path = "exactly_once_tests.rs"]
mod exactly_once;
#[path = "releasing_tests.rs"]
mod releasing;
#[path = "replacing_tests.rs"]
mod replacing;
#[path = "restoring_tests.rs"]
mod restoring;
#[path = "steps_tests.rs"]
mod steps;
#[path = "subscribing_tests.rs"]
mod subscribing;

use steps::{check, check_held, check_stored, word};

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
        uplink_unreleased_max: 4,
        uplink_inflight_bytes_max: 4_000,
        downlink_inflight_max: 2,
        subscriptions_max: 2,
        keep_alive_max_s: 100,
        ..Config::default()
    }
}

/// With the delivery stream that the record knows.
fn start(restored: Option<Record>, stored: bool) -> Start {
    let stream = restored.as_ref().map(|record| Arc::clone(&record.stream));
    Start {
        id: "s".into(),
        restored,
        stored,
        stream: stream.unwrap_or_default(),
    }
}

/// A session that ends with its connection, its CONNACK taken.
fn session(version: Version, now: Instant) -> Session {
    let agreement = agree(&connect(version), &config()).unwrap();
    let mut session = Session::new(agreement, &Arc::new(config()), start(None, false), now);
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

fn admission(session: &mut Session, publish: &Publish) -> Admission {
    session.admission(&mut publish.clone()).unwrap()
}

fn outputs(session: &mut Session) -> Vec<String> {
    std::iter::from_fn(|| session.poll_output())
        .map(|output| word(&output))
        .collect()
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
    let agreement = agree(&asking, &config()).unwrap();
    let mut session = Session::new(agreement, &Arc::new(config()), start(None, false), now);
    for id in 1..=3 {
        let publish = Packet::Publish(publish(QoS::AtLeastOnce, id));
        session.handle_packet(now, publish).unwrap();
        while !matches!(session.poll_output(), Some(Output::Publish { .. })) {}
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
fn a_device_does_not_send_subscription_identifiers() {
    let now = Instant::now();
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
        outputs(&mut session);
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
    outputs(&mut session);
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
    session.handle_authorized(subscribe("down", QoS::AtLeastOnce), |_| Ok(0));
    outputs(&mut session);
    let filter = subscribe("down", QoS::AtMostOnce).filters.remove(0).filter;
    assert_eq!(session.handle_retained(&filter, Vec::new()), 0);
    session
}

fn downlink(qos: QoS, sequence: u64) -> Incoming {
    let mut publish = publish(qos, 0);
    publish.topic = "down".into();
    Incoming {
        publish,
        source: Source::Stream(sequence),
        own: false,
    }
}

#[test]
fn an_idle_session_is_small_and_keeps_no_buffers() {
    let now = Instant::now();
    assert!(size_of::<Session>() <= 496, "{}", size_of::<Session>());
    let mut session = subscribed(Version::V5, now);
    session.fetching = 1;
    let filter = subscribe("down", QoS::AtMostOnce).filters.remove(0).filter;
    session.handle_retained(&filter, vec![publish(QoS::AtLeastOnce, 0)]);
    for sequence in 1..=2 {
        session
            .handle_packet(now, Packet::Publish(publish(QoS::ExactlyOnce, 7)))
            .unwrap();
        outputs(&mut session);
        session.handle_stored(1);
        session.handle_downlink(downlink(QoS::AtLeastOnce, sequence));
        outputs(&mut session);
        let mut answers = session.record().inflight;
        answers.dedup();
        for answer in answers {
            let ack = Ack::new(
                PacketId::new(answer.packet_id).unwrap(),
                ReasonCode::Success,
            );
            session.handle_packet(now, Packet::Puback(ack)).unwrap();
        }
        let released = Ack::new(PacketId::new(7).unwrap(), ReasonCode::Success);
        session
            .handle_packet(now, Packet::Pubrel(released))
            .unwrap();
        outputs(&mut session);
    }
    assert_eq!(session.outputs.capacity(), 0);
    assert!(session.retained.is_none());
    assert_eq!(session.unacknowledged_downlinks(), 0);
}
