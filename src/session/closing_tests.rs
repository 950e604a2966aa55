//! How a session stays alive, and how it ends.

use super::*;

#[test]
fn silence_for_one_and_a_half_times_the_keep_alive_ends_the_session() {
    // [MQTT-3.1.2-22]
    let start = Instant::now();
    let mut session = subscribed(Version::V5, start);
    assert_eq!(session.poll_timeout(), start + Duration::from_secs(15));
    session.handle_timeout(start + Duration::from_millis(14_999));
    assert_eq!(outputs(&mut session), Vec::<String>::new());
    // What the gateway sends does not count (G03).
    session.handle_downlink(downlink(QoS::AtLeastOnce, 1));
    outputs(&mut session);
    session.handle_timeout(start + Duration::from_secs(15));
    assert_eq!(outputs(&mut session), ["close keep_alive_timeout"]);
}

#[test]
fn a_ping_is_answered_and_counts_as_life() {
    // [MQTT-3.12.4-1]
    let start = Instant::now();
    let mut session = session(Version::V3_1_1, start);
    session
        .handle_packet(start + Duration::from_secs(9), Packet::Pingreq)
        .unwrap();
    assert_eq!(outputs(&mut session), ["PINGRESP"]);
    assert_eq!(session.poll_timeout(), start + Duration::from_secs(24));
}

#[test]
fn disconnect_says_whether_the_will_is_published() {
    // [MQTT-3.14.4-3], [MQTT-3.14.2-2]
    let now = Instant::now();
    for (reason, word, will) in [
        (ReasonCode::Success, "close normal", false),
        (
            ReasonCode::DisconnectWithWillMessage,
            "close normal_with_will",
            true,
        ),
    ] {
        let mut session = session(Version::V5, now);
        session
            .handle_packet(now, Packet::Disconnect(Disconnect::new(reason)))
            .unwrap();
        let Some(Output::Close(close)) = session.poll_output() else {
            panic!("not closed");
        };
        assert_eq!(format!("close {}", close.as_str()), word);
        assert_eq!(close.publishes_will(), will);
    }
}

#[test]
fn disconnect_may_ask_for_an_expiry_only_if_connect_did() {
    // [MQTT-3.14.2-2]
    let now = Instant::now();
    let mut expiring = Disconnect::new(ReasonCode::Success);
    expiring.session_expiry_interval = Some(5);
    let expiring = Packet::Disconnect(expiring);
    let refused = session(Version::V5, now).handle_packet(now, expiring);
    assert_eq!(refused, Err(ReasonCode::ProtocolError));

    let limit = config().session_expiry_max_s;
    for (asked, granted) in [
        (None, 60),
        (Some(0), 0),
        (Some(5), 5),
        (Some(u32::MAX), limit),
    ] {
        let mut asking = connect(Version::V5);
        asking.properties.session_expiry_interval = Some(60);
        let agreement = agree(&asking, &config()).unwrap();
        let mut session = Session::new(agreement, &Arc::new(config()), start(None, true), now);
        session.poll_output();
        assert_eq!(session.session_expiry_s(), 60);
        let mut leaving = Disconnect::new(ReasonCode::Success);
        leaving.session_expiry_interval = asked;
        session
            .handle_packet(now, Packet::Disconnect(leaving))
            .unwrap();
        assert_eq!(outputs(&mut session), ["close normal"]);
        assert_eq!(session.session_expiry_s(), granted);
    }
}

#[test]
fn packets_out_of_place_are_protocol_errors() {
    // [MQTT-3.1.0-2]
    let now = Instant::now();
    for packet in [
        Packet::Connect(Box::new(connect(Version::V5))),
        Packet::Pingresp,
    ] {
        let name = format!("{packet:?}");
        let refused = session(Version::V5, now).handle_packet(now, packet);
        assert_eq!(refused, Err(ReasonCode::ProtocolError), "{name}");
    }
}

#[test]
fn nothing_is_acknowledged_behind_a_close() {
    let now = Instant::now();
    let mut session = session(Version::V5, now);
    session
        .handle_packet(now, Packet::Publish(publish(QoS::AtLeastOnce, 1)))
        .unwrap();
    outputs(&mut session);
    session.close(CloseReason::ServerShuttingDown);
    session.handle_stored(1);
    session.close(CloseReason::SocketClosed);
    assert_eq!(outputs(&mut session), ["close server_shutting_down"]);
}

#[test]
fn a_session_is_settled_when_all_is_answered_and_saved() {
    let now = Instant::now();
    let agreement = agree(&connect(Version::V5), &config()).unwrap();
    let mut session = Session::new(agreement, &Arc::new(config()), start(None, true), now);
    let publish = Packet::Publish(publish(QoS::ExactlyOnce, 1));
    session.handle_packet(now, publish).unwrap();
    assert_eq!(outputs(&mut session).last().unwrap(), "save");
    assert_eq!((session.is_settled(), session.unpublished()), (false, 1));
    session.handle_saved();
    assert_eq!(outputs(&mut session), ["store 1 as s.1.1"]);
    assert_eq!((session.is_settled(), session.unpublished()), (false, 0));
    session.handle_stored(1);
    assert!(session.is_settled(), "the answer is in the output");
    let pubrel = Packet::Pubrel(Ack::new(PacketId::new(1).unwrap(), ReasonCode::Success));
    session.handle_packet(now, pubrel).unwrap();
    assert!(!session.is_settled(), "PUBCOMP waits for the record");
    session.close(CloseReason::SocketClosed);
    session.handle_saved();
    assert_eq!(
        outputs(&mut session),
        ["PUBREC 1 0x00", "close socket_closed"]
    );
}
