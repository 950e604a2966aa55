//! Registration in the catalogue, on each kind of database.

use jetway::auth::credentials::Secret;
use jetway::catalogue::{Catalogue, Error, Keys, Nonce, ProductSecret, Registration};
use jetway::database::Kind;
use jetway::device::DeviceId;

use crate::rig::{Site, number, on_each};

on_each!(
    a_product_is_open_with_a_secret_only,
    a_nonce_is_good_once,
    the_first_login_is_written_once,
);

fn id(product: &str, name: &str) -> DeviceId {
    DeviceId::new(product, name).unwrap()
}

fn secret() -> ProductSecret {
    ProductSecret::new("QEFCQ0RFRkdISUpLTE1OT1BRUlM=".to_owned()).unwrap()
}

async fn a_product_is_open_with_a_secret_only(site: &Site, _: Kind) {
    const KEY: &str = "a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let secret = secret();
    let plain = Catalogue::open(&site.config).await.unwrap();
    let sealed = plain.clone().sealed_with(Keys::parse(KEY).ok().unwrap());
    assert!(plain.registration("p").await.unwrap().is_none());
    let unknown = plain.set_registration("p", Registration::New, Some(&secret));
    assert!(matches!(unknown.await, Err(Error::Unknown(_))));
    plain.add_product("p").await.unwrap();
    let (registration, none) = plain.registration("p").await.unwrap().unwrap();
    assert_eq!((registration, none.is_none()), (Registration::Closed, true));
    let without = plain.set_registration("p", Registration::Known, None);
    assert!(matches!(without.await, Err(Error::Conflict(_))));
    for registration in [Registration::Known, Registration::New] {
        let set = plain.set_registration("p", registration, Some(&secret));
        set.await.unwrap();
        let (found, text) = plain.registration("p").await.unwrap().unwrap();
        assert_eq!(found, registration);
        assert_eq!(text.unwrap().text(), secret.text());
    }
    // Sealed from then on, for this product.
    assert_eq!(sealed.reseal_products().await.unwrap(), 1);
    assert_eq!(sealed.reseal_products().await.unwrap(), 0);
    assert!(matches!(
        plain.registration("p").await,
        Err(Error::Sealing(_))
    ));
    let (_, text) = sealed.registration("p").await.unwrap().unwrap();
    assert_eq!(text.unwrap().text(), secret.text());
    let closed = sealed.set_registration("p", Registration::Closed, None);
    closed.await.unwrap();
    let (registration, none) = plain.registration("p").await.unwrap().unwrap();
    assert_eq!((registration, none.is_none()), (Registration::Closed, true));
}

async fn a_nonce_is_good_once(site: &Site, _: Kind) {
    let (one, other) = (
        Catalogue::open(&site.config).await.unwrap(),
        Catalogue::open(&site.config).await.unwrap(),
    );
    const FAR: i64 = i64::MAX;
    let [d, other_name] = ["d", "D"].map(|name| id("p", name));
    let until = |device, number, expires_at_ms| Nonce {
        device,
        number,
        expires_at_ms,
    };
    let of = |number| [until(&d, number, FAR)];
    for number in [0, -1, i64::MIN, i64::MAX] {
        assert!(one.use_nonces(&of(number)).await.unwrap());
        assert!(!other.use_nonces(&of(number)).await.unwrap());
    }
    let elsewhere = [until(&other_name, 0, FAR)];
    assert!(other.use_nonces(&elsewhere).await.unwrap());
    let seven = of(7);
    let at_once = tokio::join!(one.use_nonces(&seven), other.use_nonces(&seven));
    assert_ne!(at_once.0.unwrap(), at_once.1.unwrap());
    // All or none, and each once.
    let many: Vec<_> = (10..1_010).map(|number| until(&d, number, FAR)).collect();
    assert!(one.use_nonces(&[]).await.unwrap());
    assert!(!one.use_nonces(&[many[0], of(7)[0]]).await.unwrap());
    assert!(!one.use_nonces(&[many[0], many[0]]).await.unwrap());
    assert!(one.use_nonces(&many).await.unwrap());
    // What is over is forgotten.
    assert!(one.use_nonces(&[until(&d, 8, 1)]).await.unwrap());
    assert!(one.use_nonces(&of(9)).await.unwrap());
    let mut transaction = site.pool().await.begin().await.unwrap();
    let left = "SELECT COUNT(*) FROM registration WHERE nonce = 8";
    assert_eq!(number(&mut transaction, left).await, 0);
}

async fn the_first_login_is_written_once(site: &Site, _: Kind) {
    let devices = Catalogue::open(&site.config).await.unwrap();
    let names = ["a", "b", "c"].map(str::to_owned);
    let key = Secret::from_key(b"key");
    let added = devices.add("p", &names, Some(&key)).await.ok().unwrap();
    assert!(added.iter().all(|record| !record.is_activated));
    let twice = [id("p", "a"), id("p", "a"), id("p", "x"), id("q", "b")];
    devices.activate(&[]).await.unwrap();
    devices.activate(&twice).await.unwrap();
    for (name, expected) in [("a", true), ("b", false), ("c", false)] {
        let found = devices.find(&id("p", name)).await.unwrap().unwrap();
        assert_eq!(found.is_activated, expected, "{name}");
    }
    let at = "SELECT activated_at_ms FROM device WHERE name = 'a'";
    let mut transaction = site.pool().await.begin().await.unwrap();
    let before = number(&mut transaction, at).await;
    drop(transaction);
    let [a, b] = ["a", "b"].map(|name| id("p", name));
    let shown = [devices.show(&a).await, devices.show(&b).await];
    let shown = shown.map(|shown| shown.unwrap().listed.activated_at_ms);
    assert_eq!(shown, [Some(before), None]);
    devices.activate(&twice).await.unwrap();
    let mut transaction = site.pool().await.begin().await.unwrap();
    assert_eq!(number(&mut transaction, at).await, before);
}
