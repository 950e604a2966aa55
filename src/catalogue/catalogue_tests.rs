//! The catalogue against real SQLite files.

use std::fs;
use std::time::{Duration, Instant};

use sqlx::SqlitePool;
use tempfile::TempDir;

use super::*;
use crate::auth::credentials::Secret;
use crate::database;
use crate::device::DeviceId;
use crate::telemetry;

/// A database in a folder of its own that does not exist yet.
async fn open(folder: &TempDir) -> Catalogue {
    Catalogue::open(&at(&url(folder))).await.unwrap()
}

fn at(url: &str) -> database::Config {
    database::Config {
        url: url.to_owned(),
        ..database::Config::default()
    }
}

fn url(folder: &TempDir) -> String {
    let path = folder.path().join("state/new/jetway.db");
    format!("sqlite://{}", path.display())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn id(product: &str, name: &str) -> DeviceId {
    DeviceId::new(product, name).unwrap()
}

async fn listed(devices: &Catalogue, product: Option<&str>) -> Vec<DeviceId> {
    let filter = Filter {
        product: product.map(str::to_owned),
        state: None,
    };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = devices.page(&filter, after.as_ref(), 2_000).await;
        let page: Vec<_> = page
            .unwrap()
            .into_iter()
            .map(|listed| listed.device)
            .collect();
        let Some(last) = page.last() else { return all };
        after = Some(last.clone());
        all.extend(page);
    }
}

#[tokio::test]
async fn a_device_is_found_again_after_reopening() {
    let folder = TempDir::new().unwrap();
    let secret = Secret::from_key(b"a key");
    let devices = open(&folder).await;
    devices
        .add("p", &names(&["d"]), Some(&secret))
        .await
        .ok()
        .unwrap();
    drop(devices);

    let devices = open(&folder).await;
    let found = devices.find(&id("p", "d")).await.unwrap().unwrap();
    assert_eq!(found.device, id("p", "d"));
    assert_eq!(found.secret.text(), secret.text());
    assert_eq!(found.state, State::Enabled);
    assert!(found.sub_devices.is_empty());
    let age_ms = i64::try_from(telemetry::now_unix_ms()).unwrap() - found.created_at_ms;
    assert!((0..60_000).contains(&age_ms), "{age_ms}");
    for unknown in [id("p", "D"), id("P", "d"), id("p", "d "), id("p", "%")] {
        assert!(devices.find(&unknown).await.unwrap().is_none(), "{unknown}");
    }
}

#[tokio::test]
async fn random_secrets_have_20_bytes_and_differ() {
    let folder = TempDir::new().unwrap();
    let added = open(&folder)
        .await
        .add("p", &names(&["a", "b"]), None)
        .await;
    let secrets: Vec<String> = added
        .ok()
        .unwrap()
        .iter()
        .map(|record| record.secret.text().to_owned())
        .collect();
    assert_ne!(secrets[0], secrets[1]);
    for secret in secrets {
        assert_eq!(secret.len(), 28);
        assert!(secret.parse::<Secret>().is_ok());
    }
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let devices = open(&folder).await;
    devices.add("p", &names(&["b"]), None).await.ok().unwrap();
    let before = devices.find(&id("p", "b")).await.unwrap().unwrap();

    let outcome = devices.add("p", &names(&["a", "b", "c"]), None).await;
    assert!(matches!(outcome.err(), Some(Error::Exists(device)) if device == id("p", "b")));
    let outcome = devices.add("q", &names(&["a", "a"]), None).await;
    assert!(matches!(outcome.err(), Some(Error::Exists(device)) if device == id("q", "a")));
    let outcome = devices.add("q", &names(&["a", "b/c"]), None).await;
    assert!(matches!(outcome.err(), Some(Error::Name(_))));

    assert_eq!(listed(&devices, None).await, [id("p", "b")]);
    let after = devices.find(&id("p", "b")).await.unwrap().unwrap();
    assert_eq!(before.secret.text(), after.secret.text());
}

#[tokio::test]
async fn the_list_is_ordered_and_of_one_product_or_all() {
    let folder = TempDir::new().unwrap();
    let devices = open(&folder).await;
    devices
        .add("q", &names(&["z", "a"]), None)
        .await
        .ok()
        .unwrap();
    devices.add("p", &names(&["m"]), None).await.ok().unwrap();
    let all = [id("p", "m"), id("q", "a"), id("q", "z")];
    assert_eq!(listed(&devices, None).await, all);
    assert_eq!(listed(&devices, Some("q")).await, all[1..]);
    assert_eq!(listed(&devices, Some("%")).await, []);
}

#[tokio::test]
async fn a_hundred_thousand_devices_are_added_at_once() {
    let folder = TempDir::new().unwrap();
    let devices = open(&folder).await;
    let names: Vec<String> = (0..100_000).map(|n| format!("d{n}")).collect();
    let begun = Instant::now();
    devices.add("p", &names, None).await.ok().unwrap();
    // An unloaded machine needs 1 to 2 s; a transaction for each would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(listed(&devices, Some("p")).await.len(), 100_000);
}

#[tokio::test]
async fn several_programs_may_open_a_new_database_at_once() {
    let folder = TempDir::new().unwrap();
    let config = at(&url(&folder));
    let opened = (0..8).map(|_| Catalogue::open(&config));
    for devices in futures_util::future::join_all(opened).await {
        assert!(
            devices
                .unwrap()
                .find(&id("p", "d"))
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test]
async fn a_database_in_memory_is_shared_by_the_pool() {
    let devices = Catalogue::open(&at("sqlite::memory:")).await.unwrap();
    devices.add("p", &names(&["d"]), None).await.ok().unwrap();
    let held = devices.hold().await;
    assert!(devices.find(&id("p", "d")).await.unwrap().is_some());
    drop(held);
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(
        &file,
        "not a database, but long enough to be read as a header of one",
    )
    .unwrap();
    let open = async |url: &str| match Catalogue::open(&at(url)).await.err().unwrap() {
        Error::Open(error) => error,
        error => panic!("{error:?}"),
    };

    for url in ["oracle://user:hush@host/db", "jetway.db", "user:hush", ""] {
        let error = open(url).await;
        assert!(matches!(error, database::Error::Url(_)), "{url}: {error:?}");
        assert!(!format!("{error:?} {error}").contains("hush"), "{error}");
    }
    let error = open(&format!("sqlite://{}", file.display())).await;
    assert!(matches!(error, database::Error::Open(_)), "{error:?}");
    let error = open(&format!("sqlite://{}/below/it.db", file.display())).await;
    assert!(matches!(error, database::Error::Folder(..)), "{error:?}");
}

#[test]
fn the_table_of_databases_that_are_there_is_known() {
    let migrator = sqlx::migrate!("src/catalogue/migrations/sqlite");
    // Another text is refused where the first was applied.
    assert_eq!(
        migrator.migrations[0].checksum[..4],
        [0xde, 0x1a, 0xbf, 0xc1]
    );
}

fn keys(text: &str) -> Keys {
    Keys::parse(text).ok().unwrap()
}

const OLD: &str = "old:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const NEW: &str = "new:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

#[tokio::test]
async fn secrets_are_sealed_read_under_old_keys_and_resealed() {
    let folder = TempDir::new().unwrap();
    let secret = Secret::from_key(b"a key");
    let plain = open(&folder).await;
    let add = async |catalogue: &Catalogue, name: &str| {
        let added = catalogue.add("p", &names(&[name]), Some(&secret)).await;
        assert!(added.is_ok(), "{name}");
    };
    let read = async |catalogue: &Catalogue, name: &str| {
        let found = catalogue.find(&id("p", name)).await;
        found.map(|found| found.unwrap().secret.text().to_owned())
    };
    let outside = SqlitePool::connect(&url(&folder)).await.unwrap();
    let rows = async |id: &str| -> Vec<String> {
        let query = sqlx::query_scalar("SELECT secret FROM device WHERE key_id = ?").bind(id);
        query.fetch_all(&outside).await.unwrap()
    };
    add(&plain, "a").await;
    let old = open(&folder).await.sealed_with(keys(OLD));
    add(&old, "b").await;
    assert_eq!(rows("").await, [secret.text()]);
    assert_eq!(rows("old").await.len(), 1);
    assert_ne!(rows("old").await, [secret.text()]);
    // Rows without a key are read by all; those with one by who has it.
    assert_eq!(read(&old, "a").await.unwrap(), secret.text());
    assert_eq!(read(&old, "b").await.unwrap(), secret.text());
    assert!(matches!(read(&plain, "b").await, Err(Error::Sealing(_))));

    let both = open(&folder)
        .await
        .sealed_with(keys(&format!("{NEW} {OLD}")));
    let new = open(&folder).await.sealed_with(keys(NEW));
    let failed = new.reseal(None, 10).await.ok().unwrap();
    assert_eq!((failed.resealed, failed.failed.len()), (1, 1));
    let first = both.reseal(None, 1).await.ok().unwrap();
    assert_eq!((first.last, first.resealed), (Some(id("p", "a")), 0));
    let rest = both.reseal(Some(&id("p", "a")), 10).await.ok().unwrap();
    assert_eq!((rest.last, rest.resealed), (Some(id("p", "b")), 1));
    assert!(rest.failed.is_empty());
    for name in ["a", "b"] {
        assert_eq!(read(&new, name).await.unwrap(), secret.text());
    }
    let end = both.reseal(Some(&id("p", "b")), 10).await.ok().unwrap();
    assert_eq!((end.last, end.resealed), (None, 0));
}

#[tokio::test]
async fn a_row_of_another_device_is_no_secret_of_this_one() {
    let folder = TempDir::new().unwrap();
    let devices = open(&folder).await.sealed_with(keys(OLD));
    devices
        .add("p", &names(&["a", "b"]), None)
        .await
        .ok()
        .unwrap();
    let outside = SqlitePool::connect(&url(&folder)).await.unwrap();
    let swap = "UPDATE device SET secret = (SELECT secret FROM device WHERE name = 'a')";
    sqlx::query(swap).execute(&outside).await.unwrap();
    assert!(devices.find(&id("p", "a")).await.is_ok());
    let error = devices.find(&id("p", "b")).await.err().unwrap();
    assert!(
        error.to_string().contains("p/b: its secret does not open"),
        "{error}"
    );
}

#[tokio::test]
async fn a_database_of_an_earlier_version_is_carried_over() {
    let folder = TempDir::new().unwrap();
    let mut before = sqlx::migrate!("src/catalogue/migrations/sqlite");
    before.migrations.to_mut().truncate(1);
    before.dangerous_set_table_name("auth_migrations");
    fs::create_dir_all(folder.path().join("state/new")).unwrap();
    let pool = SqlitePool::connect(&format!("{}?mode=rwc", url(&folder)))
        .await
        .unwrap();
    before.run(&pool).await.unwrap();
    for row in [
        "INSERT INTO product VALUES ('p', 1)",
        "INSERT INTO device VALUES ('p', 'in', 'abcd', TRUE, 2), ('p', 'out', 'efgh', FALSE, 3)",
    ] {
        sqlx::query(row).execute(&pool).await.unwrap();
    }
    pool.close().await;
    let devices = open(&folder).await.sealed_with(keys(OLD));
    for (name, secret, state, created) in [
        ("in", "abcd", State::Enabled, 2),
        ("out", "efgh", State::Disabled, 3),
    ] {
        let found = devices.find(&id("p", name)).await.unwrap().unwrap();
        assert_eq!(
            (found.secret.text(), found.state, found.created_at_ms),
            (secret, state, created)
        );
    }
    let resealed = devices.reseal(None, 10).await.ok().unwrap();
    assert_eq!(resealed.resealed, 2);
    let found = devices.find(&id("p", "out")).await.unwrap().unwrap();
    assert_eq!(found.secret.text(), "efgh");
}
