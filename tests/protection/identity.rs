//! Who the gateway is for NATS: an nkey, or a JWT of an account in a credentials file. Both its connections say it, the client's and that
//! of the publishers.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::permissions::{nats, options};
use crate::site::Site;
use crate::support::{Device, Gateway, Protocol, jetway_fails};

/// A gateway that is told who it is by a file, and a device whose report is stored.
async fn works_with(setting: &str, file: &Path, port: u16) {
    let state = tempfile::tempdir().unwrap();
    let mut options = options(port, &state);
    options.nats_url = format!("nats://127.0.0.1:{port}");
    options.environment = vec![(setting.to_owned(), file.display().to_string())];
    let gateway = Gateway::run(options).await;
    let who = Site::device(0);
    let mut device = Device::connect(Protocol::V5, gateway.mqtt(), &who).await;
    assert_eq!(device.publish_acked(&Site::topic(0), "{}").await, 0);
    let log = gateway.log();
    let seed = std::fs::read_to_string(file).unwrap();
    for line in seed.lines().filter(|line| line.len() > 20) {
        assert!(line.starts_with('-') || line.contains(' ') || !log.contains(line));
    }
}

#[tokio::test]
async fn an_nkey() {
    let key = KeyPair::new_user();
    let user = json!({ "nkey": key.public_key() });
    let account = json!({ "jetstream": "enabled", "users": [user] });
    let config = json!({ "jetstream": {}, "accounts": { "JETWAY": account } });
    let (_server, port) = nats(&config.to_string()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.nk");
    std::fs::write(&file, key.seed().unwrap() + "\n").unwrap();
    works_with("JETWAY_NATS_NKEY", &file, port).await;
    // Another one is nobody.
    std::fs::write(&file, KeyPair::new_user().seed().unwrap()).unwrap();
    let (url, file) = (
        format!("nats://127.0.0.1:{port}"),
        file.display().to_string(),
    );
    let environment = [
        ("JETWAY_NATS_URL", url.as_str()),
        ("JETWAY_NATS_NKEY", file.as_str()),
        ("JETWAY_NATS_CONNECT_TIMEOUT_MS", "500"),
    ];
    let (_, printed) = jetway_fails(&["streams", "plan"], &environment);
    assert!(
        printed.to_lowercase().contains("authorization"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_jwt_of_an_account() {
    let (operator, account, user) = (
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    );
    let system = KeyPair::new_account();
    let unlimited = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let mut no_jetstream = unlimited.clone();
    for key in ["mem_storage", "disk_storage", "streams", "consumer"] {
        no_jetstream[key] = 0.into();
    }
    let self_signed = jwt(
        &operator,
        &operator,
        json!({ "type": "operator", "version": 2 }),
    );
    let of_account = |limits: &Value| json!({ "limits": limits, "type": "account", "version": 2 });
    let account_jwt = jwt(&operator, &account, of_account(&unlimited));
    let system_jwt = jwt(&operator, &system, of_account(&no_jetstream));
    let config = json!({
        "jetstream": {},
        "operator": self_signed,
        "system_account": system.public_key(),
        "resolver": "MEMORY",
        "resolver_preload": { account.public_key(): account_jwt, system.public_key(): system_jwt },
    });
    let (_server, port) = nats(&config.to_string()).await;
    let of_user = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2 });
    let token = jwt(&account, &user, of_user);
    let seed = user.seed().unwrap();
    let folder: TempDir = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.creds");
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    std::fs::write(&file, credentials).unwrap();
    works_with("JETWAY_NATS_CREDENTIALS", &file, port).await;
}

fn jwt(issuer: &KeyPair, subject: &KeyPair, nats: Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let claims = json!({
        "jti": "x",
        "iat": 1_700_000_000,
        "iss": issuer.public_key(),
        "name": "x",
        "sub": subject.public_key(),
        "nats": nats,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = part(&header) + "." + &part(&claims);
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    signed + "." + &URL_SAFE_NO_PAD.encode(signature)
}
