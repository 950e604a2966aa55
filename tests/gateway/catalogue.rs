//! Products, devices, certificates and bindings on the operator's HTTP port.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::revocation::{PATIENT, let_in};
use crate::site::Site;
use crate::support::{Credentials, FaultProxy, Gateway, NatsServer, RunOptions, eventually, http};

/// Method, path, body, status, and what is said of it; while `h/s t` is bound to `h/g`.
const REFUSED: [(&str, &str, &str, u16, &str); 17] = [
    (
        "POST",
        "/products",
        r#"{"id":"h"}"#,
        409,
        "product h exists already",
    ),
    (
        "DELETE",
        "/products/h",
        "null",
        409,
        "product h has devices",
    ),
    (
        "DELETE",
        "/products/none",
        "null",
        404,
        "there is no product none",
    ),
    (
        "GET",
        "/devices/h/none",
        "null",
        404,
        "there is no device h/none",
    ),
    (
        "GET",
        "/devices?colour=red",
        "null",
        400,
        "colour: unknown, expected one of product, state",
    ),
    (
        "GET",
        "/devices?state=red",
        "null",
        400,
        "state: expected enabled, disabled or blocked",
    ),
    (
        "GET",
        "/devices?after=h",
        "null",
        400,
        r#"after: found "h", expected PRODUCT/NAME"#,
    ),
    (
        "POST",
        "/devices",
        r#"{"product":"h"}"#,
        400,
        "body: missing field `name`",
    ),
    (
        "POST",
        "/devices",
        r#"{"product":"h","name":"g"}"#,
        409,
        "device h/g exists already",
    ),
    (
        "POST",
        "/devices",
        r#"{"product":"h","name":"x","secret":"?"}"#,
        400,
        "secret: ",
    ),
    (
        "PUT",
        "/products/h/registration",
        r#"{"devices":"some"}"#,
        400,
        "devices: expected closed, known or new",
    ),
    (
        "PUT",
        "/products/h/registration",
        r#"{"devices":"new","secret":"0123456789abcde"}"#,
        409,
        "expected at least 16 bytes",
    ),
    (
        "PUT",
        "/products/nobody/registration",
        r#"{"devices":"new"}"#,
        404,
        "product nobody",
    ),
    (
        "PUT",
        "/devices/h/g/state",
        r#"{"state":1}"#,
        400,
        "body: invalid type",
    ),
    (
        "POST",
        "/devices/h/g/certificates",
        r#"{"fingerprint":"ab"}"#,
        400,
        "expected 64 hexadecimal digits",
    ),
    (
        "POST",
        "/devices/h/g/sub-devices",
        r#"{"sub_devices":["h/g"]}"#,
        409,
        "its own sub-device",
    ),
    (
        "POST",
        "/devices/flows/d0/sub-devices",
        r#"{"sub_devices":["h/s t"]}"#,
        409,
        "device h/s t is bound to h/g",
    ),
];

async fn ask(gateway: &Gateway, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let (status, body) = http::send(gateway.ready.http, method, path, &body).await;
    let json = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    (status, json)
}

/// `told` is what the server has, not what was sent to it.
#[tokio::test]
async fn a_change_is_told_once_nats_has_it() {
    let site = Site::start(&PATIENT).await;
    let address = SocketAddr::from(([127, 0, 0, 1], site.nats.port()));
    let nats = FaultProxy::start(address).await;
    let gateway = site.gateway_at(nats.url()).await;
    let who = site.device();
    let mut device = let_in(&site.gateway, &who.credentials).await;
    let block = async |state: &str| {
        let path = format!("/devices/{}/{}/state", who.product, who.name);
        ask(&gateway, "PUT", &path, json!({ "state": state })).await
    };
    let (status, answer) = block("enabled").await;
    assert_eq!((status, &answer["told"]), (200, &json!(true)));
    nats.hold();
    let (status, answer) = block("blocked").await;
    assert_eq!((status, &answer["told"]), (200, &json!(false)));
    nats.release();
    assert_eq!(device.closed().await.reason, Some(0x98));
}

#[tokio::test]
async fn devices_are_added_shown_changed_and_removed_over_http() {
    let site = Site::start(&PATIENT).await;
    let second = site.further_gateway().await;
    let ask = async |method, path: &str, body| ask(&site.gateway, method, path, body).await;
    let (status, added) = ask("POST", "/devices", json!({ "product": "h", "name": "d" })).await;
    assert_eq!((status, &added["told"]), (201, &json!(true)));
    let credentials: Credentials = serde_json::from_value(added.clone()).unwrap();
    let mut device = let_in(&second, &credentials).await;

    let shown = async || ask("GET", "/devices/h/d", Value::Null).await;
    eventually("the first login is written", async || {
        match shown().await.1["activated_at_ms"].as_i64() {
            Some(_) => Ok(()),
            None => Err("not yet".to_owned()),
        }
    })
    .await;
    let (status, shown) = shown().await;
    assert_eq!((status, &shown["state"]), (200, &json!("enabled")));
    let (_, listed) = ask("GET", "/devices?product=h", Value::Null).await;
    assert_eq!(listed["devices"][0]["name"], "d");
    let secret = added["secret"].as_str().unwrap();
    for answer in [&shown, &listed] {
        assert!(!answer.to_string().contains(secret), "{answer}");
    }
    // At another gateway than the one that is asked.
    let blocked = ask("PUT", "/devices/h/d/state", json!({ "state": "blocked" })).await;
    assert_eq!((blocked.0, &blocked.1["told"]), (200, &json!(true)));
    assert_eq!(device.closed().await.reason, Some(0x98));
    let (_, listed) = ask("GET", "/devices?state=blocked", Value::Null).await;
    assert_eq!(listed["devices"].as_array().unwrap().len(), 1);
    ask("PUT", "/devices/h/d/state", json!({ "state": "enabled" })).await;
    let (_, changed) = ask("PUT", "/devices/h/d/secret", Value::Null).await;
    assert_ne!(changed["secret"], added["secret"]);
    let given = "ICEiIyQlJicoKSorLC0uLzAxMjM=";
    let (_, changed) = ask("PUT", "/devices/h/d/secret", json!({ "secret": given })).await;
    assert_eq!(changed["secret"], given);
    let credentials: Credentials = serde_json::from_value(changed).unwrap();
    let mut device = let_in(&second, &credentials).await;
    let (status, removed) = ask("DELETE", "/devices/h/d", Value::Null).await;
    assert_eq!((status, &removed["removed"]), (200, &json!("h/d")));
    assert_eq!(device.closed().await.reason, Some(0x98));
    let logs = [site.gateway.log(), second.log()].concat();
    assert!(!logs.contains(secret) && !logs.contains(given));
}

#[tokio::test]
async fn products_certificates_and_bindings_are_changed_over_http() {
    let site = Site::start(&[]).await;
    let ask = async |method, path: &str, body| ask(&site.gateway, method, path, body).await;
    assert_eq!(ask("POST", "/products", json!({ "id": "h" })).await.0, 201);
    for name in ["g", "a/", "s t"] {
        let new = json!({ "product": "h", "name": name });
        let expected = if name == "a/" { 400 } else { 201 };
        assert_eq!(ask("POST", "/devices", new).await.0, expected, "{name}");
    }
    let (_, products) = ask("GET", "/products?limit=1", Value::Null).await;
    assert_eq!(products["next"], "flows");
    let (_, products) = ask("GET", "/products?after=flows", Value::Null).await;
    assert_eq!(
        (&products["products"][0]["devices"], &products["next"]),
        (&json!(2), &Value::Null)
    );
    let (_, new) = ask("GET", "/devices/h/g", Value::Null).await;
    assert_eq!(new["activated_at_ms"], Value::Null);

    let open = json!({ "devices": "known" });
    let (status, opened) = ask("PUT", "/products/h/registration", open.clone()).await;
    assert_eq!(status, 200);
    let secret = opened["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 28);
    let (_, products) = ask("GET", "/products?after=flows", Value::Null).await;
    assert_eq!(products["products"][0]["registration"], "known");
    assert!(!products.to_string().contains(secret));
    // The same one as long as it is open.
    let (_, again) = ask("PUT", "/products/h/registration", open).await;
    assert_eq!(again, opened);
    let close = json!({ "devices": "closed" });
    let (status, closed) = ask("PUT", "/products/h/registration", close).await;
    assert_eq!((status, &closed["secret"]), (200, &Value::Null));

    let fingerprint = "ab".repeat(32);
    let new = json!({ "fingerprint": fingerprint });
    assert_eq!(ask("POST", "/devices/h/g/certificates", new).await.0, 201);
    let bind = json!({ "sub_devices": ["h/s t"] });
    assert_eq!(ask("POST", "/devices/h/g/sub-devices", bind).await.0, 201);
    let (_, gateway) = ask("GET", "/devices/h/g", Value::Null).await;
    assert_eq!(
        (&gateway["certificates"], &gateway["sub_devices"]),
        (&json!([fingerprint]), &json!(["h/s t"]))
    );
    let (_, sub_device) = ask("GET", "/devices/h/s%20t", Value::Null).await;
    assert_eq!(sub_device["gateway"], "h/g");

    for (method, path, body, status, said) in REFUSED {
        let body = serde_json::from_str(body).unwrap();
        let (found, answer) = ask(method, path, body).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(said), "{method} {path}: {error}");
    }
    let certificate = format!("/devices/h/g/certificates/{fingerprint}");
    for (path, again) in [
        (certificate.as_str(), 404),
        ("/devices/h/g/sub-devices/h/s%20t", 404),
        ("/devices/h/g", 404),
        ("/devices/h/s%20t", 404),
        ("/products/h", 404),
    ] {
        assert_eq!(ask("DELETE", path, Value::Null).await.0, 200, "{path}");
        assert_eq!(ask("DELETE", path, Value::Null).await.0, again, "{path}");
    }
}

#[tokio::test]
async fn a_node_that_lets_anybody_in_has_no_catalogue() {
    let nats = NatsServer::start().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url: "sqlite::memory:".to_owned(),
        environment: vec![("JETWAY_PROFILE".to_owned(), "open".to_owned())],
        ..RunOptions::default()
    })
    .await;
    for path in ["/devices", "/products", "/devices/p/d"] {
        let (status, answer) = ask(&gateway, "GET", path, Value::Null).await;
        assert_eq!(status, 404, "{answer}");
        assert!(
            answer["error"].as_str().unwrap().contains("no catalogue"),
            "{answer}"
        );
    }
}
