//! G22, G23: names that look like patterns and separators, and filters that try to be wider than their device.

use crate::site::{PRODUCT, SECRET, Site};
use crate::support::{Credentials, Device, Protocol, jetway, jetway_fails};

/// A name, and the token that it is in a subject; none where no device can be called so.
const NAMES: &[(&str, Option<&str>)] = &[
    ("a.b", Some("a%2Eb")),
    ("*", Some("%2A")),
    (">", Some("%3E")),
    ("a b", Some("a%20b")),
    (" ", Some("%20")),
    ("%2A", Some("%252A")),
    ("$SYS", Some("$SYS")),
    ("😀", Some("😀")),
    ("a;b", None),
    ("a&b", None),
    ("a/b", None),
    ("+", None),
    ("#", None),
    ("", None),
];

#[tokio::test]
async fn g22_a_name_is_one_token_whatever_is_in_it_or_is_no_device() {
    let site = Site::start(2, &[]).await;
    let backend = site.backend().await;
    let database = [("JETWAY_DATABASE_URL", site.database_url.as_str())];
    let mut devices = Vec::new();
    for (name, token) in NAMES {
        let add = ["device", "add", "--secret", SECRET, "--", PRODUCT, name];
        let Some(token) = token else {
            let (_, printed) = jetway_fails(&add, &database);
            assert!(printed.contains("PRODUCT NAME"), "{name:?}: {printed}");
            // Nor does a login as such a one get further than its name.
            let who = Credentials::new(PRODUCT, name, SECRET);
            let code = site.connect("192.0.2.7", Protocol::V5, &who).await.0;
            assert!(code >= 0x80, "{name:?}");
            continue;
        };
        jetway(&add, &database);
        let who = Credentials::new(PRODUCT, name, SECRET);
        let mut device = Device::connect(Protocol::V5, site.gateway.mqtt(), &who).await;
        let topic = |way: &str| format!("$thing/{way}/property/{PRODUCT}/{name}");
        assert_eq!(device.subscribe(&topic("down")).await, 1, "{name:?}");
        assert_eq!(
            device.publish_acked(&topic("up"), *name).await,
            0,
            "{name:?}"
        );
        let subject = format!("device.up.mqtt.thing.{PRODUCT}.{token}");
        let stored = backend.messages("DEVICE_UP", &subject).await;
        assert_eq!(stored.len(), 1, "{name:?}");
        assert_eq!(stored[0].text(), *name);
        devices.push((*name, *token, device));
    }
    // Each gets what is for it, and nothing else.
    for (_, token, _) in &devices {
        let subject = format!("device.down.thing.{PRODUCT}.{token}");
        let headers = [("Jw-Type", "property")];
        backend
            .publish(&subject, &headers, token.as_bytes().to_vec())
            .await;
    }
    for (name, token, device) in &mut devices {
        let received = device.next().await;
        assert_eq!(received.payload, token.as_bytes(), "{name:?}");
        let topic = format!("$thing/up/property/{PRODUCT}/{name}");
        assert_eq!(device.publish_acked(&topic, "behind it").await, 0);
        assert_eq!(device.waiting(), 0, "{name:?}");
    }
}

#[tokio::test]
async fn g23_no_filter_is_wider_than_its_device() {
    let site = Site::start(2, &[]).await;
    let backend = site.backend().await;
    for protocol in [Protocol::V311, Protocol::V5] {
        let mut device = Device::connect(protocol, site.gateway.mqtt(), &Site::device(0)).await;
        for filter in [
            "#",
            "+/#",
            "$thing/#",
            "$thing/down/#",
            "$thing/down/property/#",
            "$thing/down/property/P/#",
            "$thing/down/property/P/+",
            "$thing/down/property/+/d0",
            "$thing/down/property/+/+",
            "$thing/+/property/P/d0",
            "+/down/property/P/d0",
            "$thing/down/property/P/d1",
            "$thing/up/property/P/d0",
            "$share/x/$thing/down/property/P/d1",
            "$SYS/#",
        ] {
            let code = device.subscribe(filter).await;
            assert!(code >= 0x80, "{filter} is granted with {code}");
        }
        assert_eq!(device.subscribe("$thing/down/+/P/d0").await, 1);
        for (name, payload) in [("d1", "of another one"), ("d0", "its own")] {
            let subject = format!("device.down.thing.P.{name}");
            let headers = [("Jw-Type", "property")];
            backend.publish(&subject, &headers, payload).await;
        }
        assert_eq!(device.next().await.payload, "its own");
        device.disconnect().await;
    }
}
