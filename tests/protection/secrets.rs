//! Nothing secret is logged, at any level: not what devices prove themselves with, not the passwords of databases and NATS, not what a
//! payload says.

use async_nats::{Client, ConnectOptions, HeaderMap};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha1::Sha1;
use tempfile::TempDir;

use crate::site::{PRODUCT, SECRET, Site};
use crate::support::{
    Credentials, Device, Gateway, Program, Protocol, Publish, RunOptions, Scram, Server, Wire,
    free_ports, jetway, nats_server_binary, packet,
};

const NATS_PASSWORD: &str = "nats-password-that-nobody-may-see";
const PRODUCT_SECRET: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlM=";
const PAYLOAD: &str = "payload-that-is-nobodys-business";

/// A nats-server that wants a password.
async fn nats() -> (Server, String) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let config = json!({
        "host": "127.0.0.1",
        "port": port,
        "jetstream": { "store_dir": folder.path().join("jetstream") },
        "authorization": { "users": [{ "user": "jetway", "password": NATS_PASSWORD }] },
    });
    let file = folder.path().join("nats-server.conf");
    std::fs::write(&file, config.to_string()).unwrap();
    let program = Program {
        name: "nats-server",
        stop: "KILL",
        command: vec![nats_server_binary().await.into(), "-c".into(), file.into()],
        environment: Vec::new(),
    };
    let url = format!("nats://jetway:{NATS_PASSWORD}@127.0.0.1:{port}");
    (Server::start(folder, program), url)
}

/// A device logs in, reports and is told something.
async fn talk(gateway: &Gateway, services: &Client, protocol: Protocol) {
    let mut device = Device::connect(protocol, gateway.mqtt(), &Site::device(0)).await;
    let topic = Site::topic(0);
    device.publish(Publish::new(&topic, PAYLOAD));
    assert_eq!(device.acked().await.unwrap().reason, 0);
    assert_eq!(device.subscribe(&topic.replace("/up/", "/down/")).await, 1);
    let mut headers = HeaderMap::new();
    headers.insert("Jw-Type", "property");
    let subject = "device.down.thing.P.d0";
    let sent = services.publish_with_headers(subject, headers, PAYLOAD.into());
    sent.await.unwrap();
    assert_eq!(device.next().await.payload, PAYLOAD);
    ask(services, &mut device).await;
    // A topic of somebody else, and one that nothing can be made of.
    device.publish(Publish::new("$thing/up/property/P/d1", PAYLOAD));
    device.acked().await.unwrap();
    device.disconnect().await;
}

/// A service asks the device, and is answered.
async fn ask(services: &Client, device: &mut Device) {
    assert_eq!(device.subscribe("$rpc/down/+/P/d0").await, 1);
    let asked = services.request("device.rpc.mqtt.rpc.P.d0", PAYLOAD.into());
    let answered = async {
        let question = device.next().await;
        assert_eq!(question.payload, PAYLOAD);
        let topic = question.topic.replace("/down/", "/up/");
        assert_eq!(device.publish_acked(&topic, PAYLOAD).await, 0);
    };
    let (answer, ()) = tokio::join!(asked, answered);
    assert_eq!(answer.unwrap().payload, PAYLOAD);
}

/// A device registers; its signature, and its secret in both forms.
async fn register(gateway: &Gateway) -> [String; 3] {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let now_s = jetway::telemetry::now_unix_ms() / 1_000;
    let mut mac = Hmac::<Sha1>::new_from_slice(PRODUCT_SECRET.as_bytes()).unwrap();
    mac.update(format!("deviceName=new&nonce=7&productID=P&timestamp={now_s}").as_bytes());
    let signature = hex(&mac.finalize().into_bytes());
    let who = Credentials {
        client_id: "register&P&new".to_owned(),
        ..Site::device(0)
    };
    let mut device = Device::connect(Protocol::V5, gateway.mqtt(), &who).await;
    assert_eq!(device.subscribe("$ext/down/register/P/new").await, 1);
    let asked = json!({ "payload": {
        "nonce": 7, "timestamp": now_s, "signature": signature, "retEnc": "hex",
    } });
    let topic = "$ext/up/register/P/new";
    assert_eq!(device.publish_acked(topic, asked.to_string()).await, 0);
    let answer: Value = serde_json::from_str(device.next().await.text()).unwrap();
    let told: Value = serde_json::from_str(answer["data"]["payload"].as_str().unwrap()).unwrap();
    let secret = told["psk"].as_str().unwrap().to_owned();
    let bytes = secret.as_bytes().chunks(2);
    let bytes = bytes.map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 16).unwrap());
    let encoded = STANDARD.encode(bytes.collect::<Vec<_>>());
    [signature, secret, encoded]
}

/// A login by SCRAM; the proof.
async fn scram(gateway: &Gateway) -> String {
    const METHOD: &str = "SCRAM-SHA-256";
    let who = Credentials {
        username: String::new(),
        password: String::new(),
        ..Site::device(2)
    };
    let scram = Scram::new(&who.client_id, SECRET);
    let properties = packet::authentication(Some(METHOD), Some(&scram.first()));
    let connect = packet::connect_with_properties(Protocol::V5, &who, 60, &properties);
    let mut wire = Wire::connect(gateway.mqtt()).await;
    wire.send(&connect).await;
    let auth = wire.packet().await.expect("a challenge");
    let at = auth.windows(2).position(|bytes| bytes == b"r=").unwrap();
    let (last, _) = scram.last(std::str::from_utf8(&auth[at..]).unwrap());
    wire.send(&packet::auth(0x18, Some(METHOD), Some(&last)))
        .await;
    wire.accepted().await;
    last.split_once("p=").unwrap().1.to_owned()
}

#[tokio::test]
async fn no_secret_is_logged_at_any_level() {
    let state = tempfile::tempdir().unwrap();
    let database_url = format!("sqlite:{}", state.path().join("devices.db").display());
    let add = [
        "device", "add", PRODUCT, "d", "--secret", SECRET, "--count", "3",
    ];
    let database = [("JETWAY_DATABASE_URL", &*database_url)];
    jetway(&add, &database);
    let open = ["product", "registration", PRODUCT, "new", "--secret"];
    jetway(&[&open[..], &[PRODUCT_SECRET]].concat(), &database);
    let (_server, nats_url) = nats().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats_url.clone(),
        database_url,
        environment: [
            ("JETWAY_LOG_FILTER", "trace"),
            ("JETWAY_AUTH_REGISTRATION", "{ enabled = true }"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        ..RunOptions::default()
    })
    .await;
    let password = NATS_PASSWORD.to_owned();
    let services = ConnectOptions::with_user_and_password("jetway".to_owned(), password);
    let services = services.connect(nats_url).await.unwrap();
    for protocol in [Protocol::V311, Protocol::V5] {
        talk(&gateway, &services, protocol).await;
    }
    let token = Site::device(0)
        .password
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let wrong = ["wrong-password-of-a-device", "77aa77aa;hmacsha256"];
    for password in wrong {
        let who = Credentials {
            password: password.to_owned(),
            ..Site::device(1)
        };
        let mut wire = Wire::connect(gateway.mqtt()).await;
        wire.send(&packet::connect(Protocol::V5, &who, 60)).await;
        wire.closed().await;
    }
    let proof = scram(&gateway).await;
    let registered = register(&gateway).await;
    let log = gateway.log();
    assert!(log.contains("DEBUG"), "the level is in force");
    assert!(log.contains("P&d1"), "logins are logged");
    assert!(log.contains("P/new"), "registrations are logged");
    let secrets = [
        SECRET,
        PRODUCT_SECRET,
        NATS_PASSWORD,
        PAYLOAD,
        &token,
        &proof,
    ];
    let registered = registered.iter().map(String::as_str);
    for secret in secrets.into_iter().chain(wrong).chain(registered) {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "logged: {secret}");
    }
}
