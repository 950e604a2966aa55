//! The delivery stream is replaced by another one: sequences begin anew, and nothing of the old one can be read again.

use super::*;

const BOTH: [Version; 2] = [Version::V3_1_1, Version::V5];

/// Steps of a stored session that is subscribed to `down` with QoS 2 from sequence 7 on.
fn down(steps: &str, expected: &str) {
    for version in BOTH {
        let steps = format!("sub down q2 rh2 @7; saved; {steps}");
        check_stored(version, &steps, &format!("save; SUBACK 0x02; {expected}"));
    }
}

#[test]
fn everything_in_the_new_stream_is_new() {
    down(
        "live 9 q0; stream b; live 1 q1; live 1 q1; live 2 q2; puback 1; backlog 3 q1",
        "PUBLISH down q0 #0; PUBLISH down q1 #1; Skipped; PUBLISH down q2 #2; done 1; PUBLISH down q1 #3",
    );
    down(
        "live 9 q0; crash stream b; backlog 1 q1; crash; backlog 1 q1; save; saved; crash; backlog 1 q1",
        "PUBLISH down q0 #0; CONNACK present; PUBLISH down q1 #1; CONNACK present; PUBLISH down q1 #1; save;
         CONNACK present; Skipped",
    );
    // Its packet identifiers are counted from its beginning, whatever is subscribed to later.
    down(
        "stream b; live 2 q2; crash; unsub down; saved; sub down q2 rh2 @9; saved; live 11 q2",
        "PUBLISH down q2 #2; CONNACK present; detach down; save; UNSUBACK 0x00; save; SUBACK 0x02; PUBLISH down q2 #11",
    );
    // It is written although nothing was delivered.
    down("save; stream b; save; saved; save", "save");
    // The same stream is no other.
    down(
        "stream b; live 1 q1; stream b; live 1 q1; live 2 q1",
        "PUBLISH down q1 #1; Skipped; PUBLISH down q1 #2",
    );
}

#[test]
fn nothing_of_the_old_stream_is_sent_again() {
    // What the device may have of QoS 2 is released, and nothing else is said with that identifier before.
    down(
        "live 8 q1; live 9 q2; save; saved; crash stream b; owed; room; saved; backlog 2 q2; saved; pubcomp 2",
        "PUBLISH down q1 #1; PUBLISH down q2 #2; save; CONNACK present; save; owed; room; PUBREL 2 0x00;
         save; PUBLISH down q2 #49153; done gone",
    );
    // Each time until it is written that it is done, whichever record comes back.
    down(
        "live 8 q2; save; saved; crash stream b; crash; owed; crash late; pubcomp 1; crash; pubcomp 1; save; saved; crash; room",
        "PUBLISH down q2 #1; save; CONNACK present; save; CONNACK present; save; owed; CONNACK present; PUBREL 1 0x00;
         done gone; CONNACK present; PUBREL 1 0x00; done gone; save; CONNACK present; room",
    );
}

#[test]
fn what_is_on_its_way_is_finished_but_not_sent_again() {
    down(
        "live 8 q1; live 9 q2; stream b; room; puback 1; pubrec 2; saved; pubcomp 2; live 2 q2; saved",
        "PUBLISH down q1 #1; PUBLISH down q2 #2; full; done gone; save; PUBREL 2 0x00; done gone; save;
         PUBLISH down q2 #49153",
    );
    down(
        "live 8 q1; live 9 q2; stream b; save; saved; crash; owed; backlog 1 q1; pubcomp 2",
        "PUBLISH down q1 #1; PUBLISH down q2 #2; save; CONNACK present; PUBREL 2 0x00; owed; PUBLISH down q1 #1; done gone",
    );
    // Also what is read again meanwhile: an answer that comes late is of the new stream.
    down(
        "live 8 q2; live 9 q1; reconnect; stream b; resend 1; resend 2; gone 1; gone 2; saved; pubcomp 1; room",
        "PUBLISH down q2 #1; PUBLISH down q1 #2; CONNACK present; save; PUBREL 1 0x00; done gone; room",
    );
    // What was read again before is sent.
    down(
        "live 8 q1; live 9 q1; reconnect; resend 2; stream b; puback 2",
        "PUBLISH down q1 #1; PUBLISH down q1 #2; CONNACK present; PUBLISH down q1 #2 dup; done gone",
    );
}

#[test]
fn a_new_session_begins_in_the_stream_that_is_there() {
    let agreement = agree(&connect(Version::V5), &config()).unwrap();
    let start = Start {
        stream: "b".into(),
        ..start(None, true)
    };
    let session = Session::new(agreement, &Arc::new(config()), start, Instant::now());
    assert_eq!(&*session.record().stream, "b");
    assert!(!session.is_dirty(), "there is nothing to write");
}
