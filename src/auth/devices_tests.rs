//! The database of devices against real SQLite files.

use std::fs;
use std::time::Instant;

use tempfile::TempDir;

use super::*;

/// A database in a folder of its own that does not exist yet.
async fn open(folder: &TempDir) -> Devices {
    Devices::open(&at(&url(folder))).await.unwrap()
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

async fn listed(devices: &Devices, product: Option<&str>) -> Vec<DeviceId> {
    let records = devices.list(product).map_ok(|record| record.device);
    records.try_collect().await.unwrap()
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
    assert!(found.enabled);
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
    let opened = (0..8).map(|_| Devices::open(&config));
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
    let devices = Devices::open(&at("sqlite::memory:")).await.unwrap();
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
    let open = async |url: &str| match Devices::open(&at(url)).await.err().unwrap() {
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
    let migrator = sqlx::migrate!("src/auth/migrations/sqlite");
    // Another text is refused where the first was applied.
    assert_eq!(
        migrator.migrations[0].checksum[..4],
        [0xde, 0x1a, 0xbf, 0xc1]
    );
}
