//! Topic aliases through a session: what each side may say, and what it means.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::mqtt::{Codec, Packet, PacketId, PublishProperties, QoS, Version};
use crate::session::connect::agree;
use crate::session::connect::tests::connect;
use crate::session::{Admission, Config, Delivered, Incoming, Output, Session, Source, Start};

const MAXIMUM: u16 = 4;

fn start() -> Start {
    Start {
        id: "s".into(),
        restored: None,
        stored: false,
        stream: Arc::default(),
    }
}

fn session(version: Version, topic_alias_maximum: Option<u16>) -> Session {
    let config = Config {
        uplink_topic_alias_max: MAXIMUM,
        downlink_topic_alias_max: MAXIMUM,
        ..Config::default()
    };
    let mut connect = connect(version);
    connect.properties.topic_alias_maximum = topic_alias_maximum;
    let agreement = agree(&connect, &config).unwrap();
    let mut session = Session::new(agreement, &Arc::new(config), start(), Instant::now());
    let Some(Output::Send(Packet::Connack(connack))) = session.poll_output() else {
        panic!("no CONNACK");
    };
    assert_eq!(connack.properties.topic_alias_maximum, Some(MAXIMUM));
    session
}

fn publish(topic: &str, alias: u16) -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: PacketId::new(1),
        properties: PublishProperties {
            topic_alias: NonZeroU16::new(alias),
            ..PublishProperties::default()
        },
        payload: Bytes::new(),
    }
}

/// Sends a PUBLISH and gives the topic that it is stored under.
fn up(session: &mut Session, topic: &str, alias: u16) -> Result<String, ReasonCode> {
    let publish = Packet::Publish(publish(topic, alias));
    session.handle_packet(Instant::now(), publish)?;
    let Some(Output::Publish { publish, .. }) = session.poll_output() else {
        panic!("nothing to store");
    };
    assert_eq!(publish.properties.topic_alias, None);
    session.handle_stored(1);
    assert!(matches!(
        session.poll_output(),
        Some(Output::Send(Packet::Puback(_)))
    ));
    Ok(publish.topic.to_string())
}

#[test]
fn an_alias_stands_for_the_topic_that_it_came_with_last() {
    // [MQTT-3.3.2-12]
    let mut session = session(Version::V5, None);
    assert_eq!(up(&mut session, "one", MAXIMUM).unwrap(), "one");
    assert_eq!(up(&mut session, "", MAXIMUM).unwrap(), "one");
    assert_eq!(up(&mut session, "two", 1).unwrap(), "two");
    assert_eq!(up(&mut session, "", MAXIMUM).unwrap(), "one");
    assert_eq!(up(&mut session, "three", MAXIMUM).unwrap(), "three");
    assert_eq!(up(&mut session, "other", 0).unwrap(), "other");
    assert_eq!(up(&mut session, "", MAXIMUM).unwrap(), "three");
    assert_eq!(up(&mut session, "", 1).unwrap(), "two");
}

#[test]
fn an_alias_that_is_too_high_or_unknown_ends_the_connection() {
    // [MQTT-3.3.2-7], [MQTT-3.3.2-8], [MQTT-3.3.2-9]
    let too_high = up(&mut session(Version::V5, None), "one", MAXIMUM + 1);
    assert_eq!(too_high, Err(ReasonCode::TopicAliasInvalid));
    let mut earlier = session(Version::V5, None);
    up(&mut earlier, "one", 1).unwrap();
    assert_eq!(up(&mut earlier, "", 2), Err(ReasonCode::ProtocolError));
    let mut next = session(Version::V5, None);
    assert_eq!(up(&mut next, "", 1), Err(ReasonCode::ProtocolError));
    let mut codec = Codec::new(100);
    codec.set_version(Version::V5);
    let mut zero = BytesMut::from(&[0x30, 7, 0, 1, b'a', 3, 0x23, 0, 0][..]);
    let refused = codec.decode(&mut zero).unwrap_err();
    assert_eq!(refused.reason, ReasonCode::TopicAliasInvalid);
}

#[test]
fn where_no_alias_is_taken_none_is_announced() {
    let config = Config {
        uplink_topic_alias_max: 0,
        ..Config::default()
    };
    let agreement = agree(&connect(Version::V5), &config).unwrap();
    assert_eq!(agreement.connack.properties.topic_alias_maximum, None);
    let mut session = Session::new(agreement, &Arc::new(config), start(), Instant::now());
    session.poll_output();
    assert_eq!(
        up(&mut session, "one", 1),
        Err(ReasonCode::TopicAliasInvalid)
    );
}

#[test]
fn a_publish_that_is_shed_or_held_sets_its_alias_too() {
    let mut session = session(Version::V5, None);
    let mut large = publish("large", 0);
    large.payload = Bytes::from(vec![0; Config::default().uplink_inflight_bytes_max]);
    let fed = session.handle_packet(Instant::now(), Packet::Publish(large));
    fed.unwrap();
    let mut shed = publish("shed", 1);
    (shed.qos, shed.packet_id) = (QoS::AtMostOnce, None);
    assert_eq!(session.admission(&mut shed), Ok(Admission::Shed));
    let mut held = publish("", 1);
    assert_eq!(session.admission(&mut held), Ok(Admission::Hold));
    assert_eq!(held.topic, "shed");
    // Set anew while it is held, which is not about this one any more.
    shed.topic = "later".into();
    shed.properties.topic_alias = NonZeroU16::new(1);
    assert_eq!(session.admission(&mut shed), Ok(Admission::Shed));
    assert_eq!(session.admission(&mut held), Ok(Admission::Hold));
    assert_eq!(held.topic, "shed");
}

#[test]
fn the_topics_of_all_aliases_have_a_limit_in_bytes() {
    let mut session = session(Version::V5, None);
    let all = TOPIC_BYTES * usize::from(MAXIMUM);
    let most = "x".repeat(all - 1);
    up(&mut session, &most, 1).unwrap();
    up(&mut session, &most, 1).unwrap();
    up(&mut session, "y", 2).unwrap();
    assert_eq!(up(&mut session, "z", 3), Err(ReasonCode::QuotaExceeded));
    assert_eq!(up(&mut session, "yy", 2), Err(ReasonCode::QuotaExceeded));
    // What is replaced does not count.
    up(&mut session, "short", 1).unwrap();
    up(&mut session, "z", 3).unwrap();
    assert_eq!(up(&mut session, "", 2).unwrap(), "y");
}

#[test]
fn an_idle_connection_keeps_nothing_for_aliases() {
    let idle = UplinkAliases::new(u16::MAX);
    assert!(idle.topics.is_none());
    assert_eq!(DownlinkAliases::new(u16::MAX).topics.capacity(), 0);
    // The copy is the topic alone, not the packet that it came in.
    let packet = Bytes::from(vec![b'x'; 10_000]);
    let mut publish = publish("", 1);
    publish.topic = ByteString::try_from(packet.slice(..10)).unwrap();
    let mut aliases = idle;
    aliases.resolve(&mut publish).unwrap();
    drop(publish);
    assert!(packet.is_unique(), "the packet is still held");
}

/// The next message of the stream.
fn incoming(session: &Session, publish: Publish) -> Incoming {
    Incoming {
        publish,
        source: Source::Stream(session.taken() + 1),
        own: false,
    }
}

/// What is written for a downlink: topic and alias, 0 for none.
fn down(session: &mut Session, topic: &str) -> (String, u16) {
    let mut message = publish(topic, 0);
    (message.qos, message.packet_id) = (QoS::AtMostOnce, None);
    let delivered = session.handle_downlink(incoming(session, message));
    assert_eq!(delivered, Delivered::Sent(QoS::AtMostOnce));
    let Some(Output::Send(Packet::Publish(publish))) = session.poll_output() else {
        panic!("nothing is delivered");
    };
    let alias = publish.properties.topic_alias.map_or(0, NonZeroU16::get);
    (publish.topic.to_string(), alias)
}

fn subscribed(version: Version, topic_alias_maximum: Option<u16>) -> Session {
    let mut session = session(version, topic_alias_maximum);
    let subscribe = [0x82, 7, 0, 1, 0, 0, 1, b'#', 1];
    let mut codec = Codec::new(100);
    codec.set_version(Version::V5);
    let Ok(Some(Packet::Subscribe(all))) = codec.decode(&mut BytesMut::from(&subscribe[..])) else {
        panic!("no SUBSCRIBE");
    };
    let filter = all.filters[0].filter.clone();
    session.handle_authorized(all, |_| Ok(0));
    session.handle_retained(&filter, Vec::new());
    while session.poll_output().is_some() {}
    session
}

#[test]
fn the_first_topics_get_the_aliases_that_the_device_takes() {
    // [MQTT-3.1.2-26], [MQTT-3.3.2-11]
    let mut session = subscribed(Version::V5, Some(2));
    let whole = |topic: &str, alias| (topic.to_owned(), alias);
    assert_eq!(down(&mut session, "topic/1"), whole("topic/1", 1));
    assert_eq!(
        down(&mut session, "brief"),
        whole("brief", 0),
        "saves nothing"
    );
    assert_eq!(down(&mut session, "topic/2"), whole("topic/2", 2));
    assert_eq!(down(&mut session, "topic/3"), whole("topic/3", 0));
    assert_eq!(down(&mut session, "topic/2"), whole("", 2));
    assert_eq!(down(&mut session, "topic/1"), whole("", 1));
    assert_eq!(down(&mut session, "topic/3"), whole("topic/3", 0));
    let mut limited = subscribed(Version::V5, Some(u16::MAX));
    let given = (0..10).filter(|number| down(&mut limited, &format!("topic/{number}")).1 > 0);
    assert_eq!(given.count(), usize::from(MAXIMUM), "our own limit");
    let long = "x".repeat(TOPIC_BYTES * usize::from(MAXIMUM) + 1);
    let mut bounded = subscribed(Version::V5, Some(u16::MAX));
    assert_eq!(down(&mut bounded, &long), (long.clone(), 0));
    assert_eq!(down(&mut bounded, "topic/1"), whole("topic/1", 1));
}

#[test]
fn who_takes_no_alias_gets_none() {
    // [MQTT-3.1.2-27]
    for (version, maximum) in [
        (Version::V5, None),
        (Version::V5, Some(0)),
        (Version::V3_1_1, None),
    ] {
        let mut session = subscribed(version, maximum);
        for _ in 0..2 {
            assert_eq!(down(&mut session, "topic/1"), ("topic/1".to_owned(), 0));
        }
    }
}

#[test]
fn an_alias_that_was_never_written_is_not_used() {
    let mut session = subscribed(Version::V5, Some(2));
    let next = |session: &mut Session| match session.poll_output() {
        Some(Output::Send(Packet::Publish(publish))) => publish,
        other => panic!("{other:?}"),
    };
    // Two wait together, so that the second would have used what the first was to set.
    for _ in 0..2 {
        let message = incoming(&session, publish("topic/1", 0));
        session.handle_downlink(message);
    }
    let mut unwritable = next(&mut session);
    assert!(session.withdraw_topic_alias(&mut unwritable));
    assert_eq!(unwritable.topic, "topic/1");
    assert_eq!(unwritable.properties.topic_alias, None);
    assert!(!session.withdraw_topic_alias(&mut unwritable), "only once");
    let second = next(&mut session);
    assert_eq!(second.topic, "topic/1");
    assert_eq!(second.properties.topic_alias, NonZeroU16::new(1));
    let message = incoming(&session, publish("topic/1", 0));
    session.handle_downlink(message);
    let mut uses = next(&mut session);
    assert_eq!(uses.topic, "");
    assert!(!session.withdraw_topic_alias(&mut uses), "it sets none");
}
