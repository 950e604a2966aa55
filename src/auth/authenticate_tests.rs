//! Logins against a real SQLite file: proof, cache, and a database that is busy or away.

use std::time::Duration;

use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use sqlx::SqlitePool;
use tempfile::TempDir;

use super::*;
use crate::auth::credentials::{Credentials, Method, Secret};
use crate::auth::denied::Unavailable;
use crate::database;
use crate::device::{self, Certificate, Device};

/// A database with the devices `p/d0` to `p/d9`, of the same secret, and an authenticator in front of it.
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

fn login(name: &str) -> Credentials {
    let device = DeviceId::new("p", name).unwrap();
    Credentials::generate(&device, &secret(), Method::HmacSha256)
        .ok()
        .unwrap()
}

fn attempt<'a>(client_id: &'a str, username: &'a str, password: &'a str) -> Attempt<'a> {
    Attempt {
        username: Some(username),
        password: Some(password.as_bytes()),
        ..Attempt::of(client_id)
    }
}

impl Bench {
    async fn new(config: &Config, connections_max: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite://{}/jetway.db", folder.path().display());
        let database = database::Config {
            url: url.clone(),
            connections_max,
            ..database::Config::default()
        };
        let devices = Catalogue::open(&database).await.unwrap();
        let names: Vec<String> = (0..10).map(|n| format!("d{n}")).collect();
        devices
            .add("p", &names, Some(&secret()))
            .await
            .ok()
            .unwrap();
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

    async fn log_in(&self, name: &str) -> Result<Device, Error> {
        self.log_in_at(Instant::now(), name).await
    }

    async fn log_in_at(&self, now: Instant, name: &str) -> Result<Device, Error> {
        let login = login(name);
        let attempt = attempt(&login.client_id, &login.username, &login.password);
        let outcome = self.authenticator.authenticate_at(now, &attempt).await;
        outcome.map(|accepted| accepted.device)
    }

    fn misses(&self) -> u64 {
        self.authenticator.metrics.cache_misses.get()
    }
}

fn denied<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Denied {
    match outcome {
        Err(Error::Denied(denied)) => denied,
        other => panic!("expected a denial, got {other:?}"),
    }
}

#[tokio::test]
async fn a_device_logs_in_and_is_remembered() {
    let bench = Bench::new(&Config::default(), 4).await;
    for _ in 0..3 {
        let device = bench.log_in("d1").await.unwrap();
        assert_eq!(device.id, DeviceId::new("p", "d1").unwrap());
        assert_eq!(device.scope, Scope::Full);
        assert!(device.sub_devices.is_empty());
    }
    let metrics = &bench.authenticator.metrics;
    assert_eq!(metrics.accepted.get(), 3);
    assert_eq!(
        (metrics.cache_misses.get(), metrics.cache_hits.get()),
        (1, 2)
    );
}

#[tokio::test]
async fn each_denial_has_its_reason() {
    let bench = Bench::new(&Config::default(), 4).await;
    bench
        .outside("UPDATE device SET state = 0 WHERE name = 'd2'")
        .await;
    bench
        .outside("UPDATE device SET secret = 'abc' WHERE name = 'd3'")
        .await;
    let d1 = login("d1");
    let (d2, d3, ghost) = (login("d2"), login("d3"), login("ghost"));
    let forged = format!("{};hmacsha1", "0".repeat(40));
    let cases = [
        ("token", &d1.client_id, &d1.username, &forged),
        ("token", &d2.client_id, &d2.username, &forged),
        ("disabled", &d2.client_id, &d2.username, &d2.password),
        ("secret", &d3.client_id, &d3.username, &d3.password),
        (
            "unknown_device",
            &ghost.client_id,
            &ghost.username,
            &ghost.password,
        ),
        (
            "registration",
            &"register&p&d1".to_owned(),
            &d1.username,
            &d1.password,
        ),
        ("identity", &"d1".to_owned(), &d1.username, &d1.password),
        ("username", &d1.client_id, &d1.client_id, &d1.password),
        ("mismatch", &d1.client_id, &d2.username, &d2.password),
        ("password", &d1.client_id, &d1.username, &d1.username),
    ];
    for (reason, client_id, username, password) in cases {
        let attempt = attempt(client_id, username, password);
        let outcome = bench.authenticator.authenticate(&attempt).await;
        assert_eq!(denied(outcome).reason(), reason);
    }
    let mut registry = Registry::default();
    bench.authenticator.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(
        text.contains("auth_denied_total{reason=\"token\"} 2\n"),
        "{text}"
    );
    assert!(
        text.contains("auth_denied_total{reason=\"disabled\"} 1\n"),
        "{text}"
    );
}

#[tokio::test]
async fn an_unknown_device_can_log_in_soon_after_it_was_added() {
    let config = Config::default();
    let bench = Bench::new(&config, 4).await;
    let now = Instant::now();
    assert_eq!(
        denied(bench.log_in_at(now, "new").await),
        Denied::UnknownDevice
    );
    let added = bench
        .devices
        .add("p", &["new".to_owned()], Some(&secret()))
        .await;
    assert!(added.is_ok());
    assert_eq!(
        denied(bench.log_in_at(now, "new").await),
        Denied::UnknownDevice
    );
    assert_eq!(bench.misses(), 1);
    let later = now + Duration::from_millis(config.cache_unknown_ttl_ms);
    assert!(bench.log_in_at(later, "new").await.is_ok());
}

#[tokio::test]
async fn a_disabled_device_is_denied_once_forgotten_or_expired() {
    let config = Config::default();
    let bench = Bench::new(&config, 4).await;
    let now = Instant::now();
    for name in ["d1", "d2"] {
        assert!(bench.log_in_at(now, name).await.is_ok());
    }
    bench.outside("UPDATE device SET state = 0").await;
    bench
        .authenticator
        .forget(&DeviceId::new("p", "d1").unwrap());
    assert_eq!(denied(bench.log_in_at(now, "d1").await), Denied::Disabled);
    assert!(bench.log_in_at(now, "d2").await.is_ok());
    let later = now + Duration::from_millis(config.cache_ttl_ms);
    assert_eq!(denied(bench.log_in_at(later, "d2").await), Denied::Disabled);
}

#[tokio::test]
async fn a_look_up_that_was_under_way_when_its_device_was_forgotten_is_not_cached() {
    let bench = Bench::new(&Config::default(), 1).await;
    let held = bench.devices.hold().await;
    let forget = async {
        bench
            .authenticator
            .forget(&DeviceId::new("p", "d1").unwrap());
        drop(held);
    };
    // join! polls in order: the look-up waits for the held connection when its device is forgotten.
    let (outcome, ()) = tokio::join!(bench.log_in("d1"), forget);
    assert!(outcome.is_ok());
    assert!(bench.log_in("d1").await.is_ok());
    assert_eq!(bench.misses(), 2);
}

#[tokio::test]
async fn logins_of_one_unknown_device_share_one_look_up() {
    let bench = Bench::new(&Config::default(), 1).await;
    let logins = join_all((0..500).map(|_| bench.log_in("ghost"))).await;
    for outcome in logins {
        assert_eq!(denied(outcome), Denied::UnknownDevice);
    }
    assert_eq!(bench.misses(), 1);
}

#[tokio::test]
async fn logins_of_many_devices_share_statements_and_each_hears_its_own_answer() {
    let bench = Bench::new(&Config::default(), 1).await;
    let names: Vec<String> = (0..1_000).map(|n| format!("d{n}")).collect();
    // d0 to d9 are there; of the others every second one gives up at once.
    let bench = &bench;
    let logins = names.iter().enumerate().map(async |(number, name)| {
        let gives_up = number >= 10 && number % 2 == 1;
        let limit = if gives_up { 0 } else { u64::from(u32::MAX) };
        let limit = Duration::from_millis(limit);
        tokio::time::timeout(limit, bench.log_in(name)).await.ok()
    });
    for (number, outcome) in join_all(logins).await.into_iter().enumerate() {
        match outcome {
            Some(Ok(device)) => assert_eq!(device.id.name(), format!("d{number}")),
            Some(refused) => {
                assert!(number >= 10, "d{number}");
                assert_eq!(denied(refused), Denied::UnknownDevice);
            }
            None => assert!(number >= 10 && number % 2 == 1, "d{number}"),
        }
    }
    assert_eq!(bench.authenticator.metrics.unavailable.get(), 0);
}

#[tokio::test]
async fn a_cancelled_look_up_is_taken_over_by_a_waiting_login() {
    let bench = Bench::new(&Config::default(), 1).await;
    let held = bench.devices.hold().await;
    let mut first = Box::pin(bench.log_in("d1"));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(bench.log_in("d1"));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    drop(held);
    assert!(second.await.is_ok());
}

// G24: slow is "unavailable" within a bounded time, cached devices are unaffected, recovery needs no restart.
#[tokio::test]
async fn a_slow_database_is_unavailable_in_time_and_recovers() {
    let config = Config {
        lookup_timeout_ms: 500,
        ..Config::default()
    };
    let bench = Bench::new(&config, 1).await;
    assert!(bench.log_in("d0").await.is_ok());
    let held = bench.devices.hold().await;
    let begun = Instant::now();
    let names: Vec<String> = (0..300).map(|n| format!("d{}", n % 10)).collect();
    let outcomes = join_all(names.iter().map(|name| bench.log_in(name))).await;
    // Not one after the other: 270 time-outs in a row would take 135 s.
    assert!(begun.elapsed() < Duration::from_secs(5));
    for (name, outcome) in names.iter().zip(outcomes) {
        match outcome {
            Ok(_) => assert_eq!(name, "d0"),
            Err(Error::Unavailable(Unavailable::Timeout(_) | Unavailable::Broken)) => {
                assert_ne!(name, "d0");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(bench.authenticator.metrics.unavailable.get(), 270);
    // After so many failures in a row nobody waits for the database any more, except for one in a while.
    let now = Instant::now();
    let at_once = bench.log_in_at(now, "d1").await;
    assert!(matches!(
        at_once,
        Err(Error::Unavailable(Unavailable::Broken))
    ));
    assert!(bench.log_in_at(now, "d0").await.is_ok());
    drop(held);
    let later = now + Duration::from_millis(config.breaker_wait_ms);
    for name in ["d1", "d2"] {
        assert!(bench.log_in_at(later, name).await.is_ok());
    }
}

#[tokio::test]
async fn a_failing_database_is_unavailable_and_recovers() {
    let bench = Bench::new(&Config::default(), 2).await;
    bench.outside("ALTER TABLE device RENAME TO away").await;
    for name in ["d1", "ghost"] {
        let outcome = bench.log_in(name).await;
        assert!(matches!(
            outcome,
            Err(Error::Unavailable(Unavailable::Database(_)))
        ));
    }
    bench.outside("ALTER TABLE away RENAME TO device").await;
    assert!(bench.log_in("d1").await.is_ok());
    assert_eq!(denied(bench.log_in("ghost").await), Denied::UnknownDevice);
}

#[tokio::test]
async fn the_cache_is_bounded() {
    let config = Config {
        cache_entries_max: 100,
        ..Config::default()
    };
    let bench = Bench::new(&config, 4).await;
    for n in 0..2_000 {
        assert!(bench.log_in(&format!("ghost{n}")).await.is_err());
    }
    assert!(
        bench
            .authenticator
            .chain
            .as_ref()
            .unwrap()
            .records
            .cache
            .len()
            <= 100
    );
}

#[tokio::test]
async fn steps_are_asked_in_their_order_and_the_database_has_a_word() {
    let certificate = |name: &str| Certificate {
        common_name: Some(format!("p&{name}").into()),
        alternative_names: [].into(),
        fingerprint: [0; 32],
    };
    let mut config = Config {
        chain: vec![Kind::Certificate, Kind::Device],
        ..Config::default()
    };
    let bench = Bench::new(&config, 4).await;
    bench
        .outside("UPDATE device SET state = 0 WHERE name = 'd2'")
        .await;
    let log_in = async |bench: &Bench, client_id: &str, holder: &Certificate| {
        let attempt = Attempt {
            certificate: Some(holder),
            ..Attempt::of(client_id)
        };
        let accepted = bench.authenticator.authenticate(&attempt).await;
        accepted.map(|accepted| accepted.device.id.name().to_owned())
    };
    assert_eq!(
        log_in(&bench, "p&d1", &certificate("d1")).await.unwrap(),
        "d1"
    );
    assert_eq!(
        log_in(&bench, "p&new", &certificate("new")).await.unwrap(),
        "new"
    );
    let disabled = log_in(&bench, "p&d2", &certificate("d2")).await;
    assert_eq!(denied(disabled), Denied::Disabled);
    let other = log_in(&bench, "p&d1", &certificate("d3")).await;
    assert_eq!(denied(other).reason(), "other_device");
    // Who has no certificate proves itself in the next step.
    assert!(bench.log_in("d1").await.is_ok());
    let nothing = bench.authenticator.authenticate(&Attempt::of("p&d1")).await;
    assert_eq!(denied(nothing).reason(), "username");

    config.registered_only = true;
    config.chain = vec![Kind::Certificate];
    let bench = Bench::new(&config, 4).await;
    assert!(log_in(&bench, "p&d1", &certificate("d1")).await.is_ok());
    let unknown = log_in(&bench, "p&new", &certificate("new")).await;
    assert_eq!(denied(unknown), Denied::UnknownDevice);
    assert_eq!(
        denied(bench.log_in("d1").await),
        Denied::Refused(Refusal::Nothing)
    );
    let begun = bench.authenticator.begin(scram::METHOD, "p&d1").await;
    assert!(matches!(begun, Err(Error::Method)));
}

#[test]
fn limits_that_cannot_work_are_faults() {
    assert_eq!(Config::default().validate(), Vec::<String>::new());
    let config = Config {
        chain: vec![],
        registered_only: false,
        lookup_timeout_ms: 0,
        cache_entries_max: 0,
        cache_ttl_ms: 1,
        cache_unknown_ttl_ms: 2,
        breaker_failures: 0,
        breaker_wait_ms: 0,
        scram_iterations: 4_095,
        ..Config::default()
    };
    let expected = [
        "chain is empty",
        "lookup_timeout_ms is 0",
        "cache_entries_max is 0",
        "breaker_failures is 0",
        "breaker_wait_ms is 0",
        "cache_unknown_ttl_ms is 2",
        "scram_iterations is 4095",
    ];
    let faults = config.validate();
    assert_eq!(faults.len(), expected.len());
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}");
    }
    let twice = Config {
        chain: vec![Kind::Device, Kind::Device],
        ..Config::default()
    };
    assert!(twice.validate()[0].starts_with("chain has \"device\" twice"));
    let steps = Config {
        chain: vec![Kind::Certificate, Kind::Jwt],
        certificate: certificate::Config {
            names: vec![],
            fingerprint: false,
            ..certificate::Config::default()
        },
        ..Config::default()
    };
    let faults = steps.validate();
    assert!(faults[0].starts_with("certificate.names: expected"));
    assert!(faults[1].starts_with("jwt.jwks_file: expected"));
}

#[tokio::test]
async fn in_the_open_profile_the_client_identifier_is_who_one_is() {
    let authenticator = Authenticator::open();
    let log_in = async |client_id: &str| {
        let attempt = attempt(client_id, "any", "thing");
        let accepted = authenticator.authenticate(&attempt).await;
        accepted.map(|accepted| accepted.device)
    };
    let client = log_in("a/b").await.unwrap();
    assert_eq!((client.id.product(), client.id.name()), ("open", "a%2Fb"));
    assert_eq!(client.scope, Scope::Open);
    // [MQTT-3.1.3-6]
    let (first, second) = (log_in("").await.unwrap(), log_in("").await.unwrap());
    assert_ne!(first.id, second.id);
    let longest = "x".repeat(device::NAME_BYTES_MAX);
    assert!(log_in(&longest).await.is_ok());
    let refused = log_in(&format!("{longest}x")).await.unwrap_err();
    assert!(matches!(refused, Error::Denied(Denied::ClientId(_))));
    assert_eq!(authenticator.metrics.accepted.get(), 4);
}
