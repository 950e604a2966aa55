//! Gateway devices and the sub-devices behind them: bound with their own signatures, acted for while they are bound, and gone with
//! their gateway device.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jetway::telemetry;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::authentication::{self, METHOD};
use crate::site::{BOTH, Registered, SECRET, Site};
use crate::support::{Backend, Connect, Device, Gateway, Protocol, eventually, jetway, packet};

const NOT_AUTHORIZED: u8 = 0x87;
const PARAMETER: u64 = 100_006;
const BOUND_TO_ANOTHER: u64 = 2_000_005;
const NOT_BOUND: u64 = 2_000_006;

/// A sub-device as a request names it, signed with its secret.
pub(crate) fn signed(device: &Registered, secret: &str) -> Value {
    signed_at(device, secret, 1_754_000_000)
}

/// The same at a time, in Unix seconds.
fn signed_at(device: &Registered, secret: &str, timestamp: u64) -> Value {
    let text = format!("{};{};48213;{timestamp}", device.product, device.name);
    let mut hmac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(secret).unwrap()).unwrap();
    hmac.update(text.as_bytes());
    let signature = hmac.finalize().into_bytes();
    let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "productID": device.product, "deviceName": device.name, "random": 48213,
        "timestamp": timestamp, "signMethod": "hmacsha256", "signature": signature,
    })
}

pub(crate) fn named(device: &Registered) -> Value {
    json!({ "productID": device.product, "deviceName": device.name })
}

/// A gateway device that hears its answers.
pub(crate) struct Asking {
    who: Registered,
    pub(crate) device: Device,
}

impl Asking {
    pub(crate) async fn connect(gateway: &Gateway, protocol: Protocol, who: &Registered) -> Self {
        let device = Device::connect(protocol, gateway.mqtt(), &who.credentials).await;
        let mut asking = Self {
            who: who.clone(),
            device,
        };
        for kind in ["topo", "status"] {
            let filter = who.topic(&format!("$gateway/down/{kind}"));
            assert_eq!(asking.device.subscribe(&filter).await, 1);
        }
        asking
    }

    /// Asks, and gives the answer.
    async fn ask(&mut self, kind: &str, method: &str, devices: &[Value]) -> Value {
        let request =
            json!({ "method": method, "msgToken": "t", "payload": { "devices": devices } });
        let topic = self.who.topic(&format!("$gateway/up/{kind}"));
        assert_eq!(
            self.device.publish_acked(&topic, request.to_string()).await,
            0
        );
        let answer = self.device.next().await;
        assert_eq!(
            answer.topic,
            self.who.topic(&format!("$gateway/down/{kind}"))
        );
        let answer: Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(
            (&answer["method"], &answer["msgToken"]),
            (&json!(method), &json!("t"))
        );
        answer
    }

    pub(crate) async fn code(&mut self, kind: &str, method: &str, devices: &[Value]) -> u64 {
        self.ask(kind, method, devices).await["code"]
            .as_u64()
            .unwrap()
    }

    /// Whether it may speak for a device: what it says is stored as that device's.
    async fn may_speak(&mut self, backend: &Backend, device: &Registered) -> bool {
        let before = device.stored(backend).await.len();
        let reason = self.device.publish_acked(&device.reports(), "{}").await;
        let stored = device.stored(backend).await.len() > before;
        assert!(!stored || reason == 0);
        stored
    }
}

pub(crate) fn operator(site: &Site, command: &[&str]) {
    let (database, nats) = (site.database_url(), site.nats.url());
    let environment = [
        ("JETWAY_DATABASE_URL", database.as_str()),
        ("JETWAY_NATS_URL", nats.as_str()),
    ];
    jetway(command, &environment);
}

pub(crate) fn id(device: &Registered) -> String {
    format!("{}/{}", device.product, device.name)
}

/// The status events of a device so far: its word, the reason, and the connection.
async fn presence(backend: &Backend, device: &Registered, count: usize) -> Vec<(String, String)> {
    let filter = device.subject("application.device") + ".status.*";
    let events = backend.wait_for("APPLICATION", &filter, count).await;
    let event = |event: &crate::support::Stored| {
        let body: Value = serde_json::from_str(event.text()).unwrap();
        let word = event.subject.rsplit('.').next().unwrap().to_owned();
        let reason = body["data"]["reason"].as_str().unwrap_or_default();
        (word, reason.to_owned())
    };
    events.iter().map(event).collect()
}

#[tokio::test]
async fn a_gateway_device_acts_for_what_it_has_bound_and_no_longer() {
    // G22, G23
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, sub, other) = (site.device(), site.device(), site.device());
        let mut gateway = Asking::connect(&site.gateway, protocol, &who).await;
        let refused = match protocol {
            Protocol::V311 => 0x80,
            Protocol::V5 => NOT_AUTHORIZED,
        };
        let commands = sub.topic("$thing/down/property");
        assert!(!gateway.may_speak(&backend, &sub).await);
        assert_eq!(gateway.device.subscribe(&commands).await, refused);
        let wrong = signed(&sub, "ICEiIyQlJicoKSorLC0uLzAxMjM=");
        for devices in [&[wrong][..], &[named(&sub)], &[]] {
            assert_eq!(gateway.code("topo", "bind", devices).await, PARAMETER);
        }
        assert!(!gateway.may_speak(&backend, &sub).await);

        let answer = gateway.ask("topo", "bind", &[signed(&sub, SECRET)]).await;
        assert_eq!(answer["code"], 200);
        assert_eq!(answer["payload"]["devices"], json!([named(&sub)]));
        assert!(gateway.may_speak(&backend, &sub).await, "behind the answer");
        assert!(!gateway.may_speak(&backend, &other).await);
        assert_eq!(gateway.device.subscribe(&commands).await, 1);
        for filter in [
            format!("$thing/down/property/{}/+", sub.product),
            format!("$thing/down/property/+/{}", sub.name),
            other.topic("$thing/down/property"),
            sub.topic("$thing/up/property"),
        ] {
            assert_eq!(gateway.device.subscribe(&filter).await, refused, "{filter}");
        }
        backend
            .publish(&sub.subject("device.down.thing"), &[], "1")
            .await;
        let command = gateway.device.next().await;
        assert_eq!((&*command.topic, command.text()), (&*commands, "1"));
        let topology = gateway.ask("topo", "getTopo", &[]).await;
        let listed = &topology["payload"]["devices"][0];
        assert_eq!(
            (&listed["deviceName"], &listed["code"]),
            (&json!(sub.name), &json!(200))
        );

        let mut thief = Asking::connect(&site.gateway, protocol, &other).await;
        let code = thief.code("topo", "bind", &[signed(&sub, SECRET)]).await;
        assert_eq!(code, BOUND_TO_ANOTHER);
        assert_eq!(
            thief.code("topo", "unbind", &[named(&sub)]).await,
            NOT_BOUND
        );
        assert!(!thief.may_speak(&backend, &sub).await);

        assert_eq!(gateway.code("topo", "unbind", &[named(&sub)]).await, 200);
        assert!(!gateway.may_speak(&backend, &sub).await);
        backend
            .publish(&sub.subject("device.down.thing"), &[], "2")
            .await;
        assert_eq!(
            gateway.code("topo", "unbind", &[named(&sub)]).await,
            NOT_BOUND
        );
        assert_eq!(
            gateway.device.waiting(),
            0,
            "nothing of the device came before the answer"
        );
        assert_eq!(gateway.device.subscribe(&commands).await, refused);
        let topology = gateway.ask("topo", "getTopo", &[]).await;
        assert_eq!(topology["payload"]["devices"], json!([]));
    }
}

#[tokio::test]
async fn a_signature_binds_once_and_in_its_time_where_that_is_asked_for() {
    let window = [("JETWAY_AUTH_BINDING", "{ replay_window_s = 300 }")];
    let site = Site::start(&window).await;
    let second = site.further_gateway().await;
    for protocol in BOTH {
        let now = telemetry::now_unix_ms() / 1_000;
        let (who, other, sub) = (site.device(), site.device(), site.device());
        let mut former = Asking::connect(&site.gateway, protocol, &who).await;
        let mut elsewhere = Asking::connect(&second, protocol, &other).await;
        for timestamp in [1_754_000_000, now - 310, now + 310] {
            let bind = [signed_at(&sub, SECRET, timestamp)];
            assert_eq!(former.code("topo", "bind", &bind).await, PARAMETER);
        }
        // Who is not signed for uses nothing up.
        let bind = [signed_at(&sub, SECRET, now)];
        let with_wrong = [bind[0].clone(), named(&other)];
        assert_eq!(former.code("topo", "bind", &with_wrong).await, PARAMETER);
        assert_eq!(former.code("topo", "bind", &bind).await, 200);
        operator(&site, &["binding", "remove", &id(&who), &id(&sub)]);
        assert_eq!(former.code("topo", "bind", &bind).await, PARAMETER);
        assert_eq!(elsewhere.code("topo", "bind", &bind).await, PARAMETER);
        let mut as_text = signed_at(&sub, SECRET, now + 1);
        as_text["timestamp"] = json!((now + 1).to_string());
        assert_eq!(elsewhere.code("topo", "bind", &[as_text]).await, 200);
    }
}

#[tokio::test]
async fn who_is_online_behind_a_gateway_device_goes_with_it() {
    // G28
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, sub, other) = (site.device(), site.device(), site.device());
        let mut gateway = Asking::connect(&site.gateway, protocol, &who).await;
        let bind = [signed(&sub, SECRET)];
        assert_eq!(gateway.code("topo", "bind", &bind).await, 200);
        let both = [named(&sub), named(&other)];
        assert_eq!(gateway.code("status", "online", &both).await, NOT_BOUND);
        // Said twice it is one connection.
        assert_eq!(gateway.code("status", "online", &[named(&sub)]).await, 200);
        assert_eq!(gateway.code("status", "offline", &[named(&sub)]).await, 200);
        assert_eq!(gateway.code("status", "online", &[named(&sub)]).await, 200);
        drop(gateway);
        let expected = [
            ("connected", ""),
            ("disconnected", "normal"),
            ("connected", ""),
            ("disconnected", "gateway_lost"),
        ];
        let found = presence(&backend, &sub, 4).await;
        let found: Vec<_> = found.iter().map(|(word, why)| (&**word, &**why)).collect();
        assert_eq!(found, expected);
        assert_eq!(presence(&backend, &other, 0).await, []);
    }
}

#[tokio::test]
async fn what_the_operator_changes_counts_at_once_on_whichever_node() {
    let site = Site::start(&[]).await;
    let second = site.further_gateway().await;
    let backend = site.backend().await;
    for (gateway, protocol) in [&site.gateway, &second].into_iter().zip(BOTH) {
        let (who, sub) = (site.device(), site.device());
        let mut asking = Asking::connect(gateway, protocol, &who).await;
        for (ends, begins) in [
            (&["binding", "remove", &id(&who), &id(&sub)], None),
            (
                &["device", "block", &sub.product, &sub.name],
                Some(["device", "enable", &sub.product, &sub.name]),
            ),
        ] {
            operator(&site, &["binding", "add", &id(&who), &id(&sub)]);
            until(&mut asking, &backend, &sub, true).await;
            assert_eq!(asking.code("status", "online", &[named(&sub)]).await, 200);
            operator(&site, ends);
            until(&mut asking, &backend, &sub, false).await;
            assert_eq!(
                asking.code("status", "online", &[named(&sub)]).await,
                NOT_BOUND
            );
            if let Some(begins) = begins {
                operator(&site, &begins);
                until(&mut asking, &backend, &sub, true).await;
            }
        }
        operator(&site, &["device", "remove", &sub.product, &sub.name]);
        until(&mut asking, &backend, &sub, false).await;
        let found = presence(&backend, &sub, 4).await;
        let revoked = ("disconnected".to_owned(), "revoked".to_owned());
        assert_eq!((&found[1], &found[3]), (&revoked, &revoked));
    }
}

async fn until(gateway: &mut Asking, backend: &Backend, sub: &Registered, may: bool) {
    eventually("the binding counts", async || {
        match gateway.may_speak(backend, sub).await == may {
            true => Ok(()),
            false => Err(format!("not yet {may}")),
        }
    })
    .await;
}

#[tokio::test]
async fn sub_devices_are_lost_with_the_node_of_their_gateway_device() {
    let site = Site::start(&[]).await;
    let mut second = site.further_gateway().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, sub) = (site.device(), site.device());
        let mut gateway = Asking::connect(&second, protocol, &who).await;
        let bind = [signed(&sub, SECRET)];
        assert_eq!(gateway.code("topo", "bind", &bind).await, 200);
        assert_eq!(gateway.code("status", "online", &[named(&sub)]).await, 200);
        second.kill9().await;
        let found = presence(&backend, &sub, 2).await;
        assert_eq!(found[1].1, "gateway_lost", "{found:?}");
        let found = presence(&backend, &who, 2).await;
        assert_eq!(found[1].1, "node_lost", "{found:?}");
        second = site.further_gateway().await;
    }
}

#[tokio::test]
async fn a_gateway_device_that_logs_in_acts_for_what_was_bound_meanwhile() {
    let site = Site::shared().await;
    let (who, sub) = (site.device(), site.device());
    let scram = authentication::scram(&who);
    let mut wire = authentication::connect(&site, &who, METHOD, Some(&scram.first()), &[]).await;
    let challenge = authentication::challenge(&mut wire).await;
    operator(&site, &["binding", "add", &id(&who), &id(&sub)]);
    all_notices_are_heard(&site, Protocol::V5).await;
    let proof = scram.last(&challenge).0;
    wire.send(&packet::auth(0x18, Some(METHOD), Some(&proof)))
        .await;
    wire.accepted().await;
    let report = packet::publish(Protocol::V5, &sub.reports(), Some(1), b"{}");
    wire.send(&report).await;
    wire.expect_hex("40 02 00 01").await;
}

/// Notices are heard in their order: behind one of its own the gateway knows of all before it.
async fn all_notices_are_heard(site: &Site, protocol: Protocol) {
    let backend = site.backend().await;
    let (other, probe) = (site.device(), site.device());
    let mut other = Asking::connect(&site.gateway, protocol, &other).await;
    operator(site, &["binding", "add", &id(&other.who), &id(&probe)]);
    until(&mut other, &backend, &probe, true).await;
}

#[tokio::test]
async fn a_session_resumes_what_is_still_bound() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, kept, lost) = (site.device(), site.device(), site.device());
        for sub in [&kept, &lost] {
            operator(&site, &["binding", "add", &id(&who), &id(sub)]);
        }
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.clean = false;
        connect.properties =
            (protocol == Protocol::V5).then(|| rumqttc::v5::mqttbytes::v5::ConnectProperties {
                session_expiry_interval: Some(600),
                ..Default::default()
            });
        let mut device = Device::connect_with(connect.clone()).await.unwrap();
        for sub in [&kept, &lost] {
            let filter = sub.topic("$thing/down/property");
            assert_eq!(device.subscribe(&filter).await, 1);
        }
        device.disconnect().await;
        for sub in [&lost, &kept] {
            backend
                .publish(&sub.subject("device.down.thing"), &[], "missed")
                .await;
        }
        operator(&site, &["binding", "remove", &id(&who), &id(&lost)]);
        all_notices_are_heard(&site, protocol).await;
        let mut device = Device::connect_with(connect.clone()).await.unwrap();
        assert!(device.session_present);
        let missed = device.next().await;
        assert_eq!(missed.topic, kept.topic("$thing/down/property"));
        for sub in [&lost, &kept] {
            backend
                .publish(&sub.subject("device.down.thing"), &[], "live")
                .await;
        }
        let live = device.next().await;
        assert_eq!(
            (&*live.topic, live.text()),
            (&*kept.topic("$thing/down/property"), "live")
        );
    }
}

#[tokio::test]
async fn a_pack_report_counts_for_sub_devices_that_are_bound() {
    let site = Site::start(&[("JETWAY_ROLES", r#"["gateway","events"]"#)]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, sub, other) = (site.device(), site.device(), site.device());
        let mut gateway = Asking::connect(&site.gateway, protocol, &who).await;
        let bind = [signed(&sub, SECRET)];
        assert_eq!(gateway.code("topo", "bind", &bind).await, 200);
        let mut named = [named(&other), named(&sub)];
        for device in &mut named {
            device["properties"] = json!([{ "params": { "temp": 1 } }]);
        }
        let pack = json!({ "method": "packReport", "msgToken": "t", "subDevices": named });
        let (topic, pack) = (who.reports(), pack.to_string());
        assert_eq!(gateway.device.publish_acked(&topic, pack).await, 0);
        let reports = |device: &Registered| device.subject("application.device") + ".report.>";
        let report = backend.wait_for("APPLICATION", &reports(&sub), 1).await;
        assert!(report[0].text().contains(r#"{"temp":1}"#));
        // The pack's events are stored in one piece.
        assert_eq!(
            backend
                .messages("APPLICATION", &reports(&other))
                .await
                .len(),
            0
        );
    }
}
