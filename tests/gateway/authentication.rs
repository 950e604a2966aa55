//! Enhanced authentication before CONNACK (MQTT 5 §4.12): SCRAM-SHA-256 in AUTH packets, and every way to break its rules.

use crate::site::{Registered, SECRET, Site};
use crate::support::{Credentials, Device, Protocol, Scram, Wire, packet, to_hex};

pub(crate) const METHOD: &str = "SCRAM-SHA-256";
pub(crate) const SUCCESS: u8 = 0x00;
pub(crate) const CONTINUE: u8 = 0x18;

/// The exchange of a device that knows its secret.
pub(crate) fn scram(who: &Registered) -> Scram {
    Scram::new(&who.credentials.client_id, SECRET)
}

/// Who has nothing but a client id to show.
fn nameless(who: &Registered) -> Credentials {
    Credentials {
        username: String::new(),
        password: String::new(),
        ..who.credentials.clone()
    }
}

/// Sends a CONNECT with an Authentication Method and further properties.
pub(crate) async fn connect(
    site: &Site,
    who: &Registered,
    method: &str,
    data: Option<&str>,
    further: &[u8],
) -> Wire {
    let properties = [&packet::authentication(Some(method), data), further].concat();
    let connect = packet::connect_with_properties(Protocol::V5, &nameless(who), 60, &properties);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&connect).await;
    wire
}

/// Expects the AUTH that challenges the device, and returns its data.
pub(crate) async fn challenge(wire: &mut Wire) -> String {
    let auth = wire.packet().await.expect("an AUTH");
    let at = auth.windows(2).position(|bytes| bytes == b"r=");
    let at = at.unwrap_or_else(|| panic!("no challenge: {}", to_hex(&auth)));
    let data = String::from_utf8(auth[at..].to_vec()).unwrap();
    // [MQTT-4.12.0-2], [MQTT-4.12.0-5]
    assert_eq!(auth, packet::auth(CONTINUE, Some(METHOD), Some(&data)));
    data
}

/// Logs a device in by SCRAM.
pub(crate) async fn log_in(site: &Site, who: &Registered) -> Wire {
    let scram = scram(who);
    let mut wire = connect(site, who, METHOD, Some(&scram.first()), &[]).await;
    finish(&mut wire, &scram).await;
    wire
}

/// The rest of a login, from the challenge on.
pub(crate) async fn finish(wire: &mut Wire, scram: &Scram) {
    let (last, server_last) = scram.last(&challenge(wire).await);
    wire.send(&packet::auth(CONTINUE, Some(METHOD), Some(&last)))
        .await;
    let connack = wire.packet().await.expect("a CONNACK");
    assert_eq!((connack[0], connack[3]), (0x20, SUCCESS));
    // [MQTT-4.12.0-5]
    let said = packet::authentication(Some(METHOD), Some(&server_last));
    let is_said = connack.windows(said.len()).any(|bytes| bytes == said);
    assert!(is_said, "{}", to_hex(&connack));
}

#[tokio::test]
async fn a_device_proves_its_secret_and_the_gateway_that_it_knows_it() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = log_in(&site, &who).await;
    wire.send(&packet::publish(
        Protocol::V5,
        &who.reports(),
        Some(1),
        b"in",
    ))
    .await;
    wire.expect_hex("40 02 00 01").await;
    assert_eq!(who.stored(&backend).await.len(), 1);

    // One that waits to be asked gets an AUTH without data. It takes over.
    let scram = scram(&who);
    let mut waiting = connect(&site, &who, METHOD, None, &[]).await;
    let asked = waiting.packet().await.expect("an AUTH");
    assert_eq!(asked, packet::auth(CONTINUE, Some(METHOD), None));
    assert!(wire.ping().await.is_empty(), "nobody is taken over yet");
    let first = packet::auth(CONTINUE, Some(METHOD), Some(&scram.first()));
    waiting.send(&first).await;
    finish(&mut waiting, &scram).await;
    assert_eq!(wire.closed().await, packet::disconnect(0x8E));
}

#[tokio::test]
async fn without_a_method_no_word_is_said_of_any() {
    // [MQTT-4.12.0-6]
    let site = Site::shared().await;
    let who = site.device();
    let mut device = Device::connect(Protocol::V5, site.gateway.mqtt(), &who.credentials).await;
    let said = device.connack_properties.clone().expect("MQTT 5 has some");
    assert_eq!(said.authentication_method, None);
    assert_eq!(said.authentication_data, None);
    // rumqttc would fail at an AUTH.
    assert_eq!(device.publish_acked(&who.reports(), "in").await, 0);
    device.disconnect().await;
}

#[tokio::test]
async fn a_connect_that_proves_nothing_is_refused() {
    let site = Site::shared().await;
    let (who, other) = (site.device(), site.device());
    let client_id = &who.credentials.client_id;
    let unknown = Registered::new("flows", "nobody");
    let first = scram(&who).first();
    for (who, method, data, code) in [
        (&who, "SCRAM-SHA-1", &first, 0x8C), // [MQTT-4.12.0-1]
        (&who, "", &first, 0x8C),
        (&who, METHOD, &"hello".to_owned(), 0x86), // [MQTT-4.12.0-4]
        (&other, METHOD, &first, 0x86),
    ] {
        let mut wire = connect(&site, who, method, Some(data), &[]).await;
        let refused = wire.closed().await;
        assert_eq!(refused, [0x20, 3, 0, code, 0], "{method} {data}");
    }
    for (who, scram) in [
        (&who, Scram::new(client_id, "another")),
        (&unknown, scram(&unknown)),
    ] {
        let mut wire = connect(&site, who, METHOD, Some(&scram.first()), &[]).await;
        let (last, _) = scram.last(&challenge(&mut wire).await);
        wire.send(&packet::auth(CONTINUE, Some(METHOD), Some(&last)))
            .await;
        // [MQTT-4.12.0-4]
        assert_eq!(wire.closed().await, [0x20, 3, 0, 0x86, 0]);
    }
    // Authentication Data without a method.
    let data = packet::authentication(None, Some(&first));
    let connect = packet::connect_with_properties(Protocol::V5, &nameless(&who), 60, &data);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&connect).await;
    assert_eq!(wire.closed().await, [0x20, 3, 0, 0x82, 0]);
}

#[tokio::test]
async fn nothing_but_the_next_step_may_come_before_connack() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let report = packet::publish(Protocol::V5, &who.reports(), Some(1), b"early");
    for (early, code) in [
        (packet::auth(0x19, Some(METHOD), None), 0x82), // [MQTT-4.12.0-3]
        (packet::auth(SUCCESS, Some(METHOD), None), 0x82),
        (vec![0xF0, 0], 0x82),
        (packet::auth(CONTINUE, Some("SCRAM-SHA-1"), None), 0x82), // [MQTT-4.12.0-5]
        (packet::auth(CONTINUE, None, None), 0x82),
        (packet::auth(0x01, Some(METHOD), None), 0x82), // [MQTT-3.15.2-1]
        (vec![0xF1, 0], 0x81),                          // [MQTT-3.15.1-1]
        (report, 0x82),                                 // [MQTT-3.1.2-30]
        (packet::PINGREQ.to_vec(), 0x82),
        (packet::subscribe(Protocol::V5, 1, &[("#", 0)]), 0x82),
        (packet::connect(Protocol::V5, &who.credentials, 60), 0x82),
    ] {
        let mut wire = connect(&site, &who, METHOD, Some(&scram(&who).first()), &[]).await;
        challenge(&mut wire).await;
        wire.send(&early).await;
        let refused = wire.closed().await;
        assert_eq!(refused, [0x20, 3, 0, code, 0], "{}", to_hex(&early));
    }
    let mut wire = connect(&site, &who, METHOD, None, &[]).await;
    wire.packet().await.expect("an AUTH");
    wire.send(&packet::DISCONNECT).await;
    assert!(wire.closed().await.is_empty(), "it has left by itself");
    assert!(who.stored(&backend).await.is_empty());
}

#[tokio::test]
async fn a_challenge_that_the_device_does_not_take_is_not_sent() {
    // [MQTT-3.1.2-24]
    let site = Site::shared().await;
    let who = site.device();
    for (packet_bytes_max, answer) in [
        (100_u32, &[0x20, 3, 0, 0x95, 0][..]),
        (5, &[0x20, 3, 0, 0x95, 0]),
        (4, &[]),
    ] {
        let further = [&[0x27][..], &packet_bytes_max.to_be_bytes()].concat();
        let first = scram(&who).first();
        let mut wire = connect(&site, &who, METHOD, Some(&first), &further).await;
        assert_eq!(wire.closed().await, answer, "{packet_bytes_max}");
    }
}

#[tokio::test]
async fn a_device_that_does_not_answer_in_time_is_refused() {
    // G15
    let site = Site::start(&[("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", "3000")]).await;
    let who = site.device();
    let count = "jetway_connects_rejected_total{reason=\"timeout\"}";
    let before = site.gateway.metric(count).await;
    let mut wire = connect(&site, &who, METHOD, Some(&scram(&who).first()), &[]).await;
    challenge(&mut wire).await;
    assert_eq!(wire.closed().await, [0x20, 3, 0, 0x87, 0]);
    site.counted(count, before).await;
}
