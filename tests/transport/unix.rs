//! The Unix socket for tools of the same machine, and the limit of one listener.

use std::path::Path;

use tokio::net::UnixStream;

use crate::site::{At, Site, peer_address, stored, topic};
use crate::support::pki::Pki;
use crate::support::{Gateway, NatsServer, Protocol, RunOptions, Wire, eventually, packet, within};

async fn connect(path: &Path) -> Wire {
    Wire::over(
        within("a connection", UnixStream::connect(path))
            .await
            .unwrap(),
    )
}

#[tokio::test]
async fn a_device_speaks_through_it() {
    let site = Site::shared().await;
    let (device, backend) = (site.device(), site.backend().await);
    let mut wire = connect(&site.unix()).await;
    wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
        .await;
    wire.accepted().await;
    wire.send(&packet::publish(
        Protocol::V311,
        &topic("up", device),
        Some(7),
        b"local",
    ))
    .await;
    wire.expect_hex("40 02 00 07").await;
    assert_eq!(
        backend.messages("DEVICE_UP", &stored(device)).await.len(),
        1
    );
    assert_eq!(peer_address(&site, device).await, "unix");
}

#[tokio::test]
async fn its_file_goes_with_the_gateway_and_a_dead_one_is_replaced() {
    let (nats, pki) = (NatsServer::start().await, Pki::new());
    let path = pki.path("a.sock");
    let listeners = format!("[{{ unix = {path:?} }}]");
    let run = async || {
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Gateway::run(RunOptions {
            nats_url: nats.url(),
            database_url: format!("sqlite:{}", pki.path("devices.db").display()),
            // The plain listener may be switched off.
            environment: vec![
                setting("JETWAY_LISTENER", &listeners),
                setting("JETWAY_MQTT_LISTEN", "off"),
            ],
            ..RunOptions::default()
        })
        .await
    };
    let mut first = run().await;
    assert_eq!(first.ready.mqtt, None);
    connect(&path).await;
    first.kill9().await;
    assert!(path.exists(), "a crash leaves it behind");
    let mut second = run().await;
    connect(&path).await;
    second.terminate();
    assert!(second.wait().await.success());
    assert!(!path.exists(), "a stop does not");
}

#[tokio::test]
async fn a_listener_has_a_limit_of_its_own() {
    let site = Site::shared().await;
    let metric = "jetway_connections_refused_total";
    let before = site.gateway.metric(metric).await;
    let one = Wire::connect(site.at(At::Two)).await;
    let _two = Wire::connect(site.at(At::Two)).await;
    let mut three = Wire::connect(site.at(At::Two)).await;
    assert!(three.closed().await.is_empty());
    assert_eq!(site.gateway.metric(metric).await, before + 1.0);
    // Others are not concerned, and room comes back.
    let device = site.device();
    Wire::login(Protocol::V5, site.gateway.mqtt(), &device.credentials, 60).await;
    drop(one);
    eventually("there is room again", async || {
        let mut wire = Wire::connect(site.at(At::Two)).await;
        wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
            .await;
        match wire.packet().await {
            Some(_) => Ok(()),
            None => Err("closed".to_owned()),
        }
    })
    .await;
}
