//! Nothing secret is logged, at any level: not what devices prove themselves with, not the passwords of databases and NATS, not what a
//! payload says.

use async_nats::{Client, ConnectOptions, HeaderMap};
use serde_json::json;
use tempfile::TempDir;

use crate::site::{PRODUCT, SECRET, Site};
use crate::support::{
    Credentials, Device, Gateway, Program, Protocol, Publish, RunOptions, Scram, Server, Wire,
    free_ports, jetway, nats_server_binary, packet,
};

const NATS_PASSWORD: &str = "nats-password-that-nobody-may-see";
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
    services.flush().await.unwrap();
    assert_eq!(device.next().await.payload, PAYLOAD);
    // A topic of somebody else, and one that nothing can be made of.
    device.publish(Publish::new("$thing/up/property/P/d1", PAYLOAD));
    device.acked().await.unwrap();
    device.disconnect().await;
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
    jetway(&add, &[("JETWAY_DATABASE_URL", &database_url)]);
    let (_server, nats_url) = nats().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats_url.clone(),
        database_url,
        environment: vec![("JETWAY_LOG_FILTER".to_owned(), "trace".to_owned())],
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
    let log = gateway.log();
    assert!(log.contains("DEBUG"), "the level is in force");
    assert!(log.contains("P&d1"), "logins are logged");
    let secrets = [SECRET, NATS_PASSWORD, PAYLOAD, &token, &proof];
    for secret in secrets.into_iter().chain(wrong) {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "logged: {secret}");
    }
}
