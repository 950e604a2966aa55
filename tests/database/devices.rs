//! The products and devices of logins, on each kind of database.

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use jetway::auth::credentials::Secret;
use jetway::auth::devices::{Devices, Error};
use jetway::database::{Fate, Kind};
use jetway::device::DeviceId;

use crate::rig::{Site, commit, on_each};

on_each!(
    a_device_is_found_by_its_bytes,
    a_batch_is_stored_whole_or_not_at_all,
    the_list_is_in_the_order_of_bytes,
    programs_add_a_product_at_once,
    ten_thousand_devices_are_added_at_once,
    a_newer_table_is_refused,
);

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

async fn add(devices: &Devices, product: &str, list: &[&str]) -> Result<usize, Error> {
    let added = devices.add(product, &names(list), None).await?;
    Ok(added.len())
}

async fn a_device_is_found_by_its_bytes(site: &Site, _: Kind) {
    let devices = Devices::open(&site.config).await.unwrap();
    let alike = ["d", "D", "d ", "ḋ", "d\u{307}", "設備", "🛰", "%", "'"];
    for product in ["p", "P", "p "] {
        assert_eq!(add(&devices, product, &alike).await.unwrap(), alike.len());
    }
    let secret = Secret::from_key(b"another key");
    let added = devices.add("q", &names(&["d"]), Some(&secret)).await;
    let added = added.ok().unwrap();
    // Opened again it is the same one.
    let devices = Devices::open(&site.config).await.unwrap();
    let mut secrets = Vec::new();
    for product in ["p", "P", "p "] {
        for name in alike {
            let found = devices
                .find(&id(product, name))
                .await
                .ok()
                .unwrap()
                .unwrap();
            assert_eq!(found.device, id(product, name));
            assert!(found.enabled);
            secrets.push(found.secret.text().to_owned());
        }
    }
    secrets.sort_unstable();
    secrets.dedup();
    assert_eq!(secrets.len(), 27, "none was found for another");
    let found = devices.find(&id("q", "d")).await.ok().unwrap().unwrap();
    assert_eq!(found.secret.text(), secret.text());
    assert_eq!(found.created_at_ms, added[0].created_at_ms);
    for unknown in [id("q", "D"), id("q ", "d"), id("q", "d ")] {
        assert!(
            devices.find(&unknown).await.ok().unwrap().is_none(),
            "{unknown}"
        );
    }
}

async fn a_batch_is_stored_whole_or_not_at_all(site: &Site, _: Kind) {
    let devices = Devices::open(&site.config).await.unwrap();
    add(&devices, "p", &["b", "c"]).await.unwrap();
    let before = devices.find(&id("p", "b")).await.ok().unwrap().unwrap();
    let outcome = add(&devices, "p", &["a", "b", "c"]).await;
    assert!(matches!(outcome, Err(Error::Exists(device)) if device == id("p", "b")));
    let outcome = add(&devices, "q", &["a", "a"]).await;
    assert!(matches!(outcome, Err(Error::Exists(device)) if device == id("q", "a")));
    assert_eq!(listed(&devices, None).await, [id("p", "b"), id("p", "c")]);
    let after = devices.find(&id("p", "b")).await.ok().unwrap().unwrap();
    assert_eq!(before.secret.text(), after.secret.text());
    // Not even its product.
    assert_eq!(add(&devices, "q", &["a"]).await.unwrap(), 1);
}

async fn the_list_is_in_the_order_of_bytes(site: &Site, _: Kind) {
    let devices = Devices::open(&site.config).await.unwrap();
    add(&devices, "q", &["z", "Z", "ä", "a"]).await.unwrap();
    add(&devices, "p", &["m"]).await.unwrap();
    let all = [
        id("p", "m"),
        id("q", "Z"),
        id("q", "a"),
        id("q", "z"),
        id("q", "ä"),
    ];
    assert_eq!(listed(&devices, None).await, all);
    assert_eq!(listed(&devices, Some("q")).await, all[1..]);
    assert_eq!(listed(&devices, Some("Q")).await, []);
}

async fn programs_add_a_product_at_once(site: &Site, _: Kind) {
    let programs = (0..8).map(async |number| {
        let devices = Devices::open(&site.config).await.unwrap();
        add(&devices, "p", &[&format!("d{number}")]).await
    });
    for added in join_all(programs).await {
        assert_eq!(added.unwrap(), 1);
    }
    let devices = Devices::open(&site.config).await.unwrap();
    assert_eq!(listed(&devices, Some("p")).await.len(), 8);
}

async fn ten_thousand_devices_are_added_at_once(site: &Site, _: Kind) {
    let devices = Devices::open(&site.config).await.unwrap();
    let many: Vec<String> = (0..10_000).map(|number| format!("d{number:05}")).collect();
    devices.add("p", &many, None).await.ok().unwrap();
    let listed = listed(&devices, None).await;
    assert!(listed.iter().map(DeviceId::name).eq(&many));
}

async fn a_newer_table_is_refused(site: &Site, _: Kind) {
    drop(Devices::open(&site.config).await.unwrap());
    let newer = "UPDATE auth_migrations SET version = 1000";
    commit(&site.pool().await, newer).await.unwrap();
    match Devices::open(&site.config).await {
        Err(Error::Open(error)) => assert_eq!(error.fate(), Fate::Refused),
        other => panic!("{other:?}"),
    }
}
