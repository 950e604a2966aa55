//! QoS 2 from the device: one message for each packet identifier until PUBREL, whatever breaks in between.

use super::*;

const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];

#[test]
fn a_message_is_stored_once_and_answered_in_publish_order() {
    // [MQTT-4.3.3-10], [MQTT-4.3.3-11]
    for version in BOTH {
        check(
            version,
            "recv 1 q2; stored 1; pubrel 1",
            "store 1; PUBREC 1 0x00; PUBCOMP 1 0x00",
        );
        // G06: silently while it is on its way, with PUBREC again afterwards; after PUBREL it is a new one.
        check(
            version,
            "recv 1 q2; recv 1 q2; stored 1; recv 1 q2; pubrel 1; recv 1 q2",
            "store 1; PUBREC 1 0x00; PUBREC 1 0x00; PUBCOMP 1 0x00; store 1",
        );
        // [MQTT-4.6.0-2]
        check(
            version,
            "recv 1 q2; recv 2 q1; recv 3 q2; stored 2; stored 1",
            "store 1; store 2; store 3; PUBREC 1 0x00; PUBACK 2 0x00; PUBREC 3 0x00",
        );
    }
}

#[test]
fn a_pubrel_that_nothing_waits_for_is_answered() {
    // Not 0x92: a device that asks again after a crash has done nothing wrong.
    for version in BOTH {
        check(version, "pubrel 7", "PUBCOMP 7 0x00");
    }
    check(Version::V5, "recv 1 q2; pubrel 1", "store 1; error 0x82");
}

#[test]
fn a_refusal_frees_the_packet_identifier() {
    // [MQTT-4.3.3-9], [MQTT-3.3.5-2]
    check(
        Version::V5,
        "recv 1 q2; denied; recv 1 q2; refused; recv 1 q2; stored 1",
        "store 1; PUBREC 1 0x87; store 1; PUBREC 1 0x97; store 1; PUBREC 1 0x00",
    );
    check(
        Version::V3_1_1,
        "recv 1 q2; denied; recv 1 q2; pubrel 1",
        "store 1; PUBREC 1 0x00; PUBREC 1 0x00; PUBCOMP 1 0x00",
    );
    check(
        Version::V3_1_1,
        "recv 1 q2; refused; stored 1",
        "store 1; close not_stored",
    );
}

#[test]
fn receive_maximum_counts_until_pubcomp_or_a_pubrec_that_refuses() {
    // [MQTT-3.3.4-9]
    check(
        Version::V5,
        "recv 1 q2; recv 2 q2; stored 2; recv 3 q1; recv 4 q1",
        "store 1; store 2; PUBREC 1 0x00; PUBREC 2 0x00; store 3; error 0x93",
    );
    check(
        Version::V5,
        "recv 1 q2; recv 2 q2; stored 1; refused; recv 3 q1; recv 1 q2; recv 4 q2; recv 5 q2",
        "store 1; store 2; PUBREC 1 0x00; PUBREC 2 0x97; store 3; PUBREC 1 0x00; store 4; error 0x93",
    );
    check(
        Version::V5,
        "recv 1 q2; recv 2 q2; recv 3 q2; stored 3; pubrel 2; recv 4 q2",
        "store 1; store 2; store 3; PUBREC 1 0x00; PUBREC 2 0x00; PUBREC 3 0x00; PUBCOMP 2 0x00; store 4",
    );
    // 3.1.1 knows no such maximum: what waits for its PUBREL does not hold it back, which its PUBREL would wait behind.
    check(
        Version::V3_1_1,
        "recv 1 q2; recv 2 q2; recv 3 q2; stored 3; recv 4 q2; recv 5 q1; recv 6 q2",
        "store 1; store 2; store 3; PUBREC 1 0x00; PUBREC 2 0x00; PUBREC 3 0x00; store 4; store 5; error 0x93",
    );
}

#[test]
fn the_id_of_a_message_is_saved_before_it_is_published() {
    for version in BOTH {
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; pubrel 1; saved",
            "save; store 1 as s.1.1; PUBREC 1 0x00; save; PUBCOMP 1 0x00",
        );
        // One write at a time; what comes meanwhile shares the next.
        check_stored(
            version,
            "recv 1 q2; recv 2 q2; recv 3 q2; saved; saved; stored 3",
            "save; store 1 as s.1.1; save; store 2 as s.2.2; store 3 as s.3.3;
             PUBREC 1 0x00; PUBREC 2 0x00; PUBREC 3 0x00",
        );
        // G-ORDER: what is behind waits with it, and costs no write.
        check_stored(
            version,
            "recv 1 q2; recv 2 q1; recv 0 q0; saved; recv 3 q1; stored 4",
            "save; store 1 as s.1.1; store 2; store 0; store 3; PUBREC 1 0x00; PUBACK 2 0x00; PUBACK 3 0x00",
        );
        check_stored(
            version,
            "recv 1 q1; recv 0 q0; stored 2",
            "store 1; store 0; PUBACK 1 0x00",
        );
    }
}

#[test]
fn a_message_is_stored_once_whenever_the_gateway_crashes() {
    // [MQTT-4.3.3-10], G-ONCE. What the device sends again is published under the same id, or not at all.
    for version in BOTH {
        // Before the write, nothing was published.
        check_stored(
            version,
            "recv 1 q2; crash; recv 1 q2; saved; stored 1",
            "save; CONNACK; save; store 1 as s.1.1; PUBREC 1 0x00",
        );
        // The write was done, and nobody knew yet.
        check_stored(
            version,
            "recv 1 q2; crash late; recv 1 q2; stored 1",
            "save; CONNACK present; store 1 as s.1.1; PUBREC 1 0x00",
        );
        // After it, the stream knows the id again: before, or after it was stored.
        for steps in [
            "recv 1 q2; saved; crash; recv 1 q2; recv 1 q2; stored 1; recv 1 q2; pubrel 1; saved",
            "recv 1 q2; saved; reconnect; recv 1 q2; recv 1 q2; stored 1; recv 1 q2; pubrel 1; saved",
        ] {
            check_stored(
                version,
                steps,
                "save; store 1 as s.1.1; CONNACK present; store 1 as s.1.1; PUBREC 1 0x00; PUBREC 1 0x00;
                 save; PUBCOMP 1 0x00",
            );
        }
        // The device has its PUBREC: it sends PUBREL, and no message.
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; crash; pubrel 1; saved",
            "save; store 1 as s.1.1; PUBREC 1 0x00; CONNACK present; save; PUBCOMP 1 0x00",
        );
        // What is known to be stored is not published again.
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; save; saved; crash; recv 1 q2; pubrel 1; saved",
            "save; store 1 as s.1.1; PUBREC 1 0x00; save; CONNACK present; PUBREC 1 0x00; save; PUBCOMP 1 0x00",
        );
        // PUBREL came, and its write was not done, or nobody knew yet; both are answered.
        let begin = "save; store 1 as s.1.1; PUBREC 1 0x00; save; CONNACK present";
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; pubrel 1; crash; pubrel 1; saved",
            &format!("{begin}; save; PUBCOMP 1 0x00"),
        );
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; pubrel 1; crash late; pubrel 1",
            &format!("{begin}; PUBCOMP 1 0x00"),
        );
        // The same identifier is a new message then, and has an id of its own.
        check_stored(
            version,
            "recv 1 q2; saved; stored 1; pubrel 1; saved; crash; recv 1 q2; saved",
            "save; store 1 as s.1.1; PUBREC 1 0x00; save; PUBCOMP 1 0x00; CONNACK present; save; store 1 as s.1.2",
        );
    }
}

#[test]
fn what_3_1_1_was_cut_off_for_is_not_known_to_be_stored() {
    check_stored(
        Version::V3_1_1,
        "recv 1 q2; saved; refused; stored 1; reconnect; recv 1 q2",
        "save; store 1 as s.1.1; close not_stored; CONNACK present; store 1 as s.1.1",
    );
}

#[test]
fn receive_maximum_counts_this_connection_only() {
    check_stored(
        Version::V5,
        "recv 1 q2; recv 2 q2; recv 3 q2; saved; saved; stored 3; reconnect;
         recv 4 q1; recv 5 q1; recv 6 q1; recv 7 q1",
        "save; store 1 as s.1.1; save; store 2 as s.2.2; store 3 as s.3.3; PUBREC 1 0x00; PUBREC 2 0x00; PUBREC 3 0x00;
         CONNACK present; store 4; store 5; store 6; error 0x93",
    );
}
