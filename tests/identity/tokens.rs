//! Step `jwt`: tokens signed with keys that openssl made, key sets in a file and behind a URL, and the end of a token.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::service::{Says, Service};
use crate::site::{Client, Site};
use crate::support::{Connect, Credentials, Device, Protocol, eventually, succeed};

const BOTH: [Protocol; 2] = [Protocol::V311, Protocol::V5];

enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// An issuer's key.
struct Signer {
    id: &'static str,
    pair: Pair,
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now_ms() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "an issuer has a clock of its own"
    )]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

impl Signer {
    /// A key of openssl.
    fn new(id: &'static str, algorithm: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let [pem, der] = ["key.pem", "key.der"].map(|name| folder.path().join(name));
        let mut command = Command::new("openssl");
        command.args(["genpkey", "-out"]).arg(&pem);
        match algorithm {
            "RS256" => command.args(["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
            "ES256" => command.args(["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
            _ => command.args(["-algorithm", "ED25519"]),
        };
        succeed(&mut command);
        let mut command = Command::new("openssl");
        command.args(["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-in"]);
        succeed(command.arg(&pem).arg("-out").arg(&der));
        let der = std::fs::read(der).unwrap();
        let pair = match algorithm {
            "RS256" => Pair::Rsa(RsaKeyPair::from_pkcs8(&der).unwrap()),
            "ES256" => {
                let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
                Pair::P256(EcdsaKeyPair::from_pkcs8(algorithm, &der, &random).unwrap())
            }
            _ => Pair::Ed25519(Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).unwrap()),
        };
        Self { id, pair }
    }

    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let key: RsaPublicKeyComponents<Vec<u8>> = pair.public_key().into();
                json!({"kty": "RSA", "n": encoded(key.n), "e": encoded(key.e)})
            }
            Pair::P256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key())})
            }
        };
        jwk["kid"] = json!(self.id);
        jwk["alg"] = json!(self.algorithm());
        jwk
    }

    /// A token for `demo`/`name` that ends so many milliseconds from now.
    fn token(&self, name: &str, left_ms: i64) -> String {
        let end_s = now_ms().checked_add_signed(left_ms).unwrap() as f64 / 1_000.0;
        let header = json!({"alg": self.algorithm(), "kid": self.id, "typ": "JWT"});
        let claims = json!({"product": "demo", "device": name, "exp": end_s, "iss": "issuer"});
        let signed = format!(
            "{}.{}",
            encoded(header.to_string()),
            encoded(claims.to_string())
        );
        let (message, random) = (signed.as_bytes(), SystemRandom::new());
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding = &RSA_PKCS1_SHA256;
                pair.sign(padding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Pair::P256(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        };
        format!("{signed}.{}", encoded(signature))
    }
}

fn set(signers: &[&Signer]) -> Value {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys })
}

fn holder<'a>(client_id: &'a str, token: &'a str) -> Client<'a> {
    Client {
        client_id,
        username: "token",
        password: token,
        ..Client::default()
    }
}

/// A gateway that takes tokens, with these settings of the step.
async fn site(settings: &str) -> Site {
    let settings = format!("{{ issuer = 'issuer', leeway_s = 0, {settings} }}");
    Site::start(&[
        ("JETWAY_AUTH_CHAIN", "['device', 'jwt']"),
        ("JETWAY_AUTH_JWT", &settings),
        ("JETWAY_LOG_FILTER", "trace"),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_all_algorithms_let_devices_in() {
    let signers = ["RS256", "ES256", "EdDSA"].map(|algorithm| Signer::new(algorithm, algorithm));
    let stranger = Signer::new("ES256", "ES256");
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, set(&signers.each_ref()).to_string()).unwrap();
    let site = site(&format!("jwks_file = {file:?}")).await;
    let mqtt = site.gateway.mqtt();
    let mut secrets = Vec::new();
    for signer in &signers {
        let token = signer.token("one", 60_000);
        let client = holder("demo&one", &token);
        for (protocol, version) in BOTH.into_iter().zip(["mqttv311", "mqttv5"]) {
            assert_eq!(client.log_in(protocol, mqtt), 0, "{}", signer.id);
            succeed(client.mosquitto(mqtt).args(["-V", version]));
        }
        secrets.push(token);
    }
    assert_eq!(site.stored("one").await, 12);
    for (protocol, bad, not_authorized) in [(Protocol::V311, 4, 5), (Protocol::V5, 0x86, 0x87)] {
        for (client_id, token, code) in [
            ("demo&one", stranger.token("one", 60_000), bad),
            ("demo&one", signers[0].token("one", -1_000), bad),
            ("demo&two", signers[0].token("one", 60_000), not_authorized),
        ] {
            assert_eq!(holder(client_id, &token).log_in(protocol, mqtt), code);
            secrets.push(token);
        }
    }
    // Devices with secrets come in beside them.
    let device = site.gateway.add_devices("secret", 1).remove(0);
    let who = &device.credentials;
    let client = Client {
        client_id: &who.client_id,
        username: &who.username,
        password: &who.password,
        ..Client::default()
    };
    assert_eq!(client.log_in(Protocol::V5, mqtt), 0);
    secrets.extend([who.password.clone(), device.secret.clone()]);
    let log = site.gateway.log();
    assert!(log.contains("login denied"));
    for secret in secrets {
        assert!(!log.contains(&secret), "a secret is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_ends_with_its_token() {
    let signer = Signer::new("k", "EdDSA");
    let service = Service::start(Says::Json(set(&[&signer]))).await;
    let site = site(&format!("jwks_url = '{}'", service.url())).await;
    for (protocol, reason) in [(Protocol::V5, Some(0x87)), (Protocol::V311, None)] {
        let token = signer.token("one", 2_000);
        let who = Credentials {
            client_id: "demo&one".to_owned(),
            username: "token".to_owned(),
            password: token,
        };
        let connect = Connect::new(protocol, site.gateway.mqtt(), &who);
        let mut device = Device::connect_with(connect).await.unwrap();
        assert_eq!(device.closed().await.reason, reason);
        // It is good for nothing any more, cached or not.
        let connect = Connect::new(Protocol::V5, site.gateway.mqtt(), &who);
        let refused = Device::connect_with(connect).await.err().unwrap();
        assert_eq!(refused.reason, Some(0x86));
    }
    let closed = "jetway_disconnects_total{reason=\"not_authenticated\"}";
    assert_eq!(site.gateway.metric(closed).await, 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_changed_while_it_runs_and_old_ones_outlive_their_source() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    let service = Service::start(Says::Status(500)).await;
    let site = site(&format!("jwks_url = '{}', refresh_s = 1", service.url())).await;
    let mqtt = site.gateway.mqtt();
    let told = |signer: &Signer, name: &str| {
        let token = signer.token(name, 60_000);
        let client_id = format!("demo&{name}");
        holder(&client_id, &token).log_in(Protocol::V5, mqtt)
    };
    let becomes = async |signer: &Signer, code: u16| {
        eventually(&format!("told {code}"), async || {
            match told(signer, "one") {
                found if found == code => Ok(()),
                found => Err(format!("{found}")),
            }
        })
        .await;
    };
    // G24: without any key nobody is denied.
    assert_eq!(told(&old, "one"), 0x88);
    service.says(Says::Json(set(&[&old])));
    becomes(&old, 0).await;
    assert_eq!(told(&new, "one"), 0x86);
    service.says(Says::Json(set(&[&old, &new])));
    becomes(&new, 0).await;
    let log = site.gateway.log();
    assert!(log.contains("keys of tokens not read"));
    // What is known stays good, and of what is not it cannot be told.
    service.says(Says::Status(404));
    let times = service.times();
    eventually("it looks again", async || match service.times() - times {
        0 | 1 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .await;
    assert_eq!((told(&old, "two"), told(&new, "three")), (0, 0));
    assert_eq!(told(&Signer::new("newest", "ES256"), "four"), 0x88);
}
