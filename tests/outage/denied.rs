//! The gateway's user may not publish to a subject: what goes there is refused, and nothing else waits for it (G-ISOLATE).

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;

use super::rig::{Publishing, add_devices, database_url, topic};
use super::support::{
    DemoDevice, Device, Gateway, Program, Protocol, Publish, RunOptions, Server, free_ports,
    nats_server_binary,
};

const DEVICES: usize = 10;
/// Of each device, every other one to the denied subject.
const MESSAGES: usize = 60;

each_protocol!(what_may_not_be_published_is_refused_and_stops_nobody);

async fn what_may_not_be_published_is_refused_and_stops_nobody(publishing: Publishing) {
    let state = tempfile::tempdir().unwrap();
    let (_nats, nats_url) = denying("device.up.mqtt.shadow.>").await;
    let rules = state.path().join("rules.toml");
    std::fs::write(&rules, publishing.rules()).unwrap();
    let options = RunOptions {
        nats_url,
        database_url: database_url(&state),
        environment: vec![("JETWAY_RULES_FILE".to_owned(), rules.display().to_string())],
        ..RunOptions::default()
    };
    let devices = add_devices(&options.database_url, DEVICES);
    let gateway = Gateway::run(options).await;
    let begun = Instant::now();
    join_all(devices.iter().map(async |who| {
        let mut device = Device::connect(Protocol::V5, gateway.mqtt(), &who.credentials).await;
        for number in 0..MESSAGES {
            let topic = match number % 2 {
                0 => topic(who),
                _ => denied(who),
            };
            device.publish(Publish::new(&topic, format!("{number}")));
        }
        for number in 0..MESSAGES {
            let reason = device.acked().await.unwrap().reason;
            assert_eq!(reason >= 0x80, number % 2 == 1, "{number}: {reason:#x}");
        }
    }))
    .await;
    let took = begun.elapsed();
    println!("denied, {publishing:?}: all is answered after {took:.1?}");
    assert!(
        took < Duration::from_secs(15),
        "nothing waits until the retry budget is spent: {took:?}"
    );
}

fn denied(device: &DemoDevice) -> String {
    format!("$shadow/up/property/{}/{}", device.product, device.name)
}

/// A nats-server with one user, who may publish everywhere but there; and its URL.
async fn denying(subject: &str) -> (Server, String) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let config = json!({
        "host": "127.0.0.1",
        "port": port,
        "jetstream": { "store_dir": folder.path().join("jetstream") },
        "authorization": {
            "users": [{
                "user": "jetway",
                "password": "secret",
                "permissions": { "publish": { "deny": subject } },
            }],
        },
    });
    let file = folder.path().join("nats-server.conf");
    std::fs::write(&file, config.to_string()).unwrap();
    let program = Program {
        name: "nats-server",
        stop: "KILL",
        command: vec![nats_server_binary().await.into(), "-c".into(), file.into()],
        environment: Vec::new(),
    };
    // The gateway waits for it.
    let server = Server::start(folder, program);
    (server, format!("nats://jetway:secret@127.0.0.1:{port}"))
}
