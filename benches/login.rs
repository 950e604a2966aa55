//! Login: CPU of the proof alone, with the device in the cache of lately seen ones: client identifier, user name and password of a
//! CONNECT in, the device out. What a whole CONNECT costs is measured by `jetway-bench storm`.
//!
//! `cargo bench --bench login`

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jetway::auth::credentials::{Credentials, Method};
use jetway::auth::{Attempt, Authenticator, Config};
use jetway::catalogue::Catalogue;
use jetway::database;

/// Devices that take turns.
const DEVICES: usize = 10_000;

fn login(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let config = database::Config {
        url: format!("sqlite:{}", folder.path().join("devices.db").display()),
        ..database::Config::default()
    };
    let names: Vec<String> = (0..DEVICES)
        .map(|number| format!("device{number:05}"))
        .collect();
    let (authenticator, records) = runtime.block_on(async {
        let devices = Catalogue::open(&config).await.expect("a database");
        let records = devices.add("demo01", &names, None).await.expect("devices");
        let config = Config {
            cache_ttl_ms: u64::MAX / 2,
            ..Config::default()
        };
        let authenticator = Authenticator::new(&config, devices, None);
        (authenticator.expect("a chain"), records)
    });
    let mut group = c.benchmark_group("login");
    group.throughput(Throughput::Elements(1));
    for method in [Method::HmacSha256, Method::HmacSha1] {
        let logins: Vec<Credentials> = records
            .iter()
            .map(|record| {
                let made = Credentials::generate(&record.device, &record.secret, method);
                made.expect("a secret with a key")
            })
            .collect();
        let prove = async |login: &Credentials| {
            let attempt = Attempt {
                listener: "127.0.0.1:1883",
                peer: None,
                certificate: None,
                client_id: &login.client_id,
                username: Some(&login.username),
                password: Some(login.password.as_bytes()),
            };
            let proved = authenticator.authenticate(&attempt).await;
            black_box(proved.expect("its own credentials"));
        };
        runtime.block_on(async {
            for login in &logins {
                prove(login).await;
            }
        });
        let mut turns = logins.iter().cycle();
        group.bench_function(method.name(), |b| {
            b.iter(|| {
                let login = turns.next().expect("a cycle has no end");
                runtime.block_on(prove(login));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, login);
criterion_main!(benches);
