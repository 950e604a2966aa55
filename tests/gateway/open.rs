//! The open profile: clients without credentials, any topic, one stream.

use crate::site::BOTH;
use crate::support::{
    Backend, Credentials, DevOptions, Device, Gateway, Protocol, Wire, jetway_fails, packet,
};

pub(crate) async fn start(state_dir: Option<&std::path::Path>) -> Gateway {
    Gateway::dev(DevOptions {
        state_dir: state_dir.map(Into::into),
        arguments: ["--profile", "open"].map(str::to_owned).into(),
        ..DevOptions::default()
    })
    .await
}

pub(crate) fn client(client_id: &str) -> Credentials {
    Credentials {
        client_id: client_id.to_owned(),
        username: "anybody".to_owned(),
        password: "anything".to_owned(),
    }
}

#[tokio::test]
async fn g12_any_topic_of_any_client_is_stored() {
    let gateway = start(None).await;
    assert!(gateway.ready.device.is_none());
    let backend = Backend::connect(&gateway.ready.nats).await;
    for (protocol, client_id) in BOTH.into_iter().zip(["old/one", "new one"]) {
        let mut device = Device::connect(protocol, gateway.mqtt(), &client(client_id)).await;
        assert_eq!(device.publish_acked("/a b//ü.z/*", "x").await, 0);
        // [MQTT-4.7.2-1]: denied; 3.1.1 has no word for that.
        let denied = if protocol == Protocol::V5 { 0x87 } else { 0 };
        assert_eq!(device.publish_acked("$SYS/a", "x").await, denied);
        device.disconnect().await;
    }
    let stored = backend.wait_for("MQTT", "mqtt.>", 2).await;
    let found = stored
        .iter()
        .map(|message| (message.subject.as_str(), message.header("Jw-Client")));
    let subject = "mqtt.%.a%20b.%.ü%2Ez.%2A";
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(subject, "old/one"), (subject, "new one")]
    );
}

#[tokio::test]
async fn no_method_of_authentication_is_known() {
    // [MQTT-4.12.0-1]
    let gateway = start(None).await;
    let properties = packet::authentication(Some("SCRAM-SHA-256"), None);
    let connect = packet::connect_with_properties(Protocol::V5, &client("a"), 60, &properties);
    let mut wire = Wire::connect(gateway.mqtt()).await;
    wire.send(&connect).await;
    assert_eq!(wire.closed().await, [0x20, 3, 0, 0x8C, 0]);
}

#[tokio::test]
async fn g18_a_client_without_an_identifier_gets_one() {
    let gateway = start(None).await;
    let mut assigned = Vec::new();
    for _ in 0..2 {
        let device = Device::connect(Protocol::V5, gateway.mqtt(), &client("")).await;
        // [MQTT-3.1.3-6], [MQTT-3.1.3-7]
        let properties = device.connack_properties.as_ref().expect("MQTT 5 has some");
        assigned.push(
            properties
                .assigned_client_identifier
                .clone()
                .expect("a new one"),
        );
        device.disconnect().await;
    }
    assert_ne!(assigned[0], assigned[1]);
    Device::connect(Protocol::V311, gateway.mqtt(), &client(""))
        .await
        .disconnect()
        .await;
    let mut wire = Wire::connect(gateway.mqtt()).await;
    wire.send(&packet::connect(
        Protocol::V5,
        &client(&"x".repeat(129)),
        60,
    ))
    .await;
    let connack = wire.packet().await.expect("an answer");
    assert_eq!((connack[0], connack[3]), (0x20, 0x85));
}

#[tokio::test]
async fn the_streams_are_as_declared_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("state");
    let mut first = start(Some(&state_dir)).await;
    first.terminate();
    assert!(first.wait().await.success());
    let second = start(Some(&state_dir)).await;
    let logs = second.log();
    assert!(!logs.contains("WARN"), "{logs}");
}

#[test]
fn simulated_devices_have_a_product() {
    let (code, said) = jetway_fails(&["dev", "--profile", "open", "--demo", "2"], &[]);
    assert_eq!(code, 1);
    assert!(
        said.contains("--demo 2: expected 0 with the open profile"),
        "{said}"
    );
}
