//! The products and devices of logins, on each kind of database.

use std::slice::from_ref;

use futures_util::future::join_all;
use jetway::auth::credentials::Secret;
use jetway::catalogue::{Catalogue, Error, Filter, Keys, Registration, State};
use jetway::database::{Fate, Kind, Schema};
use jetway::device::DeviceId;
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::rig::{Site, commit, number, on_each};

on_each!(
    a_device_is_found_by_its_bytes,
    a_batch_is_stored_whole_or_not_at_all,
    the_list_is_in_the_order_of_bytes,
    programs_add_a_product_at_once,
    ten_thousand_devices_are_added_at_once,
    a_newer_table_is_refused,
    the_table_of_earlier_versions_is_carried_over,
    devices_are_changed_and_removed,
    products_are_there_without_devices,
    certificates_tell_devices,
    sub_devices_are_bound_to_one_gateway,
    secrets_are_sealed,
);

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
        let page = devices.page(&filter, after.as_ref(), 700).await;
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

async fn add(devices: &Catalogue, product: &str, list: &[&str]) -> Result<usize, Error> {
    let added = devices.add(product, &names(list), None).await?;
    Ok(added.len())
}

async fn a_device_is_found_by_its_bytes(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    let alike = ["d", "D", "d ", "ḋ", "d\u{307}", "設備", "🛰", "%", "'"];
    for product in ["p", "P", "p "] {
        assert_eq!(add(&devices, product, &alike).await.unwrap(), alike.len());
    }
    let secret = Secret::from_key(b"another key");
    let added = devices.add("q", &names(&["d"]), Some(&secret)).await;
    let added = added.ok().unwrap();
    // Opened again it is the same one.
    let devices = Catalogue::open(&site.config).await.unwrap();
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
            assert_eq!(found.state, State::Enabled);
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
    let devices = Catalogue::open(&site.config).await.unwrap();
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
    let devices = Catalogue::open(&site.config).await.unwrap();
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
        let devices = Catalogue::open(&site.config).await.unwrap();
        add(&devices, "p", &[&format!("d{number}")]).await
    });
    for added in join_all(programs).await {
        assert_eq!(added.unwrap(), 1);
    }
    let devices = Catalogue::open(&site.config).await.unwrap();
    assert_eq!(listed(&devices, Some("p")).await.len(), 8);
}

async fn ten_thousand_devices_are_added_at_once(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    let many: Vec<String> = (0..10_000).map(|number| format!("d{number:05}")).collect();
    devices.add("p", &many, None).await.ok().unwrap();
    let listed = listed(&devices, None).await;
    assert!(listed.iter().map(DeviceId::name).eq(&many));
}

async fn a_newer_table_is_refused(site: &Site, _: Kind) {
    drop(Catalogue::open(&site.config).await.unwrap());
    let newer = "UPDATE auth_migrations SET version = 1000 WHERE version = 2";
    commit(&site.pool().await, newer).await.unwrap();
    match Catalogue::open(&site.config).await {
        Err(Error::Open(error)) => assert_eq!(error.fate(), Fate::Refused),
        other => panic!("{other:?}"),
    }
}

/// The table of version 0.1, and what a program of today makes of it, also when it was cut off right behind the change.
async fn the_table_of_earlier_versions_is_carried_over(site: &Site, kind: Kind) {
    let pool = site.pool().await;
    let first = match kind {
        Kind::Sqlite => include_str!("../../src/catalogue/migrations/sqlite/0001_devices.sql"),
        Kind::Postgres => include_str!("../../src/catalogue/migrations/postgres/0001_devices.sql"),
        Kind::MySql => include_str!("../../src/catalogue/migrations/mysql/0001_devices.sql"),
    };
    let migrator = || {
        let sql = sqlx::AssertSqlSafe(first).into_sql_str();
        let first = Migration::new(1, "devices".into(), MigrationType::Simple, sql, false);
        Migrator::with_migrations(vec![first])
    };
    let before = Schema {
        applied: "auth_migrations",
        sqlite: migrator(),
        postgres: migrator(),
        mysql: migrator(),
    };
    pool.migrate(before).await.unwrap();
    for sql in [
        "INSERT INTO product VALUES ('p', 1)",
        "INSERT INTO device VALUES ('p', 'in', 'abcd', TRUE, 2), ('p', 'out', 'efgh', FALSE, 3)",
    ] {
        commit(&pool, sql).await.unwrap();
    }
    let check = async || {
        let devices = Catalogue::open(&site.config).await.unwrap();
        for (name, secret, state, created) in [
            ("in", "abcd", State::Enabled, 2),
            ("out", "efgh", State::Disabled, 3),
        ] {
            let found = devices.find(&id("p", name)).await.unwrap().unwrap();
            let found = (
                found.secret.text().to_owned(),
                found.state,
                found.created_at_ms,
            );
            assert_eq!(found, (secret.to_owned(), state, created));
        }
    };
    check().await;
    if kind == Kind::MySql {
        let cut_off = "UPDATE auth_migrations SET success = FALSE WHERE version = 2";
        commit(&pool, cut_off).await.unwrap();
        check().await;
    }
}

async fn devices_are_changed_and_removed(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    add(&devices, "p", &["a", "b", "c"]).await.unwrap();
    let (a, gone) = (id("p", "a"), id("p", "gone"));
    let unknown = |outcome: Result<(), Error>| {
        assert!(matches!(outcome, Err(Error::Unknown(what)) if what == "device p/gone"));
    };
    for state in State::ALL {
        // Also a second time.
        for _ in 0..2 {
            devices.set_state(&a, state).await.unwrap();
            assert_eq!(devices.find(&a).await.unwrap().unwrap().state, state);
        }
        unknown(devices.set_state(&gone, state).await.map(drop));
    }
    let blocked = Filter {
        product: Some("p".to_owned()),
        state: Some(State::Blocked),
    };
    let page = devices.page(&blocked, None, 10).await.unwrap();
    assert_eq!(
        page.iter().map(|listed| &listed.device).collect::<Vec<_>>(),
        [&a]
    );

    let before = devices.find(&a).await.unwrap().unwrap().secret;
    let random = devices.set_secret(&a, None).await.unwrap();
    assert_ne!(before.text(), random.text());
    let given = Secret::from_key(b"given");
    devices.set_secret(&a, Some(given.clone())).await.unwrap();
    let found = devices.find(&a).await.unwrap().unwrap();
    assert_eq!(
        (found.secret.text(), found.state),
        (given.text(), State::Blocked)
    );
    unknown(devices.set_secret(&gone, None).await.map(drop));

    devices.remove(&id("p", "b")).await.unwrap();
    assert_eq!(listed(&devices, None).await, [id("p", "a"), id("p", "c")]);
    unknown(devices.remove(&gone).await.map(drop));
}

async fn products_are_there_without_devices(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    add(&devices, "p", &["a", "b"]).await.unwrap();
    devices.add_product("q").await.unwrap();
    let there = devices.add_product("p").await;
    assert!(matches!(there, Err(Error::Conflict(words)) if words == "product p exists already"));
    assert!(matches!(
        devices.add_product("q/r").await,
        Err(Error::Name(_))
    ));
    let all = async |after: &str, limit| -> Vec<(String, i64)> {
        let products = devices.products(after, limit).await.unwrap().into_iter();
        products
            .map(|product| (product.id, product.devices))
            .collect()
    };
    assert_eq!(
        all("", 10).await,
        [("p".to_owned(), 2), ("q".to_owned(), 0)]
    );
    let registered = devices.products("", 1).await.unwrap();
    assert_eq!(registered[0].registration, Registration::Closed);
    let open = devices.change_registration("p", Registration::New, None);
    open.await.unwrap();
    let registered = devices.products("", 1).await.unwrap();
    assert_eq!(registered[0].registration, Registration::New);
    assert_eq!(all("", 1).await, [("p".to_owned(), 2)]);
    assert_eq!(all("p", 1).await, [("q".to_owned(), 0)]);
    let with_devices = devices.remove_product("p").await;
    assert!(
        matches!(with_devices, Err(Error::Conflict(words)) if words == "product p has devices")
    );
    devices.remove_product("q").await.unwrap();
    assert!(matches!(
        devices.remove_product("q").await,
        Err(Error::Unknown(_))
    ));
}

async fn certificates_tell_devices(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    add(&devices, "p", &["a", "b"]).await.unwrap();
    let (a, b) = (id("p", "a"), id("p", "b"));
    let (first, second): ([u8; 32], [u8; 32]) = ([0; 32], [7; 32]);
    devices.add_certificate(&a, &first).await.unwrap();
    devices.add_certificate(&a, &second).await.unwrap();
    assert_eq!(devices.certificates(&a).await.unwrap(), [first, second]);
    assert_eq!(devices.certificates(&b).await.unwrap(), [] as [[u8; 32]; 0]);
    assert_eq!(
        devices.by_fingerprint(&second).await.unwrap(),
        Some(a.clone())
    );
    assert_eq!(devices.by_fingerprint(&[1; 32]).await.unwrap(), None);
    let taken = devices.add_certificate(&b, &first).await;
    assert!(matches!(taken, Err(Error::Conflict(_))));
    let nobody = devices.add_certificate(&id("p", "gone"), &[2; 32]).await;
    assert!(matches!(nobody, Err(Error::Unknown(_))));
    let others = devices.remove_certificate(&b, &first).await;
    assert!(matches!(others, Err(Error::Unknown(_))));
    devices.remove_certificate(&a, &first).await.unwrap();
    assert_eq!(devices.by_fingerprint(&first).await.unwrap(), None);
    devices.remove(&a).await.unwrap();
    assert_eq!(devices.by_fingerprint(&second).await.unwrap(), None);
}

async fn sub_devices_are_bound_to_one_gateway(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    add(&devices, "g", &["g", "h"]).await.unwrap();
    add(&devices, "s", &["a", "b", "c"]).await.unwrap();
    let (g, h) = (id("g", "g"), id("g", "h"));
    let [a, b, c] = ["a", "b", "c"].map(|name| id("s", name));
    let of = async |gateway: &DeviceId| {
        let found = devices.find(gateway).await.unwrap().unwrap();
        found.sub_devices.to_vec()
    };
    devices.bind(&g, &[b.clone(), a.clone()]).await.unwrap();
    devices.bind(&g, from_ref(&a)).await.unwrap();
    assert_eq!(of(&g).await, [a.clone(), b.clone()]);
    assert_eq!(of(&h).await, [] as [DeviceId; 0]);

    let taken = devices.bind(&h, &[c.clone(), b.clone()]).await;
    assert!(matches!(taken, Err(Error::Conflict(words)) if words == "device s/b is bound to g/g"));
    let itself = devices.bind(&h, from_ref(&h)).await;
    assert!(matches!(itself, Err(Error::Conflict(_))));
    let nobody = devices.bind(&h, &[c.clone(), id("s", "gone")]).await;
    assert!(matches!(nobody, Err(Error::Unknown(what)) if what == "device s/gone"));
    let nowhere = devices.bind(&id("g", "gone"), from_ref(&c)).await;
    assert!(matches!(nowhere, Err(Error::Unknown(what)) if what == "device g/gone"));
    assert_eq!(
        of(&h).await,
        [] as [DeviceId; 0],
        "bound whole or not at all"
    );
    let page = devices.page(&Filter::default(), None, 10).await.unwrap();
    let gateways: Vec<_> = page.iter().map(|listed| listed.gateway.clone()).collect();
    assert_eq!(
        gateways,
        [None, None, Some(g.clone()), Some(g.clone()), None]
    );

    for (state, bound) in [
        (State::Blocked, from_ref(&a)),
        (State::Enabled, &[a.clone(), b.clone()]),
    ] {
        let told = devices.set_state(&b, state).await.unwrap();
        assert_eq!(told.rebound(), Some(g.clone()));
        assert_eq!(of(&g).await, bound, "for others nobody speaks");
    }
    let others = devices.unbind(&g, &[a.clone(), c.clone()]).await;
    assert!(matches!(others, Err(Error::Unknown(_))));
    devices.unbind(&g, from_ref(&a)).await.unwrap();
    assert_eq!(of(&g).await, from_ref(&b));
    let told = devices.remove(&b).await.unwrap();
    assert_eq!(told.rebound(), Some(g.clone()));
    assert_eq!(of(&g).await, [] as [DeviceId; 0]);
    devices.bind(&h, from_ref(&c)).await.unwrap();
    devices.remove(&h).await.unwrap();
    devices.bind(&g, from_ref(&c)).await.unwrap();
    assert_eq!(of(&g).await, [c]);
}

async fn secrets_are_sealed(site: &Site, _: Kind) {
    let keys = |text: &str| Keys::parse(text).ok().unwrap();
    const OLD: &str = "old:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const NEW: &str = "new:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let plain = Catalogue::open(&site.config).await.unwrap();
    let old = plain.clone().sealed_with(keys(OLD));
    let longest = Secret::from_stored("0".repeat(255));
    plain
        .add("p", &names(&["plain"]), Some(&longest))
        .await
        .ok()
        .unwrap();
    old.add("p", &names(&["sealed"]), Some(&longest))
        .await
        .ok()
        .unwrap();
    let too_long = Secret::from_stored("0".repeat(256));
    assert!(matches!(
        old.add("p", &names(&["long"]), Some(&too_long)).await,
        Err(Error::Sealing(_))
    ));
    let both = plain.clone().sealed_with(keys(&format!("{NEW},{OLD}")));
    let resealed = both.reseal(None, 10).await.ok().unwrap();
    assert_eq!((resealed.resealed, resealed.failed.len()), (2, 0));
    let new = plain.clone().sealed_with(keys(NEW));
    for name in ["plain", "sealed"] {
        let found = new.find(&id("p", name)).await.unwrap().unwrap();
        assert_eq!(found.secret.text(), longest.text());
        assert!(matches!(
            plain.find(&id("p", name)).await,
            Err(Error::Sealing(_))
        ));
    }
    let mut transaction = site.pool().await.begin().await.unwrap();
    let shown = "SELECT COUNT(*) FROM device WHERE secret LIKE '%0000%' OR key_id <> 'new'";
    assert_eq!(number(&mut transaction, shown).await, 0);
}
