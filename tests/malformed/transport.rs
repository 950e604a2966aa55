//! Peers that are slow, silent, many or mad: TCP itself as the weapon. Login and neighbours go on as if they were not there.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::timeout;

use crate::neighbour::Neighbour;
use crate::random::Random;
use crate::support::{DemoDevice, DevOptions, Gateway, Protocol, Wire, eventually, packet};
use crate::unharmed;

/// What a system gives a process to start with; enough for no more than half of the peers below.
const DESCRIPTORS: u64 = 1_024;
const HALF_OPEN: usize = 2_000;

async fn gateway(settings: &[(&str, String)]) -> (Gateway, Neighbour, DemoDevice) {
    let environment = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    let gateway = Gateway::dev(DevOptions {
        environment: environment.collect(),
        ..DevOptions::default()
    })
    .await;
    let healthy = gateway.ready.device.clone().unwrap();
    let neighbour = Neighbour::connect(gateway.mqtt(), &gateway.ready.nats, &healthy).await;
    let device = gateway.add_devices("device", 1).remove(0);
    (gateway, neighbour, device)
}

fn handshake_timeout(time: Duration) -> (&'static str, String) {
    (
        "JETWAY_CONNECTION_HANDSHAKE_TIMEOUT_MS",
        time.as_millis().to_string(),
    )
}

/// Sets how many descriptors this process may have, and those that it starts; `None` is all that the system allows.
fn allow_descriptors(count: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = count.or(maximum);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// Connects, logs in and leaves; how long it took until CONNACK.
async fn login(gateway: SocketAddr, device: &DemoDevice) -> Duration {
    let start = Instant::now();
    let mut wire = Wire::connect(gateway).await;
    wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
        .await;
    wire.expect_hex("20 02 00 00").await;
    let took = start.elapsed();
    wire.send_hex("e0 00").await;
    wire.closed().await;
    took
}

#[tokio::test]
async fn g15_thousands_of_half_open_handshakes_delay_no_login() {
    const HANDSHAKE: Duration = Duration::from_secs(10);
    /// What a login may take while others crowd the door; it waits for none of them.
    const LOGIN: Duration = Duration::from_secs(1);
    allow_descriptors(Some(DESCRIPTORS));
    let (mut gateway, mut neighbour, device) = gateway(&[handshake_timeout(HANDSHAKE)]).await;
    allow_descriptors(None);
    let before = gateway.sockets();
    let connect = packet::connect(Protocol::V5, &device.credentials, 60);
    let mut peers = Vec::with_capacity(HALF_OPEN);
    for number in 0..HALF_OPEN {
        let mut peer = Wire::connect(gateway.mqtt()).await;
        // From nothing at all to everything but the last byte.
        peer.send(&connect[..number % connect.len()]).await;
        peers.push(peer);
    }
    let opened = Instant::now();
    let mut logins = Vec::new();
    for _ in 0..15 {
        logins.push(login(gateway.mqtt(), &device).await);
    }
    logins.sort();
    assert!(
        opened.elapsed() < HANDSHAKE,
        "the half-open ones were gone too early to count"
    );
    println!(
        "logins beside {HALF_OPEN}: median {:?}, slowest {:?}",
        logins[7], logins[14]
    );
    assert!(logins[7] < LOGIN, "{logins:?}");
    neighbour.check("half-open handshakes").await;

    let answers = join_all(peers.iter_mut().map(Wire::closed)).await;
    assert!(
        answers.iter().all(Vec::is_empty),
        "a half-open peer got an answer"
    );
    drop(peers);
    let timed_out = "jetway_connects_rejected_total{reason=\"timeout\"}";
    assert_eq!(gateway.metric(timed_out).await, HALF_OPEN as f64);
    eventually("all sockets are closed", async || match gateway.sockets() {
        now if now <= before => Ok(()),
        now => Err(format!("{now}, {before} before")),
    })
    .await;
    neighbour.check("their end").await;
    neighbour.leave().await;
    unharmed(&mut gateway);
}

#[tokio::test]
async fn g15_a_slow_sender_is_served_in_time_and_closed_out_of_time() {
    const HANDSHAKE: Duration = Duration::from_secs(3);
    let (mut gateway, mut neighbour, device) = gateway(&[handshake_timeout(HANDSHAKE)]).await;
    // Every segment a byte: the packets are the same.
    let mut wire = Wire::connect(gateway.mqtt()).await;
    let topic = format!("$thing/up/property/{}/{}", device.product, device.name);
    for byte in packet::connect(Protocol::V311, &device.credentials, 60) {
        wire.send(&[byte]).await;
    }
    wire.expect_hex("20 02 00 00").await;
    for byte in packet::publish(Protocol::V311, &topic, Some(7), b"slow") {
        wire.send(&[byte]).await;
    }
    wire.expect_hex("40 02 00 07").await;

    // A byte now and then does not win more time than there is.
    let connect = packet::connect(Protocol::V311, &device.credentials, 60);
    let mut wire = Wire::connect(gateway.mqtt()).await;
    let start = Instant::now();
    for byte in connect {
        wire.send(&[byte]).await;
        if let Ok(answer) = timeout(Duration::from_millis(100), wire.packet()).await {
            assert_eq!(answer, None, "a sender out of time got an answer");
            break;
        }
    }
    let took = start.elapsed();
    assert!(
        took > HANDSHAKE / 2 && took < 2 * HANDSHAKE,
        "closed after {took:?}"
    );
    neighbour.check("slow senders").await;
    neighbour.check_stored(1, "slow senders").await;
    neighbour.leave().await;
    unharmed(&mut gateway);
}

#[tokio::test]
async fn random_bytes_harm_nobody() {
    const SEED: u64 = 0x6a65_7477_6179_0002;
    const PEERS: usize = 400;
    println!("seed {SEED:#x}");
    let mut random = Random(SEED);
    let (mut gateway, mut neighbour, device) = gateway(&[]).await;
    let DemoDevice { product, name, .. } = &device;
    for round in 0..PEERS {
        let protocol = match round % 2 {
            0 => Protocol::V311,
            _ => Protocol::V5,
        };
        let connect = packet::connect(protocol, &device.credentials, 60);
        let topic = format!("$thing/up/property/{product}/{name}");
        let publish = packet::publish(protocol, &topic, Some(1), b"random");
        let noise = random.bytes(2_000);
        // Noise from the start; noise behind a login; a good conversation with a few wrong bits.
        let conversation = match round % 3 {
            0 => noise,
            1 => [connect, noise].concat(),
            _ => random.flip([connect, publish.clone(), publish].concat()),
        };
        let mut wire = Wire::connect(gateway.mqtt()).await;
        wire.send(&conversation).await;
        wire.half_close().await;
        wire.closed().await;
        if round % 20 == 0 {
            neighbour.check("random bytes").await;
        }
    }
    neighbour.check("all random bytes").await;
    // What came through belongs to the one whose login it was.
    let own = format!("device.up.mqtt.thing.{product}.{name}");
    let through = neighbour.backend().messages("DEVICE_UP", &own).await.len();
    neighbour.check_stored(through as u64, "random bytes").await;
    println!("{through} messages came through");
    neighbour.leave().await;
    unharmed(&mut gateway);
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    const LIMIT: usize = 20;
    const BEYOND: usize = 500;
    let limit = ("JETWAY_MQTT_CONNECTIONS_MAX", LIMIT.to_string());
    let (mut gateway, mut neighbour, device) = gateway(&[limit]).await;
    // The neighbour is one of them.
    let mut peers = Vec::new();
    for _ in 1..LIMIT {
        let mut peer = Wire::connect(gateway.mqtt()).await;
        peer.send_hex("10").await;
        peers.push(peer);
    }
    for _ in 0..BEYOND {
        let mut peer = Wire::connect(gateway.mqtt()).await;
        assert_eq!(peer.closed().await, Vec::<u8>::new());
    }
    let refused = "jetway_connections_refused_total";
    assert_eq!(gateway.metric(refused).await, BEYOND as f64);
    neighbour.check("the flood").await;

    drop(peers);
    eventually("there is room again", async || {
        let mut wire = Wire::connect(gateway.mqtt()).await;
        wire.send(&packet::connect(Protocol::V311, &device.credentials, 60))
            .await;
        match wire.packet().await {
            Some(connack) if connack == [0x20, 2, 0, 0] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    neighbour.check("the flood's end").await;
    neighbour.leave().await;
    unharmed(&mut gateway);
}
