//! What is delivered to the device, with what, and in which order.

use super::*;

/// Subscribed, its retained messages read: none.
const DOWN: &str = "sub down q2 rh2";

fn down(version: Version, steps: &str, expected: &str) {
    check(
        version,
        &format!("{DOWN}; {steps}"),
        &format!("SUBACK 0x02; {expected}"),
    );
}

fn stored_down(version: Version, steps: &str, expected: &str) {
    let steps = format!("{DOWN}; saved; {steps}");
    check_stored(version, &steps, &format!("save; SUBACK 0x02; {expected}"));
}

const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];

#[test]
fn downlinks_keep_within_the_window_and_are_settled() {
    // [MQTT-3.3.4-9]
    for version in BOTH {
        down(
            version,
            "room; live 10 q1; room; live 11 q2; room; puback 10; room; pubrec 11; room; pubcomp 11",
            "room; PUBLISH down q1 #10; room; PUBLISH down q2 #11; full; done 10; room; PUBREL 11 0x00; room; done 11",
        );
        // QoS 2 counts until PUBCOMP.
        down(
            version,
            "live 1 q2; live 2 q2; pubrec 1; pubrec 2; room; pubcomp 1; room",
            "PUBLISH down q2 #1; PUBLISH down q2 #2; PUBREL 1 0x00; PUBREL 2 0x00; full; done 1; room",
        );
        down(version, "live 1 q0; room", "PUBLISH down q0 #0; room");
    }
    // [MQTT-4.4.0-2]
    down(
        Version::V5,
        "live 1 q1; live 2 q2; puback 1 0x97; pubrec 2 0x83; room",
        "PUBLISH down q1 #1; PUBLISH down q2 #2; failed 1 0x97; failed 2 0x83; room",
    );
}

#[test]
fn answers_out_of_place() {
    for version in BOTH {
        down(version, "puback 8; pubcomp 8", "");
        // A device that answers again after a crash has done nothing wrong.
        down(version, "pubrec 8", "PUBREL 8 0x00");
        for (qos, answer) in [
            ("q1", "pubrec 1"),
            ("q2", "puback 1"),
            ("q1", "pubcomp 1"),
            ("q2", "pubcomp 1"),
        ] {
            let steps = format!("live 1 {qos}; {answer}");
            down(
                version,
                &steps,
                &format!("PUBLISH down {qos} #1; error 0x82"),
            );
        }
        down(
            version,
            "live 1 q2; pubrec 1; pubrec 1; pubcomp 1; pubcomp 1",
            "PUBLISH down q2 #1; PUBREL 1 0x00; PUBREL 1 0x00; done 1",
        );
    }
    down(Version::V5, "pubrec 8 0x80", "");
}

#[test]
fn a_pubrel_leaves_after_its_pubrec_is_saved() {
    // [MQTT-4.3.3-4]
    for version in BOTH {
        stored_down(
            version,
            "live 1 q2; live 2 q2; pubrec 1; pubrec 2; pubrec 2; saved; saved; pubcomp 1; pubcomp 2",
            "PUBLISH down q2 #1; PUBLISH down q2 #2; save; PUBREL 1 0x00; save; PUBREL 2 0x00; done 1; done 2",
        );
        // QoS 1 costs no write; its progress is saved when somebody asks for that.
        stored_down(
            version,
            "save; live 1 q1; puback 1; save; saved; save",
            "PUBLISH down q1 #1; done 1; save",
        );
        // Nothing is told for QoS 0, so that idle telemetry costs no write.
        stored_down(version, "live 1 q0; save", "PUBLISH down q0 #0");
    }
}

#[test]
fn an_identifier_that_a_crash_would_forget_is_saved_before_it_is_sent() {
    for version in BOTH {
        let again = 1 + 49_152;
        stored_down(
            version,
            &format!("live 1 q2; room; live {again} q2; room; saved"),
            "PUBLISH down q2 #1; room; save; full; PUBLISH down q2 #49153",
        );
        // A device that guesses it is not heard.
        stored_down(
            version,
            &format!("live 1 q1; live {again} q1; puback 49153; saved; puback 49153"),
            &format!("PUBLISH down q1 #1; save; PUBLISH down q1 #49153; done {again}"),
        );
        down(
            version,
            &format!("live 1 q2; live {again} q2"),
            "PUBLISH down q2 #1; PUBLISH down q2 #49153",
        );
    }
}

#[test]
fn options_of_the_subscription() {
    let v5 = Version::V5;
    // [MQTT-3.8.3-3]; a publisher's DUP goes no further [MQTT-3.3.1-3], as the words of PUBLISH show.
    check(
        v5,
        "sub down q1 rh2 no-local; live 1 q1 own; live 2 q1; sub # q0 rh2; live 3 q1 own",
        "SUBACK 0x01; Skipped; PUBLISH down q1 #2; SUBACK 0x00; PUBLISH down q0 #0",
    );
    // [MQTT-3.3.1-12], [MQTT-3.3.1-13]
    check(
        v5,
        "sub down q0 rh2; live 1 q1 retain; sub down q0 rh2 rap; live 2 q1 retain; live 3 q1",
        "SUBACK 0x00; PUBLISH down q0 #0; detach down; SUBACK 0x00; PUBLISH down q0 #0 retain; PUBLISH down q0 #0",
    );
    check(
        Version::V3_1_1,
        "sub down q0 rh2; live 1 q1 retain",
        "SUBACK 0x00; PUBLISH down q0 #0",
    );
    for version in BOTH {
        // [MQTT-3.8.4-8]
        check(
            version,
            "sub down q1 rh2; live 1 q0; live 2 q1; live 3 q2",
            "SUBACK 0x01; PUBLISH down q0 #0; PUBLISH down q1 #2; PUBLISH down q1 #3",
        );
        // [MQTT-4.7.2-1]
        check(
            version,
            "sub # q0 rh2; live 1 q0 $SYS",
            "SUBACK 0x00; NotSubscribed",
        );
    }
}

#[test]
fn only_what_came_after_the_subscription_is_delivered() {
    for version in BOTH {
        check(
            version,
            "sub a q1 rh2 @5; live 6 q1 b; sub b q1 rh2 @9; live 8 q1 b; live 9 q1 a; live 10 q1 b; live 10 q1 b",
            "SUBACK 0x01; NotSubscribed; SUBACK 0x01; Skipped; PUBLISH a q1 #4; PUBLISH b q1 #5; Skipped",
        );
        // Subscribed again it misses nothing in between.
        check(
            version,
            "sub a q1 rh2 @5; sub a q0 rh2 @9; live 6 q1 a",
            "SUBACK 0x01; detach a; SUBACK 0x00; PUBLISH a q0 #0",
        );
        // What a backlog has with QoS 0 is not sent any more.
        down(
            version,
            "backlog 1 q0; backlog 2 q1; puback 2; live 2 q1; live 3 q1",
            "Missed; PUBLISH down q1 #2; done 2; Skipped; PUBLISH down q1 #3",
        );
    }
}

#[test]
fn retained_messages_come_before_what_is_live() {
    for version in BOTH {
        check(
            version,
            "sub down q1; room; retained down q0 q1 q2; room; puback 49153; puback 49154; room",
            "SUBACK 0x01; fetch down; full; PUBLISH down q0 #0 retain; PUBLISH down q1 #49153 retain;
             PUBLISH down q1 #49154 retain; full; done retained down; done retained down; room",
        );
        check(
            version,
            "sub down q1; retained down q1 q1 q1 q1; puback 49153; room; unsub down; puback 49154; room",
            "SUBACK 0x01; fetch down; 1 refused; PUBLISH down q1 #49153 retain; PUBLISH down q1 #49154 retain;
             done retained down; PUBLISH down q1 #49153 retain; full; detach down; UNSUBACK 0x00; done retained down; room",
        );
        check(
            version,
            "sub down q1; unsub down; retained down q1; room",
            "SUBACK 0x01; fetch down; detach down; UNSUBACK 0x00; room",
        );
        // Their packet identifiers are not known after a crash: one write for all.
        check_stored(
            version,
            "sub down q2; saved; retained down q1 q2; saved; crash; owed",
            "save; SUBACK 0x02; fetch down; save; PUBLISH down q1 #49153 retain; PUBLISH down q2 #49154 retain;
             CONNACK present; owed 49153 49154",
        );
    }
}

#[test]
fn retain_handling_says_when_retained_messages_are_sent() {
    // [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]
    check(
        Version::V5,
        "sub a q0; sub a q0; sub a q0 rh1; sub a q0 rh2; sub b q0 rh1; sub b q0 rh1; sub b q0 rh2",
        "SUBACK 0x00; fetch a; detach a; SUBACK 0x00; fetch a; detach a; SUBACK 0x00; detach a; SUBACK 0x00;
         SUBACK 0x00; fetch b; detach b; SUBACK 0x00; detach b; SUBACK 0x00",
    );
}

#[test]
fn a_share_is_delivered_by_its_own_subscription() {
    for version in BOTH {
        check(
            version,
            "sub $share/g/down q1; live 1 q2; share 1 q2; sub down q0 rh2; live 2 q2; puback 49153",
            "SUBACK 0x01; NotSubscribed; PUBLISH down q1 #49153; SUBACK 0x00; PUBLISH down q0 #0; done share 1",
        );
        check(
            version,
            "sub down q0 rh2; share 1 q2",
            "SUBACK 0x00; NotSubscribed",
        );
        // [MQTT-4.8.2-4]: QoS 2 is this device's for good, so its identifier is saved first.
        check_stored(
            version,
            "sub $share/g/down q2; saved; share 1 q1; share 2 q2; saved; crash; owed",
            "save; SUBACK 0x02; PUBLISH down q1 #49153; save; PUBLISH down q2 #49154; CONNACK present;
             owed 49153 49154",
        );
    }
}

#[test]
fn what_cannot_be_written_does_not_stop_the_next() {
    let now = Instant::now();
    let mut session = subscribed(Version::V5, now);
    for sequence in 1..10 {
        assert!(session.has_room());
        let sent = session.handle_downlink(downlink(QoS::AtLeastOnce, sequence));
        assert_eq!(sent, Delivered::Sent(QoS::AtLeastOnce));
        let Some(Output::Send(Packet::Publish(unwritable))) = session.poll_output() else {
            panic!("nothing to write");
        };
        let source = session.handle_undeliverable(unwritable.packet_id);
        assert_eq!(source, Some(Source::Stream(sequence)));
    }
    assert_eq!(session.handle_undeliverable(None), None);
    assert_eq!(
        (session.taken(), session.unacknowledged_downlinks()),
        (9, 0)
    );
}

#[test]
fn a_request_is_sent_past_the_window_and_leaves_nothing_behind() {
    let now = Instant::now();
    for version in [Version::V3_1_1, Version::V5] {
        let mut session = subscribed(version, now);
        let mut sequence = 0;
        while session.has_room() {
            sequence += 1;
            session.handle_downlink(downlink(QoS::AtLeastOnce, sequence));
        }
        outputs(&mut session);
        let before = session.record();
        let request = downlink(QoS::AtLeastOnce, 1).publish;
        assert!(session.handle_request(request.clone()));
        let Some(Output::Send(Packet::Publish(sent))) = session.poll_output() else {
            panic!("nothing to write");
        };
        assert_eq!((sent.qos, sent.packet_id), (QoS::AtMostOnce, None));
        assert_eq!(session.record(), before);
        let mut other = request;
        other.topic = "other".into();
        assert!(!session.handle_request(other));
        assert_eq!(session.poll_output(), None);
    }
}
