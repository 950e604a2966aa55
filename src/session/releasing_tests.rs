//! QoS 2 from the device where it is published at its PUBREL: held until then, in the order of everything else.

use super::*;

const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];

#[test]
fn a_message_is_held_until_its_release_and_nothing_is_saved() {
    // [MQTT-4.3.3-10], [MQTT-4.3.3-11]
    for version in BOTH {
        check_held(
            version,
            "recv 1 q2; stored 1; pubrel 1; stored 1; recv 1 q2",
            "hold 1; PUBREC 1 0x00; release 1; PUBCOMP 1 0x00; hold 1",
        );
        // G06: one message until PUBREL, and one release until PUBCOMP.
        check_held(
            version,
            "recv 1 q2; recv 1 q2; stored 1; recv 1 q2; pubrel 1; pubrel 1; stored 1; pubrel 1; nothing 1",
            "hold 1; PUBREC 1 0x00; PUBREC 1 0x00; release 1; PUBCOMP 1 0x00; release 1; PUBCOMP 1 0x00",
        );
        check_held(
            version,
            "recv 1 q2; save; stored 1; save",
            "hold 1; PUBREC 1 0x00",
        );
    }
}

#[test]
fn releases_and_messages_are_answered_in_their_order() {
    // [MQTT-4.6.0-2]
    for version in BOTH {
        check_held(
            version,
            "recv 1 q2; recv 2 q2; stored 2; pubrel 2; recv 3 q1; pubrel 1; stored 1; stored 2",
            "hold 1; hold 2; PUBREC 1 0x00; PUBREC 2 0x00; release 2; store 3; release 1;
             PUBCOMP 2 0x00; PUBACK 3 0x00; PUBCOMP 1 0x00",
        );
        // One that is not there is answered in its turn, and takes no receipt of another.
        check_held(
            version,
            "recv 1 q1; pubrel 8; recv 2 q1; pubrel 9; nothing 8; stored 1; nothing 9; stored 1",
            "store 1; release 8; store 2; release 9; PUBACK 1 0x00; PUBCOMP 8 0x00; PUBACK 2 0x00; PUBCOMP 9 0x00",
        );
    }
}

#[test]
fn what_an_earlier_connection_held_is_released() {
    for version in BOTH {
        check_held(
            version,
            "recv 1 q2; stored 1; reconnect; pubrel 1; stored 1",
            "hold 1; PUBREC 1 0x00; CONNACK present; release 1; PUBCOMP 1 0x00",
        );
        // Not answered: the device sends it again, and it takes the place of what may be held.
        check_held(
            version,
            "recv 1 q2; reconnect; recv 1 q2; stored 1",
            "hold 1; CONNACK present; hold 1; PUBREC 1 0x00",
        );
        check_held(
            version,
            "recv 1 q2; stored 1; pubrel 1; reconnect; pubrel 1; nothing 1",
            "hold 1; PUBREC 1 0x00; release 1; CONNACK present; release 1; PUBCOMP 1 0x00",
        );
    }
}

#[test]
fn the_identifier_is_in_use_until_pubcomp() {
    // [MQTT-2.2.1-3]
    for version in BOTH {
        check_held(version, "recv 1 q2; pubrel 1", "hold 1; error 0x82");
        check_held(
            version,
            "recv 1 q2; stored 1; pubrel 1; recv 1 q2",
            "hold 1; PUBREC 1 0x00; release 1; error 0x82",
        );
    }
    // [MQTT-3.3.4-9]: counted until then; a release of what an earlier connection sent is not.
    check_held(
        Version::V5,
        "recv 1 q2; recv 2 q2; recv 3 q2; stored 3; pubrel 1; recv 4 q2",
        "hold 1; hold 2; hold 3; PUBREC 1 0x00; PUBREC 2 0x00; PUBREC 3 0x00; release 1; error 0x93",
    );
    check_held(
        Version::V5,
        "pubrel 7; pubrel 8; recv 1 q2; recv 2 q2; recv 3 q2; recv 4 q2",
        "release 7; release 8; hold 1; hold 2; hold 3; error 0x93",
    );
}

#[test]
fn a_refusal_at_publish_is_told_and_one_at_release_ends_the_connection() {
    // [MQTT-4.3.3-9], [MQTT-3.3.5-2]
    check_held(
        Version::V5,
        "recv 1 q2; denied; recv 1 q2; refused; recv 1 q2; stored 1",
        "hold 1; PUBREC 1 0x87; hold 1; PUBREC 1 0x97; hold 1; PUBREC 1 0x00",
    );
    check_held(
        Version::V3_1_1,
        "recv 1 q2; denied; pubrel 1; nothing 1",
        "hold 1; PUBREC 1 0x00; release 1; PUBCOMP 1 0x00",
    );
    for version in BOTH {
        check_held(
            version,
            "recv 1 q2; stored 1; pubrel 1; refused; stored 1",
            "hold 1; PUBREC 1 0x00; release 1; close not_stored",
        );
    }
}

#[test]
fn only_what_may_be_held_is_looked_for_at_the_end() {
    let session = |at_release, stored| {
        let config = Config {
            publishes_at_release: at_release,
            ..config()
        };
        let agreement = agree(&connect(Version::V5), &config).unwrap();
        Session::new(
            agreement,
            &Arc::new(config),
            start(None, stored),
            Instant::now(),
        )
    };
    let mut passing = session(true, false);
    assert!(!passing.may_hold());
    let now = Instant::now();
    let published = Packet::Publish(publish(QoS::ExactlyOnce, 1));
    passing.handle_packet(now, published).unwrap();
    assert!(passing.may_hold());
    assert!(session(true, true).may_hold());
    assert!(!session(false, true).may_hold());
}
