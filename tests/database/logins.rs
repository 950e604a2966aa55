//! A gateway whose devices are in PostgreSQL or MariaDB: while that is silent or gone nobody is told that its secret is
//! wrong, and no service that a device is offline which may be behind a gateway device.

use std::ops::Deref;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use futures_util::future::join_all;

use crate::support::{
    Backend, Connect, Credentials, Device, Gateway, MariaDb, NatsServer, Postgres, Protocol,
    RunOptions, Server, eventually, jetway,
};

const SECRET: &str = "c2VjcmV0LW9mLWFsbC1vZi10aGVt";
/// MQTT 5: server unavailable.
const UNAVAILABLE: u8 = 0x88;
/// MQTT 5: bad user name or password.
const BAD_CREDENTIALS: u8 = 0x86;

#[tokio::test]
async fn devices_in_postgres_log_in() {
    let server = Postgres::start().await;
    let url = server.database("devices").await;
    Box::pin(log_in(&url, &server, async || server.restart().await)).await;
}

#[tokio::test]
async fn devices_in_mariadb_log_in() {
    let server = MariaDb::start().await;
    let url = server.database("devices").await;
    Box::pin(log_in(&url, &server, async || server.restart().await)).await;
}

async fn log_in(url: &str, server: &impl Deref<Target = Server>, restart: impl AsyncFn()) {
    let add = [
        "device",
        "add",
        "p",
        "d",
        "--count",
        "43",
        "--secret",
        SECRET,
        "--database",
        url,
    ];
    jetway(&add, &[]);
    let list = jetway(&["device", "ls", "--database", url], &[]);
    assert_eq!(list.lines().count(), 43, "{list}");
    let nats = NatsServer::start().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url: url.to_owned(),
        ..RunOptions::default()
    })
    .await;
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split('\t').nth(1))
        .collect();
    let crowd = names[3..].iter().map(|name| connect(&gateway, name));
    for connected in join_all(crowd).await {
        connected.unwrap();
    }
    let mut device = connect(&gateway, names[0]).await.unwrap();
    // The same name in other letters is another device.
    let other = names[0].to_uppercase();
    assert_eq!(connect(&gateway, &other).await.err(), Some(BAD_CREDENTIALS));

    let backend = Backend::connect(&nats.url()).await;
    assert_eq!(asked(&backend, names[1], "10000").await, "offline");

    server.pause().await;
    let begun = Instant::now();
    // Behind which gateway device it is cannot be found out.
    assert_eq!(asked(&backend, names[1], "300").await, "unavailable");
    assert_eq!(connect(&gateway, names[1]).await.err(), Some(UNAVAILABLE));
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    let topic = format!("$thing/up/property/p/{}", names[0]);
    assert_eq!(
        device
            .publish_acked(&topic, r#"{"method":"report","params":{}}"#)
            .await,
        0
    );
    server.resume();
    logs_in(&gateway, names[1]).await;

    server.kill9().await;
    assert_eq!(connect(&gateway, names[2]).await.err(), Some(UNAVAILABLE));
    restart().await;
    logs_in(&gateway, names[2]).await;
}

/// Why a device that is not connected does not answer a service.
async fn asked(backend: &Backend, name: &str, timeout_ms: &str) -> String {
    let mut headers = HeaderMap::new();
    headers.insert("Jw-Timeout-Ms", timeout_ms);
    let subject = format!("device.rpc.mqtt.thing.p.{name}");
    let client = &backend.client;
    let reply = client.request_with_headers(subject, headers, "{}".into());
    let headers = reply.await.unwrap().headers.unwrap();
    headers.get("Jw-Error").unwrap().to_string()
}

async fn logs_in(gateway: &Gateway, name: &str) {
    eventually("the device logs in", async || {
        match connect(gateway, name).await {
            Ok(_connected) => Ok(()),
            Err(reason) if reason == UNAVAILABLE => Err(format!("{reason:#x}")),
            Err(reason) => panic!("{reason:#x}"),
        }
    })
    .await;
}

async fn connect(gateway: &Gateway, name: &str) -> Result<Device, u8> {
    let credentials = Credentials::new("p", name, SECRET);
    let connect = Connect::new(Protocol::V5, gateway.mqtt(), &credentials);
    let connected = Box::pin(Device::connect_with(connect)).await;
    connected.map_err(|closed| closed.reason.unwrap())
}
