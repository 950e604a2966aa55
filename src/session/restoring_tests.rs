//! What a new connection goes on with, whenever the last one ended: the same packet identifiers, DUP, in order.

use super::*;

const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];

/// Steps of a stored session that is subscribed to `down` with QoS 2.
fn down(version: Version, steps: &str, expected: &str) {
    let steps = format!("sub down q2 rh2; saved; {steps}");
    check_stored(version, &steps, &format!("save; SUBACK 0x02; {expected}"));
}

#[test]
fn what_was_not_acknowledged_is_sent_again_first() {
    // [MQTT-4.4.0-1], [MQTT-3.3.1-1], [MQTT-3.2.2-3], G07
    for version in BOTH {
        down(
            version,
            "live 1 q1; live 2 q2; reconnect; owed; room; resend 2; resend 1; room; puback 1; room; live 3 q1",
            "PUBLISH down q1 #1; PUBLISH down q2 #2; CONNACK present; owed 1 2; full;
             PUBLISH down q1 #1 dup; PUBLISH down q2 #2 dup; full; done 1; room; PUBLISH down q1 #3",
        );
        // Nothing overtakes it, even where there is room.
        down(
            version,
            "live 1 q1; reconnect; room; resend 1; room",
            "PUBLISH down q1 #1; CONNACK present; full; PUBLISH down q1 #1 dup; room",
        );
        // What is gone frees its place; what the device answers before it is sent again is not sent again.
        down(
            version,
            "live 1 q1; live 2 q2; reconnect; gone 1; pubrec 2; saved; resend 2; owed; room; pubcomp 2",
            "PUBLISH down q1 #1; PUBLISH down q2 #2; CONNACK present; save; PUBREL 2 0x00; owed; room; done 2",
        );
        // With QoS 2 the device may have it: it is released, or its identifier would stand for it there.
        down(
            version,
            "live 1 q2; live 2 q2; reconnect; pubrec 1; gone 1; gone 2; saved; saved; owed; pubcomp 2; pubcomp 1; room",
            "PUBLISH down q2 #1; PUBLISH down q2 #2; CONNACK present; save; PUBREL 1 0x00; save; PUBREL 2 0x00;
             owed; done 2; done 1; room",
        );
        // A new session reports that there was none. [MQTT-3.2.2-2]
        check_stored(version, "crash; owed", "CONNACK; owed");
    }
}

#[test]
fn what_is_sent_again_is_what_was_sent() {
    for version in BOTH {
        for (options, retain) in [("", ""), (" rap", " retain")] {
            check_stored(
                version,
                &format!(
                    "sub down q1 rh2{options}; saved; live 1 q1 retain; reconnect; resend 1 retain"
                ),
                &format!(
                    "save; SUBACK 0x01; PUBLISH down q1 #1{retain}; CONNACK present;
                     PUBLISH down q1 #1 dup{retain}"
                ),
            );
        }
        check_stored(
            version,
            "sub down q1; saved; retained down q1; saved; reconnect; resend 49153",
            "save; SUBACK 0x01; fetch down; save; PUBLISH down q1 #49153 retain; CONNACK present;
             PUBLISH down q1 #49153 dup retain",
        );
        // [MQTT-3.10.4-3]
        check_stored(
            version,
            "sub down q1 rh2; saved; live 1 q1; unsub down; saved; crash; resend 1",
            "save; SUBACK 0x01; PUBLISH down q1 #1; detach down; save; UNSUBACK 0x00; CONNACK present;
             PUBLISH down q1 #1 dup",
        );
    }
}

#[test]
fn what_is_sent_again_keeps_within_a_smaller_window() {
    // [MQTT-3.3.4-9]
    let now = Instant::now();
    let inflight = |packet_id, released| InflightRecord {
        packet_id,
        qos: 2,
        released,
        source: Source::Stream(packet_id.into()),
    };
    let record = Record {
        inflight: vec![inflight(1, true), inflight(2, false), inflight(3, false)],
        ..Record::default()
    };
    let mut asking = connect(Version::V5);
    asking.properties.receive_maximum = std::num::NonZeroU16::new(1);
    let agreement = agree(&asking, &config()).unwrap();
    let mut session = Session::new(
        agreement,
        &Arc::new(config()),
        start(Some(record), true),
        now,
    );
    assert_eq!(outputs(&mut session), ["CONNACK present", "PUBREL 1 0x00"]);
    for (packet_id, _) in session.to_resend() {
        let publish = downlink(QoS::AtMostOnce, 0).publish;
        session.handle_resend(packet_id, Some(publish));
    }
    assert_eq!(outputs(&mut session), Vec::<String>::new());
    let ack = |id| Ack::new(PacketId::new(id).unwrap(), ReasonCode::Success);
    let completed = Packet::Pubcomp(ack(1));
    session.handle_packet(now, completed).unwrap();
    assert_eq!(outputs(&mut session), ["done 1", "PUBLISH down q2 #2 dup"]);
    assert!(!session.has_room());
}

#[test]
fn a_downlink_of_qos_2_is_delivered_once_whenever_the_gateway_crashes() {
    // G-ONCE. [MQTT-4.3.3-4], [MQTT-4.4.0-1]
    for version in BOTH {
        // Sent, and nothing is known of it: the backlog has it, and it gets the same identifier, which the device knows.
        down(
            version,
            "live 1 q2; crash; owed; room; backlog 1 q2",
            "PUBLISH down q2 #1; CONNACK present; owed; room; PUBLISH down q2 #1",
        );
        // PUBREC came, and no PUBREL went out.
        down(
            version,
            "live 1 q2; pubrec 1; crash; backlog 1 q2; pubrec 1; saved; pubcomp 1",
            "PUBLISH down q2 #1; save; CONNACK present; PUBLISH down q2 #1; save; PUBREL 1 0x00; done 1",
        );
        // The write was done, and nobody knew yet; or PUBREL went out. The message is done either way.
        for steps in [
            "live 1 q2; pubrec 1; crash late; owed; pubcomp 1; backlog 1 q2",
            "live 1 q2; pubrec 1; crash late; owed; pubcomp 1 0x92; backlog 1 q2",
        ] {
            down(
                version,
                steps,
                "PUBLISH down q2 #1; save; CONNACK present; PUBREL 1 0x00; owed; done 1; Skipped",
            );
        }
        let released = "PUBLISH down q2 #1; save; PUBREL 1 0x00";
        down(
            version,
            "live 1 q2; pubrec 1; saved; crash; pubcomp 1",
            &format!("{released}; CONNACK present; PUBREL 1 0x00; done 1"),
        );
        // PUBCOMP came: PUBREL again until that is written too.
        down(
            version,
            "live 1 q2; pubrec 1; saved; pubcomp 1; crash; pubcomp 1; save; saved; crash; owed",
            &format!(
                "{released}; done 1; CONNACK present; PUBREL 1 0x00; done 1; save; CONNACK present; owed"
            ),
        );
    }
}

#[test]
fn an_identifier_that_the_stored_record_still_uses_is_not_used_anew() {
    // Else PUBREL after a crash would release a message that is not done.
    let again = 1 + 49_152;
    for version in BOTH {
        down(
            version,
            &format!(
                "live 1 q2; pubrec 1; saved; pubcomp 1; live {again} q2; crash; backlog {again} q2"
            ),
            "PUBLISH down q2 #1; save; PUBREL 1 0x00; done 1; save; CONNACK present; PUBREL 1 0x00; save",
        );
        down(
            version,
            &format!("live 1 q2; pubrec 1; saved; pubcomp 1; save; saved; live {again} q2"),
            "PUBLISH down q2 #1; save; PUBREL 1 0x00; done 1; save; PUBLISH down q2 #1",
        );
    }
}

#[test]
fn subscriptions_are_saved_before_they_are_granted_and_restored() {
    for version in BOTH {
        check_stored(
            version,
            "sub down q1 rh2 no-local rap @4; room; saved; room; crash; live 5 q1 retain; live 6 q1 own",
            "save; full; SUBACK 0x01; room; CONNACK present; PUBLISH down q1 #1 retain; Skipped",
        );
        check_stored(
            version,
            "sub down q1 rh2; crash; live 1 q1",
            "save; CONNACK; NotSubscribed",
        );
        // Nothing changes, nothing is written.
        check_stored(
            version,
            "sub down q1 rh2; sub down q1 rh2; saved; sub down q1 rh2; unsub up",
            "save; detach down; SUBACK 0x01; SUBACK 0x01; detach down; SUBACK 0x01; UNSUBACK 0x11",
        );
        // [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        check_stored(
            version,
            "sub down q1 rh2; saved; unsub down; live 1 q1; crash late; live 1 q1",
            "save; SUBACK 0x01; detach down; save; NotSubscribed; CONNACK present; NotSubscribed",
        );
    }
}

#[test]
fn packet_identifiers_are_counted_from_the_first_subscription() {
    for version in BOTH {
        check_stored(
            version,
            "sub a q1 rh2 @4; saved; sub down q1 rh2 @6; saved; live 7 q1; reconnect; live 8 q1",
            "save; SUBACK 0x01; save; SUBACK 0x01; PUBLISH down q1 #3; CONNACK present; PUBLISH down q1 #4",
        );
        // Not from a later one: the session forgot that the device has #2.
        check_stored(
            version,
            "sub down q2 rh2 @4; saved; live 6 q2; crash; unsub down; saved; sub down q2 rh2 @9; crash; sub down q2 rh2 @9;
             saved; live 11 q2",
            "save; SUBACK 0x02; PUBLISH down q2 #2; CONNACK present; detach down; save; UNSUBACK 0x00; save;
             CONNACK present; save; SUBACK 0x02; PUBLISH down q2 #7",
        );
        // Not from one that was never saved.
        check_stored(
            version,
            "sub down q1 rh2 @4; crash; sub down q1 rh2 @6; saved; live 7 q1",
            "save; CONNACK; save; SUBACK 0x01; PUBLISH down q1 #1",
        );
    }
}

#[test]
fn a_record_is_readable_and_may_have_more_or_less() {
    let full = r#"{"id":"s","stream":"down.1","taken":9,"base":4,"received":3,
        "subscriptions":[{"filter":"a/+","qos":2,"no_local":true,"retain_as_published":true,"identifier":5,"since":4}],
        "inflight":[{"packet_id":2,"qos":2,"released":true,"source":{"stream":1}},
            {"packet_id":49153,"qos":1,"source":{"retained":"a/b"}},
            {"packet_id":49154,"qos":1,"source":{"shared":{"sequence":7,"filter":"$share/g/a"}}},
            {"packet_id":3,"qos":2,"released":true,"source":"gone"}],
        "unreleased":[{"packet_id":1,"message_id":"s.1.3","stored":true}]}"#;
    let record: Record = serde_json::from_str(full).unwrap();
    let json = serde_json::to_string(&record).unwrap();
    let without_spaces: String = full.split_whitespace().collect();
    assert_eq!(json, without_spaces);
    let agreement = agree(&connect(Version::V5), &config()).unwrap();
    let start = start(Some(record.clone()), true);
    let session = Session::new(agreement, &Arc::new(config()), start, Instant::now());
    assert_eq!(session.record(), record, "restored it is the same");
    assert!(!session.is_dirty());
    let filters: Vec<_> = session.subscriptions().map(TopicFilter::as_str).collect();
    assert_eq!(filters, ["a/+"]);

    let other: Record = serde_json::from_str(r#"{"id":"s","later":[1]}"#).unwrap();
    let least = Record {
        id: "s".into(),
        ..Record::default()
    };
    assert_eq!(other, least);
}

#[test]
fn where_the_delivery_stream_is_another_one_all_of_it_is_new() {
    // G25. Sequences of the one before mean nothing; what the device has of it is still its own to finish.
    let record = r#"{"id":"s","stream":"2025","taken":9,"base":4,"received":3,
        "subscriptions":[{"filter":"down","qos":2,"since":4}],
        "inflight":[{"packet_id":1,"qos":2,"released":true,"source":{"stream":5}},
            {"packet_id":2,"qos":1,"source":{"stream":6}},
            {"packet_id":49153,"qos":1,"source":{"retained":"a/b"}}]}"#;
    let record: Record = serde_json::from_str(record).unwrap();
    let now = Instant::now();
    for version in BOTH {
        let agreement = agree(&connect(version), &config()).unwrap();
        let start = Start {
            stream: "2026".into(),
            ..start(Some(record.clone()), true)
        };
        let mut session = Session::new(agreement, &Arc::new(config()), start, now);
        assert!(session.is_dirty(), "it is not what was stored");
        assert_eq!(outputs(&mut session), ["CONNACK present", "PUBREL 1 0x00"]);
        let owed = session.to_resend();
        let owed: Vec<_> = owed.iter().map(|(_, source)| source.clone()).collect();
        assert_eq!(owed, [Source::Retained("a/b".into())]);
        assert_eq!(session.taken(), 0);
        session.handle_resend(PacketId::new(49_153).unwrap(), None);
        let first = downlink(QoS::AtLeastOnce, 1);
        assert_eq!(
            session.handle_downlink(first),
            Delivered::Sent(QoS::AtLeastOnce)
        );
    }
}

#[test]
fn what_is_sent_again_has_its_subscription_identifiers() {
    // [MQTT-3.3.4-3]
    let record = r#"{"id":"s","taken":1,"subscriptions":[{"filter":"down","qos":1,"identifier":5}],
        "inflight":[{"packet_id":2,"qos":1,"source":{"stream":1}}]}"#;
    let record: Record = serde_json::from_str(record).unwrap();
    let agreement = agree(&connect(Version::V5), &config()).unwrap();
    let start = start(Some(record), true);
    let mut session = Session::new(agreement, &Arc::new(config()), start, Instant::now());
    outputs(&mut session);
    let again = downlink(QoS::AtLeastOnce, 1).publish;
    session.handle_resend(PacketId::new(2).unwrap(), Some(again));
    let Some(Output::Send(Packet::Publish(publish))) = session.poll_output() else {
        panic!("nothing is sent again");
    };
    let identifiers = publish.properties.subscription_identifiers;
    assert_eq!(identifiers, [std::num::NonZeroU32::new(5).unwrap()]);
}
