//! SCRAM of devices in a real SQLite file, by a client written from the RFC alone.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use sqlx::SqlitePool;
use tempfile::TempDir;

use super::*;
use crate::auth::denied::Unavailable;
use crate::catalogue::Catalogue;
use crate::database;

/// A database with the devices `p/d0` to `p/d3`, of the same secret, and an authenticator in front of it.
struct Bench {
    authenticator: Authenticator,
    devices: Catalogue,
    /// A second way into the same file: what another program does to it.
    outside: SqlitePool,
    _folder: TempDir,
}

fn secret() -> Secret {
    Secret::from_key(b"the key of all devices")
}

impl Bench {
    async fn new(config: &Config) -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite://{}/jetway.db", folder.path().display());
        let database = database::Config {
            url: url.clone(),
            connections_max: 1,
            ..database::Config::default()
        };
        let devices = Catalogue::open(&database).await.unwrap();
        let names: Vec<String> = (0..4).map(|n| format!("d{n}")).collect();
        let added = devices.add("p", &names, Some(&secret())).await;
        assert!(added.is_ok());
        Self {
            authenticator: Authenticator::new(config, devices.clone(), None).unwrap(),
            devices,
            outside: SqlitePool::connect(&url).await.unwrap(),
            _folder: folder,
        }
    }

    async fn outside(&self, sql: &'static str) {
        sqlx::query(sql).execute(&self.outside).await.unwrap();
    }

    /// How many keys are remembered.
    fn keys(&self) -> usize {
        let chain = self.authenticator.chain.as_ref();
        chain
            .and_then(|chain| chain.scram.as_ref())
            .unwrap()
            .keys
            .len()
    }

    async fn begin(&self, name: &str) -> Result<Exchange, Error> {
        let client_id = format!("p&{name}");
        self.authenticator.begin("SCRAM-SHA-256", &client_id).await
    }

    /// The exchange of a device that has this secret.
    async fn log_in(&self, name: &str, secret: &Secret) -> Result<Device, Error> {
        let mut exchange = self.begin(name).await?;
        let bare = format!("n=p&{name},r=fyko+d2lbbFgONRv9qkxdawL");
        let challenge = challenge(&mut exchange, &format!("n,,{bare}"));
        let (last, signature) = client(secret.text(), &bare, &challenge);
        match exchange.step(last.as_bytes())? {
            Step::Done { device, data } => {
                assert_eq!(data, signature);
                Ok(device)
            }
            step => panic!("expected the end, got {step:?}"),
        }
    }

    async fn challenge(&self, name: &str) -> Challenge {
        let mut exchange = self.begin(name).await.ok().unwrap();
        let text = challenge(&mut exchange, &format!("n,,n=p&{name},r=c"));
        let (nonce, salt, iterations) = parse(&text);
        Challenge {
            nonce: nonce.to_owned(),
            salt,
            iterations,
        }
    }

    fn denied(&self, reason: &'static str) -> u64 {
        let denied = &self.authenticator.metrics.denied;
        denied.get_or_create(&[("reason", reason)]).get()
    }
}

fn challenge(exchange: &mut Exchange, first: &str) -> String {
    match exchange.step(first.as_bytes()) {
        Ok(Step::Continue(data)) => String::from_utf8(data.into()).unwrap(),
        other => panic!("expected a challenge, got {other:?}"),
    }
}

/// Nonce, salt and iterations of a server-first-message.
fn parse(server_first: &str) -> (&str, Vec<u8>, u32) {
    let fields: Vec<&str> = server_first.split(',').collect();
    let [nonce, salt, iterations] = fields[..] else {
        panic!("{server_first}");
    };
    let salt = STANDARD.decode(salt.strip_prefix("s=").unwrap()).unwrap();
    let iterations = iterations.strip_prefix("i=").unwrap().parse().unwrap();
    (nonce.strip_prefix("r=").unwrap(), salt, iterations)
}

/// RFC 5802 §3: the client-final-message, and the server-final-message that a server with the same password answers.
fn client(password: &str, bare: &str, server_first: &str) -> (String, String) {
    let mac = |key: &[u8], message: &[u8]| {
        let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.chain_update(message).finalize().into_bytes().to_vec()
    };
    let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    let (nonce, mut salt, iterations) = parse(server_first);
    salt.extend([0, 0, 0, 1]);
    let mut last = mac(password.as_bytes(), &salt);
    let mut salted = last.clone();
    for _ in 1..iterations {
        last = mac(password.as_bytes(), &last);
        salted = xor(&salted, &last);
    }
    let unproved = format!("c=biws,r={nonce}");
    let message = format!("{bare},{server_first},{unproved}");
    let client_key = mac(&salted, b"Client Key");
    let signature = mac(&Sha256::digest(&client_key), message.as_bytes());
    let proof = STANDARD.encode(xor(&client_key, &signature));
    let server_key = mac(&salted, b"Server Key");
    let server_signature = STANDARD.encode(mac(&server_key, message.as_bytes()));
    (
        format!("{unproved},p={proof}"),
        format!("v={server_signature}"),
    )
}

fn reason(outcome: Result<Device, Error>) -> &'static str {
    match outcome {
        Err(Error::Denied(denied)) => denied.reason(),
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[tokio::test]
async fn a_device_proves_its_secret_again_and_again() {
    let bench = Bench::new(&Config::default()).await;
    for _ in 0..3 {
        let device = bench.log_in("d1", &secret()).await.unwrap();
        assert_eq!(device.id, DeviceId::new("p", "d1").unwrap());
        assert!(device.sub_devices.is_empty());
    }
    let metrics = &bench.authenticator.metrics;
    assert_eq!(metrics.accepted.get(), 3);
    assert_eq!(
        (metrics.cache_misses.get(), metrics.cache_hits.get()),
        (1, 2)
    );
    assert_eq!(bench.keys(), 1);
}

#[tokio::test]
async fn each_denial_has_its_reason() {
    let bench = Bench::new(&Config::default()).await;
    bench
        .outside("UPDATE device SET state = 0 WHERE name = 'd2'")
        .await;
    // No key; SASLprep changes it.
    bench
        .outside("UPDATE device SET secret = '' WHERE name = 'd3'")
        .await;
    bench
        .outside("UPDATE device SET secret = 'AAECAwQF\u{aa}' WHERE name = 'd0'")
        .await;
    let other = Secret::from_key(b"another key");
    let empty = Secret::from_stored(String::new());
    let changed = Secret::from_stored("AAECAwQF\u{aa}".to_owned());
    let cases = [
        ("proof", "d1", &other),
        ("proof", "d2", &other),
        ("disabled", "d2", &secret()),
        ("secret", "d3", &empty),
        ("secret", "d0", &changed),
        ("unknown_device", "ghost", &secret()),
    ];
    for (expected, name, secret) in cases {
        let outcome = bench.log_in(name, secret).await;
        assert_eq!(reason(outcome), expected, "{name}");
    }
    for (client_id, expected) in [("d1", "identity"), ("register&p&d1", "registration")] {
        let begun = bench.authenticator.begin(scram::METHOD, client_id).await;
        assert_eq!(reason(begun.map(|_| panic!("{client_id}"))), expected);
    }
    let mut exchange = bench.begin("d1").await.ok().unwrap();
    let step = exchange.step(b"n,,n=p&d2,r=c");
    assert!(matches!(
        step,
        Err(Error::Denied(Denied::Scram(scram::Error::Mismatch)))
    ));
    assert!(exchange.step(b"n,,n=p&d1,r=c").is_err());
    let counts = [
        "proof",
        "disabled",
        "secret",
        "unknown_device",
        "identity",
        "registration",
        "mismatch",
        "exchange",
    ]
    .map(|reason| bench.denied(reason));
    assert_eq!(counts, [2, 1, 2, 1, 1, 1, 1, 1]);
    assert_eq!(bench.authenticator.metrics.accepted.get(), 0);
}

// [MQTT-4.12.0-1]
#[tokio::test]
async fn another_method_is_none() {
    let bench = Bench::new(&Config::default()).await;
    for method in [
        "",
        "SCRAM-SHA-1",
        "SCRAM-SHA-256-PLUS",
        "scram-sha-256",
        "PLAIN",
    ] {
        let begun = bench.authenticator.begin(method, "p&d1").await;
        assert!(matches!(begun, Err(Error::Method)), "{method}");
    }
    assert_eq!(bench.denied("method"), 5);
    assert_eq!(bench.authenticator.metrics.cache_misses.get(), 0);
}

#[tokio::test]
async fn what_a_device_is_asked_does_not_say_whether_it_is_there() {
    let config = Config {
        cache_ttl_ms: 0,
        cache_unknown_ttl_ms: 0,
        scram_iterations: 5_000,
        ..Config::default()
    };
    let bench = Bench::new(&config).await;
    bench
        .outside("UPDATE device SET state = 0 WHERE name = 'd2'")
        .await;
    bench
        .outside("UPDATE device SET secret = '' WHERE name = 'd3'")
        .await;
    let mut salts = HashSet::new();
    let mut nonces = HashSet::new();
    for name in ["d1", "d2", "d3", "ghost", "ghosu"] {
        let (one, two) = (bench.challenge(name).await, bench.challenge(name).await);
        assert_eq!(one.salt, two.salt, "{name}");
        assert_eq!((one.iterations, one.salt.len()), (5_000, 32), "{name}");
        assert_eq!(one.nonce.len(), "c".len() + 24, "{name}");
        assert!(salts.insert(one.salt), "{name}");
        assert!(
            nonces.insert(one.nonce) && nonces.insert(two.nonce),
            "{name}"
        );
    }
    // Nor does the time it takes: keys are made for all of them, and once.
    assert_eq!(bench.keys(), 5);
}

#[tokio::test]
async fn a_new_secret_makes_new_keys() {
    let config = Config::default();
    let bench = Bench::new(&config).await;
    assert!(bench.log_in("d1", &secret()).await.is_ok());
    let ghost = bench.log_in("ghost", &secret()).await;
    assert_eq!(reason(ghost), "unknown_device");
    let other = Secret::from_key(b"another key");
    bench
        .outside("UPDATE device SET secret = 'YW5vdGhlciBrZXk=' WHERE name = 'd1'")
        .await;
    let ghost = ["ghost".to_owned()];
    assert!(
        bench
            .devices
            .add("p", &ghost, Some(&secret()))
            .await
            .is_ok()
    );
    for name in ["d1", "ghost"] {
        let device = DeviceId::new("p", name).unwrap();
        bench.authenticator.forget(&device);
    }
    assert_eq!(reason(bench.log_in("d1", &secret()).await), "proof");
    assert!(bench.log_in("d1", &other).await.is_ok());
    assert!(bench.log_in("ghost", &secret()).await.is_ok());
}

#[tokio::test]
async fn the_keys_kept_are_bounded() {
    let config = Config {
        cache_entries_max: 20,
        ..Config::default()
    };
    let bench = Bench::new(&config).await;
    for n in 0..60 {
        assert!(bench.begin(&format!("ghost{n}")).await.is_ok());
    }
    assert!(bench.keys() <= 20);
}

// G24
#[tokio::test]
async fn a_slow_database_is_unavailable_in_time_and_recovers() {
    let config = Config {
        lookup_timeout_ms: 500,
        ..Config::default()
    };
    let bench = Bench::new(&config).await;
    assert!(bench.log_in("d0", &secret()).await.is_ok());
    let held = bench.devices.hold().await;
    let begun = Instant::now();
    let unavailable = bench.begin("d1").await;
    assert!(matches!(
        unavailable,
        Err(Error::Unavailable(Unavailable::Timeout(_)))
    ));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(bench.authenticator.metrics.unavailable.get(), 1);
    assert!(bench.log_in("d0", &secret()).await.is_ok());
    drop(held);
    assert!(bench.log_in("d1", &secret()).await.is_ok());
}
