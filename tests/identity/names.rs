//! G22: what a device is called is a name and nothing else, whatever it looks like in a topic, a subject or a statement.

use std::collections::BTreeSet;

use crate::site::{Client, Site};
use crate::support::{Credentials, Device, Protocol, jetway};

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";

/// Patterns and separators of subjects, SQL, formats and paths.
const NAMES: [&str; 12] = [
    "a.b", "*", ">", "a b", "%", "_", "'--", "..", "$SYS", "été", "🛰", "a%2Fb",
];

#[tokio::test]
async fn g22_names_that_look_like_patterns_are_names() {
    let site = Site::start(&[]).await;
    let place = [("JETWAY_DATABASE_URL", site.gateway.database_url())];
    let mqtt = site.gateway.mqtt();
    for name in NAMES {
        let add = ["device", "add", "demo", name, "--secret", SECRET];
        jetway(&add, &place);
    }
    for (name, protocol) in NAMES
        .into_iter()
        .zip([Protocol::V311, Protocol::V5].into_iter().cycle())
    {
        let own = Credentials::new("demo", name, SECRET);
        let mut device = Device::connect(protocol, mqtt, &own).await;
        let denied = if protocol == Protocol::V5 { 0x87 } else { 0x80 };
        let down = |name: &str| format!("$thing/down/property/demo/{name}");
        assert_eq!(device.subscribe(&down(name)).await, 1, "{name}");
        for other in NAMES.into_iter().filter(|other| *other != name) {
            assert_eq!(device.subscribe(&down(other)).await, denied, "{name}");
        }
        let up = format!("$thing/up/property/demo/{name}");
        assert_eq!(device.publish_acked(&up, name).await, 0);
        // Whoever can log in with this name is nobody else's neighbour.
        let stranger = Client {
            client_id: &format!("demo&{name}x"),
            username: &own.username,
            password: &own.password,
            ..Client::default()
        };
        let bad = if protocol == Protocol::V5 { 0x86 } else { 4 };
        assert_eq!(stranger.log_in(protocol, mqtt), bad, "{name}");
    }
    let backend = site.backend().await;
    let stored = backend
        .messages("DEVICE_UP", "device.up.mqtt.thing.demo.*")
        .await;
    let subjects: BTreeSet<String> = stored
        .iter()
        .map(|message| message.subject.clone())
        .collect();
    assert_eq!(subjects.len(), NAMES.len(), "{subjects:?}");
}

#[tokio::test]
async fn g22_names_that_one_level_cannot_hold_are_refused() {
    let site = Site::start(&[]).await;
    for (protocol, bad) in [(Protocol::V311, 4), (Protocol::V5, 0x86)] {
        for name in ["", "a/b", "+", "#", "a&b", &"x".repeat(129)] {
            let own = Credentials::new("demo", name, SECRET);
            let client = Client {
                client_id: &own.client_id,
                username: &own.username,
                password: &own.password,
                ..Client::default()
            };
            let told = client.log_in(protocol, site.gateway.mqtt());
            assert_eq!(told, bad, "{name:?}");
        }
    }
}
