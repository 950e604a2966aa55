//! Steps `http` and `nats`: services that are asked about logins, and what becomes of logins when they are slow, broken or away (G24).

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::service::{Says, Service};
use crate::site::{Client, Site};
use crate::support::{Credentials, Device, Protocol, eventually};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

fn unavailable(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::V311 => 3,
        Protocol::V5 => 0x88,
    }
}

/// A login that no step but a service can know.
fn client<'a>(client_id: &'a str, password: &'a str) -> Client<'a> {
    Client {
        client_id,
        username: "somebody",
        password,
        ..Client::default()
    }
}

/// A service that answers is waited for.
const PATIENT_MS: u64 = 10_000;

/// What it says is remembered for longer than any test takes.
async fn over_http(service: &Service, timeout_ms: u64) -> Site {
    let http = format!(
        "{{ url = '{}', headers = {{ Authorization = 'Bearer hush-hush' }}, \
         limits = {{ timeout_ms = {timeout_ms}, cache_ttl_ms = 600_000, cache_denied_ttl_ms = 600_000, \
         breaker_failures = 5, breaker_wait_ms = 300 }} }}",
        service.url()
    );
    Site::start(&[
        ("JETWAY_AUTH_CHAIN", "['http', 'device']"),
        ("JETWAY_AUTH_HTTP", &http),
        ("JETWAY_LOG_FILTER", "trace"),
    ])
    .await
}

async fn over_nats(timeout_ms: u64) -> Site {
    let nats = format!("{{ limits = {{ timeout_ms = {timeout_ms}, breaker_failures = 100 }} }}");
    Site::start(&[
        ("JETWAY_AUTH_CHAIN", "['nats', 'device']"),
        ("JETWAY_AUTH_NATS", &nats),
        ("JETWAY_LOG_FILTER", "trace"),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_decides_over_http() {
    let service = Service::start(Says::Json(json!({"result": "allow"}))).await;
    let site = over_http(&service, PATIENT_MS).await;
    let mqtt = site.gateway.mqtt();
    let mut number = 0;
    // A name of its own for each, so that no answer is one that is remembered.
    let mut told = |says: Value, protocol| {
        number += 1;
        service.says(Says::Json(says));
        client(&format!("demo&n{number}"), "open sesame").log_in(protocol, mqtt)
    };
    for (protocol, bad, not_authorized) in [(Protocol::V311, 4, 5), (Protocol::V5, 0x86, 0x87)] {
        for (says, code) in [
            (json!({"result": "allow"}), 0),
            (json!({"result": "deny"}), bad),
            (
                json!({"result": "deny", "reason": "not_authorized"}),
                not_authorized,
            ),
            (
                json!({"result": "allow", "product": "demo", "device": "other"}),
                not_authorized,
            ),
            (json!({"result": "ignore"}), bad),
        ] {
            assert_eq!(told(says.clone(), protocol), code, "{says}");
        }
    }
    let (headers, question) = service.asked();
    assert_eq!(headers["authorization"], "Bearer hush-hush");
    assert_eq!(question["username"], "somebody");
    assert_eq!(question["password"], "open sesame");
    assert_eq!(question["listener"], mqtt.to_string());
    assert!(
        question["peer_address"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    // What it has no opinion on is the next step's matter.
    let device = site.gateway.add_devices("secret", 1).remove(0);
    let who = &device.credentials;
    let own = Client {
        client_id: &who.client_id,
        username: &who.username,
        password: &who.password,
        ..Client::default()
    };
    assert_eq!(own.log_in(Protocol::V5, mqtt), 0);
    // The same login is asked about once for a while.
    let times = service.times();
    for _ in 0..3 {
        assert_eq!(own.log_in(Protocol::V5, mqtt), 0);
    }
    assert_eq!(service.times(), times);
    let log = site.gateway.log();
    for secret in ["open sesame", "hush-hush", &who.password] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

/// What a service may say with its answer.
fn rules() -> Value {
    json!([
        {"effect": "deny", "action": "publish", "filter": "$thing/up/event/#"},
        {"effect": "allow", "action": "both", "filter": "$thing/+/property/{productID}/other"},
    ])
}

/// Logs the device `demo/n` in, which is held to these rules.
async fn is_held_to_rules(site: &Site, password: &str) {
    let who = Credentials {
        password: password.to_owned(),
        ..Credentials::new("demo", "n", "AAECAwQFBgcICQoLDA0ODxAREhM=")
    };
    let mut device = Device::connect(Protocol::V5, site.gateway.mqtt(), &who).await;
    for (topic, code) in [
        ("$thing/up/property/demo/n", 0),
        ("$thing/up/property/demo/other", 0),
        ("$thing/up/event/demo/n", 0x87),
        ("$thing/up/event/demo/other", 0x87),
        ("$thing/up/property/demo/third", 0x87),
        ("$thing/up/property/elsewhere/other", 0x87),
    ] {
        assert_eq!(device.publish_acked(topic, "{}").await, code, "{topic}");
    }
    assert_eq!(device.subscribe("$thing/down/property/demo/other").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g23_a_service_says_what_a_device_may_besides_and_what_it_may_not() {
    let answer = json!({"result": "allow", "rules": rules()});
    let service = Service::start(Says::Json(answer)).await;
    let site = over_http(&service, PATIENT_MS).await;
    is_held_to_rules(&site, "open sesame").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g24_a_service_that_is_slow_broken_or_away_denies_nobody() {
    let service = Service::start(Says::Json(json!({"result": "allow"}))).await;
    let site = over_http(&service, 2_000).await;
    let mqtt = site.gateway.mqtt();
    // One that is connected, and one that is remembered.
    let device = site.gateway.add_devices("before", 1).remove(0);
    let mut connected = Device::connect(Protocol::V5, mqtt, &device.credentials).await;
    let remembered = client("demo&remembered", "pw");
    assert_eq!(remembered.log_in(Protocol::V5, mqtt), 0);
    let mut number = 0;
    let mut fresh = |protocol| {
        number += 1;
        let begun = Instant::now();
        let code = client(&format!("demo&f{number}"), "pw").log_in(protocol, mqtt);
        (code, begun.elapsed())
    };
    for says in [
        Says::Nothing,
        Says::Status(500),
        Says::Status(401),
        Says::Status(404),
        Says::Json(json!({"result": "maybe"})),
        Says::Json(json!("<html>")),
    ] {
        service.says(says);
        for protocol in BOTH {
            let (code, took) = fresh(protocol);
            assert_eq!(code, unavailable(protocol));
            assert!(took < Duration::from_secs(10), "{took:?}");
        }
    }
    assert_eq!(remembered.log_in(Protocol::V5, mqtt), 0);
    let topic = format!("$thing/up/property/demo/{}", device.name);
    assert_eq!(connected.publish_acked(&topic, "still here").await, 0);
    // It comes back, and needs no restart for that.
    service.says(Says::Json(json!({"result": "allow"})));
    eventually("a login is accepted again", async || {
        match fresh(Protocol::V5).0 {
            0 => Ok(()),
            code => Err(format!("{code}")),
        }
    })
    .await;
    assert_eq!(fresh(Protocol::V311).0, 0);
    // A port at which nobody listens.
    drop(service);
    for protocol in BOTH {
        assert_eq!(fresh(protocol).0, unavailable(protocol));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_decides_over_nats_and_its_absence_denies_nobody() {
    let site = over_nats(PATIENT_MS).await;
    let mqtt = site.gateway.mqtt();
    for protocol in BOTH {
        // Nobody listens, which NATS says at once.
        let told = client("demo&early", "pw").log_in(protocol, mqtt);
        assert_eq!(told, unavailable(protocol));
    }
    let backend = site.backend().await;
    let mut questions = backend.subscribe("jetway.auth.connect").await;
    let nats = backend.client.clone();
    // Decides by the password.
    #[expect(clippy::disallowed_methods, reason = "a test has no exit policy")]
    let service = tokio::spawn(async move {
        while let Some(message) = questions.next().await {
            let question: Value = serde_json::from_slice(&message.payload).unwrap();
            let answer = match question["password"].as_str() {
                Some("let me in") => json!({"result": "allow"}),
                Some("within limits") => json!({"result": "allow", "rules": rules()}),
                Some("who?") => json!({"result": "ignore"}),
                _ => json!({"result": "deny", "reason": "not_authorized"}),
            };
            let reply = message.reply.unwrap();
            nats.publish(reply, answer.to_string().into())
                .await
                .unwrap();
        }
    });
    for (protocol, bad, not_authorized) in [(Protocol::V311, 4, 5), (Protocol::V5, 0x86, 0x87)] {
        for (password, code) in [
            ("let me in", 0),
            ("who?", bad),
            ("let me out", not_authorized),
        ] {
            let told = client("demo&one", password).log_in(protocol, mqtt);
            assert_eq!(told, code, "{password}");
        }
    }
    is_held_to_rules(&site, "within limits").await;
    service.abort();
    let log = site.gateway.log();
    for secret in ["let me in", "let me out"] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_says_nothing_over_nats_denies_nobody() {
    let site = over_nats(300).await;
    let backend = site.backend().await;
    let mut questions = backend.subscribe("jetway.auth.connect").await;
    for protocol in BOTH {
        let told = client("demo&one", "hm").log_in(protocol, site.gateway.mqtt());
        assert_eq!(told, unavailable(protocol));
        backend.next(&mut questions).await;
    }
}
