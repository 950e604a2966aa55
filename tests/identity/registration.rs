//! Dynamic registration (profile §2.7) with real clients: the profile's vectors, and the holes that it names, closed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha1::Sha1;

use crate::site::{Client, Site};
use crate::support::{
    Connect, Credentials, Device, Protocol, Publish, eventually, jetway, jetway_fails, python,
    succeed,
};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

/// Of the profile's vectors: product `0A1`, device `dev001`.
const PRODUCT_SECRET: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlM=";
const DEVICE_SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
const CBC: &str = r#"{"msgToken":"reg-1","code":200,"data":{"len":88,"payload":"njGQvOwIFA3VzbWthuEoHi2crIVsyTO6CeLPiYBQLwMdwJuS23wtYM9Nj1aFUt/pR7GE6OyAKQ5cZMx0vBWEiNtNwevAwyTu7qw+cE2kV8r2dPf5+r1QTUEmqIX6EPJU"}}"#;
const ECB: &str = r#"{"msgToken":"reg-1","code":200,"data":{"len":88,"payload":"usn5y8Pm03oOEhc472aLNDKoOb9wExm9H/VhvXbJ5Qn7ZlDewti1O28d9zHwdzmY5ytaCb+3hE1RS17rNyGMPiqBpPQiIgyx9AZZ+cjYWAUQuWhbfKeKVApWFOwECQhR"}}"#;
const HEX: &str = r#"{"msgToken":"reg-1","code":200,"data":{"len":69,"payload":"{\"encryptionType\":2,\"psk\":\"000102030405060708090a0b0c0d0e0f10111213\"}"}}"#;
const BAD_SIGNATURE: &str = r#"{"msgToken":"reg-1","code":100006,"data":{"len":0,"payload":""}}"#;
const SIGNATURES: [&str; 2] = [
    "NGEzZDY2MzkxMzc4MTg1MDdlZmM3OGUwZjIxNjEzNDdhNzYxNGZjMQ==",
    "4A3D6639137818507EFC78E0F2161347A7614FC1",
];

/// A gateway with the product of the vectors, whose device is there.
struct Bench {
    site: Site,
}

impl Bench {
    async fn start(registration: &str, devices: &str) -> Self {
        let site = Site::start(&[
            ("JETWAY_AUTH_REGISTRATION", registration),
            ("JETWAY_LOG_FILTER", "trace"),
        ])
        .await;
        let bench = Self { site };
        bench.jetway(&["device", "add", "0A1", "dev001", "--secret", DEVICE_SECRET]);
        let open = ["product", "registration", "0A1", devices, "--secret"];
        let printed = bench.jetway(&[&open[..], &[PRODUCT_SECRET]].concat());
        assert_eq!(printed.trim(), PRODUCT_SECRET);
        bench
    }

    fn jetway(&self, arguments: &[&str]) -> String {
        let url = self.site.gateway.database_url();
        jetway(arguments, &[("JETWAY_DATABASE_URL", url)])
    }

    fn who(name: &str) -> Credentials {
        Credentials {
            client_id: format!("register&0A1&{name}"),
            username: "anything".to_owned(),
            password: "goes".to_owned(),
        }
    }

    async fn stranger(&self, protocol: Protocol, name: &str) -> Device {
        let who = Self::who(name);
        let mut device = Device::connect(protocol, self.site.gateway.mqtt(), &who).await;
        let answers = format!("$ext/down/register/0A1/{name}");
        assert_eq!(device.subscribe(&answers).await, 1);
        device
    }

    /// The answer to a request on a connection of its own.
    async fn ask(&self, protocol: Protocol, name: &str, request: Value) -> String {
        let mut device = self.stranger(protocol, name).await;
        let answer = ask(&mut device, name, request).await;
        device.disconnect().await;
        answer
    }
}

async fn ask(device: &mut Device, name: &str, request: Value) -> String {
    let topic = format!("$ext/up/register/0A1/{name}");
    assert_eq!(device.publish_acked(&topic, request.to_string()).await, 0);
    let answer = device.next().await;
    assert_eq!(answer.topic, format!("$ext/down/register/0A1/{name}"));
    answer.text().to_owned()
}

/// The vectors' request.
fn vector(signature: &str, encoding: &str) -> Value {
    json!({"msgToken": "reg-1", "payload": {
        "nonce": 2_428_685_019_i64, "timestamp": 1_756_780_254, "signature": signature, "retEnc": encoding,
    }})
}

/// A request of a device of product `0A1`, signed.
fn signed(name: &str, nonce: i64, timestamp_s: u64, encoding: &str) -> Value {
    let source = format!("deviceName={name}&nonce={nonce}&productID=0A1&timestamp={timestamp_s}");
    let mut mac = Hmac::<Sha1>::new_from_slice(PRODUCT_SECRET.as_bytes()).unwrap();
    mac.update(source.as_bytes());
    let hex: String = (mac.finalize().into_bytes().iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json!({"payload": {"nonce": nonce, "timestamp": timestamp_s, "signature": hex, "retEnc": encoding}})
}

fn now_s() -> u64 {
    jetway::telemetry::now_unix_ms() / 1_000
}

fn code(answer: &str) -> i64 {
    let answer: Value = serde_json::from_str(answer).unwrap();
    answer["code"].as_i64().unwrap()
}

/// The device's secret in an answer that openssl decrypts.
fn decrypted(answer: &str, cipher: &str) -> String {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let bytes = STANDARD
        .decode(answer["data"]["payload"].as_str().unwrap())
        .unwrap();
    let hex = |text: &str| -> String { text.bytes().map(|byte| format!("{byte:02x}")).collect() };
    let mut command = Command::new("openssl");
    command.args(["enc", "-d", cipher, "-K", &hex(&PRODUCT_SECRET[..16])]);
    if cipher.ends_with("cbc") {
        command.args(["-iv", &hex("0000000000000000")]);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let plain: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plain["encryptionType"], 1);
    plain["psk"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_vectors_of_the_profile_are_answered_to_the_byte() {
    let bench = Bench::start("{ enabled = true, replay_window_s = 0 }", "known").await;
    for (protocol, signature) in BOTH.into_iter().zip(SIGNATURES) {
        for (encoding, expected) in [("aes128cbc", CBC), ("aes128ecb", ECB), ("hex", HEX)] {
            let answer = bench.ask(protocol, "dev001", vector(signature, encoding));
            assert_eq!(answer.await, expected, "{encoding} {protocol:?}");
        }
        let wrong = vector("4a3d", "hex");
        assert_eq!(bench.ask(protocol, "dev001", wrong).await, BAD_SIGNATURE);
    }
    // Until the device logs in with it, once.
    let own = Credentials::new("0A1", "dev001", DEVICE_SECRET);
    let mqtt = bench.site.gateway.mqtt();
    let mut device = Device::connect(Protocol::V5, mqtt, &own).await;
    let answers = "$ext/down/register/0A1/dev001";
    assert_eq!(device.subscribe(answers).await, 1);
    let asked = vector(SIGNATURES[0], "hex");
    assert_eq!(code(&ask(&mut device, "dev001", asked).await), 100_019);
    device.disconnect().await;
    eventually("the first login is written", async || {
        let asked = vector(SIGNATURES[0], "hex");
        match code(&Box::pin(bench.ask(Protocol::V5, "dev001", asked)).await) {
            100_019 => Ok(()),
            code => Err(format!("{code}")),
        }
    })
    .await;
    let log = bench.site.gateway.log();
    for secret in [PRODUCT_SECRET, DEVICE_SECRET, "000102030405060708090a0b"] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}

#[tokio::test]
async fn a_new_device_registers_and_logs_in() {
    let bench = Bench::start("{ enabled = true }", "new").await;
    let mqtt = bench.site.gateway.mqtt();
    for (name, encoding, cipher) in [
        ("one", "aes128cbc", "-aes-128-cbc"),
        ("two", "aes128ecb", "-aes-128-ecb"),
    ] {
        let answer = bench
            .ask(Protocol::V5, name, signed(name, 1, now_s(), encoding))
            .await;
        let secret = decrypted(&answer, cipher);
        assert_eq!(STANDARD.decode(&secret).unwrap().len(), 20);
        // Until it logs in it is told the same.
        let again = signed(name, 2, now_s(), encoding);
        let again = bench.ask(Protocol::V311, name, again).await;
        assert_eq!(decrypted(&again, cipher), secret);
        let own = Credentials::new("0A1", name, &secret);
        Device::connect(Protocol::V5, mqtt, &own)
            .await
            .disconnect()
            .await;
    }
    // The same with paho from beginning to end.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/identity/register.py");
    let mut command = python(script);
    command.args([&mqtt.port().to_string(), "0A1", "three", PRODUCT_SECRET]);
    assert_eq!(succeed(&mut command).trim(), "registered and logged in");
}

#[tokio::test]
async fn who_has_no_secret_may_do_nothing_else() {
    let bench = Bench::start("{ enabled = true, requests_max = 3 }", "known").await;
    let mqtt = bench.site.gateway.mqtt();
    let own = Credentials::new("0A1", "dev001", DEVICE_SECRET);
    let mut device = Device::connect(Protocol::V5, mqtt, &own).await;
    for (protocol, denied, refused) in [(Protocol::V311, 0x80, 0), (Protocol::V5, 0x87, 0x87)] {
        let mut stranger = bench.stranger(protocol, "dev001").await;
        for filter in [
            "$thing/down/property/0A1/dev001",
            "$ext/down/ntp/0A1/dev001",
            "$ext/down/+/0A1/dev001",
            "$ext/down/register/0A1/other",
            "$ext/down/register/0A1/+",
            "$ext/down/register/+/dev001",
            "$ext/+/register/0A1/dev001",
            "$ext/#",
            "#",
        ] {
            assert_eq!(stranger.subscribe(filter).await, denied, "{filter}");
        }
        for topic in [
            "$thing/up/property/0A1/dev001",
            "$ext/up/ntp/0A1/dev001",
            "$ext/up/register/0A1/other",
            "$gateway/up/topo/0A1/dev001",
            "$thing/up/0A1/dev001",
        ] {
            let told = stranger.publish_acked(topic, "{}").await;
            assert_eq!(told, refused, "{topic}");
        }
        stranger.disconnect().await;
        let mut will = Connect::new(protocol, mqtt, &Bench::who("dev001"));
        will.will = Some(Publish::new("$ext/up/register/0A1/dev001", "{}"));
        assert!(Device::connect_with(will).await.is_err());
    }
    // The device itself is where it was, and nobody heard of the strangers.
    let topic = "$thing/up/property/0A1/dev001";
    assert_eq!(device.publish_acked(topic, "still here").await, 0);
    let backend = bench.site.backend().await;
    let stored = backend.messages("DEVICE_UP", "device.up.mqtt.>").await;
    assert_eq!(stored.len(), 1);
    // So many requests and no more.
    let mut stranger = bench.stranger(Protocol::V5, "dev001").await;
    for _ in 0..3 {
        let topic = "$ext/up/register/0A1/dev001";
        assert_eq!(stranger.publish_acked(topic, "no request").await, 0);
    }
    stranger.publish(Publish::new("$ext/up/register/0A1/dev001", "no request"));
    assert_eq!(stranger.closed().await.reason, Some(0x97));
}

#[tokio::test]
async fn requests_are_good_once_and_in_their_time() {
    let bench = Bench::start("{ enabled = true, replay_window_s = 60 }", "known").await;
    let mut device = bench.stranger(Protocol::V5, "dev001").await;
    let request = signed("dev001", 7, now_s(), "hex");
    assert_eq!(
        code(&ask(&mut device, "dev001", request.clone()).await),
        200
    );
    assert_eq!(
        code(&ask(&mut device, "dev001", request.clone()).await),
        100_006
    );
    // What is not signed counts for nothing.
    let forged = vector("4a3d", "hex");
    assert_eq!(code(&ask(&mut device, "dev001", forged).await), 100_006);
    for (nonce, timestamp_s, expected) in [
        (8, now_s(), 200),
        (9, now_s() - 120, 100_006),
        (10, now_s() + 120, 100_006),
        (11, 0, 100_006),
    ] {
        let request = signed("dev001", nonce, timestamp_s, "hex");
        let answer = ask(&mut device, "dev001", request.clone()).await;
        assert_eq!(code(&answer), expected, "{timestamp_s}");
    }
}

#[tokio::test]
async fn each_refusal_has_its_number() {
    let bench = Bench::start("{ enabled = true }", "known").await;
    let fresh = |name: &str, nonce| signed(name, nonce, now_s(), "hex");
    let answer = bench.ask(Protocol::V5, "unknown", fresh("unknown", 1));
    assert_eq!(code(&answer.await), 100_009);
    bench.jetway(&["device", "block", "0A1", "dev001"]);
    let answer = bench.ask(Protocol::V5, "dev001", fresh("dev001", 2));
    assert_eq!(code(&answer.await), 100_009);
    bench.jetway(&["device", "enable", "0A1", "dev001"]);
    bench.jetway(&["product", "registration", "0A1", "closed"]);
    let answer = bench.ask(Protocol::V5, "dev001", fresh("dev001", 3));
    assert_eq!(code(&answer.await), 100_021);
    let listed = bench.jetway(&["product", "ls"]);
    assert!(listed.contains("\tclosed\n"), "{listed}");
    // A secret that is too short to be a key is refused where it is set.
    let short = [
        "product",
        "registration",
        "0A1",
        "new",
        "--secret",
        "0123456789abcde",
    ];
    let url = bench.site.gateway.database_url();
    let (_, said) = jetway_fails(&short, &[("JETWAY_DATABASE_URL", url)]);
    assert!(said.contains("expected at least 16 bytes"), "{said}");
    // A product without one gets a random one, which is printed.
    let printed = bench.jetway(&["product", "registration", "0A1", "known"]);
    assert_eq!(STANDARD.decode(printed.trim()).unwrap().len(), 20);
    let listed = bench.jetway(&["product", "ls"]);
    assert!(listed.contains("\tknown\n"), "{listed}");
    assert!(!listed.contains(printed.trim()), "{listed}");
}

#[tokio::test]
async fn nobody_registers_unless_it_is_switched_on() {
    let bench = Bench::start("{}", "new").await;
    for (protocol, bad) in [(Protocol::V311, 4), (Protocol::V5, 0x86)] {
        let client = Client {
            client_id: "register&0A1&dev001",
            username: "anything",
            password: "goes",
            ..Client::default()
        };
        assert_eq!(client.log_in(protocol, bench.site.gateway.mqtt()), bad);
    }
}
