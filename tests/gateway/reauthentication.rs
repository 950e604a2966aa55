//! Re-authentication (MQTT 5 §4.12.1): AUTH at any time of a connection, beside everything else, and every way to break its rules.

use sqlx::SqlitePool;

use crate::authentication::{CONTINUE, METHOD, SUCCESS, challenge, log_in, scram};
use crate::site::{BOTH, Registered, SECRET, Site};
use crate::support::{Protocol, Scram, Wire, packet, to_hex};

const AGAIN: u8 = 0x19;

fn auth(reason: u8, data: &str) -> Vec<u8> {
    packet::auth(reason, Some(METHOD), Some(data))
}

/// Begins, and returns what the device is asked.
async fn begin(wire: &mut Wire, scram: &Scram) -> String {
    wire.send(&auth(AGAIN, &scram.first())).await;
    challenge(wire).await
}

/// The reasons for which this device was disconnected so far.
async fn reasons(site: &Site, who: &Registered, count: usize) -> Vec<String> {
    let backend = site.backend().await;
    let events = who.subject("application.device") + ".status.disconnected";
    let events = backend.wait_for("APPLICATION", &events, count).await;
    let reason = |event: serde_json::Value| event["data"]["reason"].as_str().map(str::to_owned);
    let events = events.iter().map(|event| event.text());
    events
        .filter_map(|event| reason(serde_json::from_str(event).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_device_proves_itself_again_while_everything_else_goes_on() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = log_in(&site, &who).await;
    let filter = who.topic("$thing/down/property");
    wire.send(&packet::subscribe(Protocol::V5, 1, &[(&filter, 0)]))
        .await;
    wire.expect_hex("90 04 00 01 00 00").await;
    let scram = scram(&who);
    for round in 1..=3 {
        let (last, server_last) = scram.last(&begin(&mut wire, &scram).await);
        let report = packet::publish(Protocol::V5, &who.reports(), Some(round), b"meanwhile");
        wire.send(&report).await;
        wire.expect_hex(&format!("40 02 {round:04x}")).await;
        let subject = who.subject("device.down.mqtt.thing");
        backend.publish(&subject, &[], "to you").await;
        let publish = wire.packet().await.expect("a PUBLISH");
        assert!(publish.ends_with(b"to you"), "{}", to_hex(&publish));
        wire.send(&auth(CONTINUE, &last)).await;
        let success = wire.packet().await.expect("an AUTH");
        assert_eq!(success, auth(SUCCESS, &server_last)); // [MQTT-4.12.0-5]
    }
    // One that waits to be asked.
    wire.send(&packet::auth(AGAIN, Some(METHOD), None)).await;
    let asked = wire.packet().await.expect("an AUTH");
    assert_eq!(asked, packet::auth(CONTINUE, Some(METHOD), None));
    wire.send(&auth(CONTINUE, &scram.first())).await;
    let (last, server_last) = scram.last(&challenge(&mut wire).await);
    wire.send(&auth(CONTINUE, &last)).await;
    assert_eq!(wire.packet().await, Some(auth(SUCCESS, &server_last)));
    wire.send(&packet::DISCONNECT).await;
    assert!(wire.closed().await.is_empty());
    assert_eq!(reasons(&site, &who, 1).await, ["normal"]);
}

#[tokio::test]
async fn a_device_that_proves_nothing_any_more_is_disconnected() {
    // [MQTT-4.12.1-2]
    let site = Site::shared().await;
    let (who, other) = (site.device(), site.device());
    let mut wire = log_in(&site, &who).await;
    let wrong = Scram::new(&who.credentials.client_id, &SECRET.replace('A', "B"));
    let (last, _) = wrong.last(&begin(&mut wire, &wrong).await);
    wire.send(&auth(CONTINUE, &last)).await;
    assert_eq!(wire.closed().await, packet::disconnect(0x87));
    assert_eq!(reasons(&site, &who, 1).await, ["not_authenticated"]);
    for first in ["hello", &scram(&other).first()] {
        let mut wire = log_in(&site, &who).await;
        wire.send(&auth(AGAIN, first)).await;
        assert_eq!(wire.closed().await, packet::disconnect(0x87), "{first}");
    }
}

#[tokio::test]
async fn a_step_out_of_turn_ends_the_connection() {
    let site = Site::shared().await;
    let who = site.device();
    let (again, next) = (auth(AGAIN, &scram(&who).first()), auth(CONTINUE, "x"));
    let other = |reason| packet::auth(reason, Some("SCRAM-SHA-1"), None);
    let success = packet::auth(SUCCESS, Some(METHOD), None);
    // During an exchange, and without one.
    for (begun, step, code) in [
        (true, again.clone(), 0x82),
        (true, other(CONTINUE), 0x82), // [MQTT-4.12.0-5]
        (true, success.clone(), 0x82),
        (true, vec![0xF0, 0], 0x82),
        (true, packet::auth(CONTINUE, None, None), 0x82),
        (false, next.clone(), 0x82),
        (false, other(AGAIN), 0x82), // [MQTT-4.12.1-1]
        (false, success, 0x82),
        (false, packet::auth(AGAIN, None, None), 0x82),
        (false, packet::auth(0x87, Some(METHOD), None), 0x82), // [MQTT-3.15.2-1]
        // Before the answer.
        (false, [again.clone(), again.clone()].concat(), 0x82),
        (false, [again, next].concat(), 0x82),
    ] {
        let mut wire = log_in(&site, &who).await;
        if begun {
            begin(&mut wire, &scram(&who)).await;
        }
        wire.send(&step).await;
        assert_eq!(
            wire.closed().await,
            packet::disconnect(code),
            "{begun} {}",
            to_hex(&step)
        );
    }
}

#[tokio::test]
async fn an_auth_of_a_device_without_a_method_ends_the_connection() {
    // [MQTT-4.12.0-6], [MQTT-4.12.0-7]
    let site = Site::shared().await;
    let who = site.device();
    for step in [
        auth(AGAIN, &scram(&who).first()),
        auth(CONTINUE, &scram(&who).first()),
        vec![0xF0, 0],
    ] {
        for protocol in BOTH {
            let address = site.gateway.mqtt();
            let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
            wire.send(&step).await;
            let goodbye = match protocol {
                Protocol::V311 => Vec::new(), // There is no AUTH.
                Protocol::V5 => packet::disconnect(0x82),
            };
            assert_eq!(wire.closed().await, goodbye, "{}", to_hex(&step));
        }
    }
}

#[tokio::test]
async fn a_device_that_does_not_answer_in_time_is_disconnected() {
    let limit_ms = "3000";
    let site = Site::start(&[("JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS", limit_ms)]).await;
    let who = site.device();
    let scram = scram(&who);
    let mut wire = log_in(&site, &who).await;
    let (last, server_last) = scram.last(&begin(&mut wire, &scram).await);
    wire.send(&auth(CONTINUE, &last)).await;
    assert_eq!(wire.packet().await, Some(auth(SUCCESS, &server_last)));
    // What is over has no end any more: another connection comes and goes in that time.
    let mut late = Wire::connect(site.gateway.mqtt()).await;
    assert!(late.closed().await.is_empty());
    assert!(wire.ping().await.is_empty());
    begin(&mut wire, &scram).await;
    assert_eq!(wire.closed().await, packet::disconnect(0x87));
    assert_eq!(reasons(&site, &who, 1).await, ["not_authenticated"]);
}

#[tokio::test]
async fn a_device_that_cannot_be_looked_up_is_told_that_the_server_is_busy() {
    // G24
    let uncached = [
        ("JETWAY_AUTH_CACHE_TTL_MS", "0"),
        ("JETWAY_AUTH_CACHE_UNKNOWN_TTL_MS", "0"),
    ];
    let site = Site::start(&uncached).await;
    let who = site.device();
    let mut wire = log_in(&site, &who).await;
    let database = SqlitePool::connect(&site.database_url()).await.unwrap();
    let rename = "ALTER TABLE device RENAME TO gone";
    sqlx::query(rename).execute(&database).await.unwrap();
    wire.send(&auth(AGAIN, &scram(&who).first())).await;
    assert_eq!(wire.closed().await, packet::disconnect(0x89));
    assert_eq!(reasons(&site, &who, 1).await, ["not_authenticated"]);
}
