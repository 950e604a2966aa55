//! Tokens: what is read of them, what each fault is called, and what is no token. Signatures of openssl are in tests/identity.

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

/// A signer, and the step that knows its key.
struct Bench {
    pair: Ed25519KeyPair,
    jwt: Jwt,
    reading: Option<Reading>,
    _folder: TempDir,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x}]});
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("jwks.json");
        std::fs::write(&file, set.to_string()).unwrap();
        let mut config = Config {
            jwks_file: Some(file),
            ..Config::default()
        };
        change(&mut config);
        assert_eq!(config.validate(), Vec::<String>::new());
        let (jwt, reading) = Jwt::new(&config).unwrap();
        Self {
            pair,
            jwt,
            reading: Some(reading),
            _folder: folder,
        }
    }

    fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// What the step says about a token that is the password of `P&n`, once the keys are read.
    async fn says(&mut self, token: &str) -> Result<Verdict, Unavailable> {
        let attempt = Attempt {
            password: Some(token.as_bytes()),
            ..Attempt::of("P&n")
        };
        let asked = self.jwt.ask(Instant::now(), &attempt);
        match self.reading.take() {
            None => asked.await,
            Some(reading) => {
                let stop = CancellationToken::new();
                let asked = async {
                    let said = asked.await;
                    stop.cancel();
                    said
                };
                tokio::join!(asked, reading.run(stop.clone())).0
            }
        }
    }

    async fn denial(&mut self, token: &str) -> &'static str {
        match self.says(token).await.unwrap() {
            Verdict::Deny(Denied::Refused(Refusal::Token(why))) => why,
            Verdict::Deny(denied) => denied.reason(),
            verdict => panic!("{verdict:?}"),
        }
    }
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "k1"})
}

fn now_s() -> u64 {
    telemetry::now_unix_ms() / 1_000
}

fn claims() -> Value {
    json!({"product": "P", "device": "n", "exp": now_s() + 60})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

#[tokio::test]
async fn a_good_token_is_a_device_until_it_ends() {
    let mut bench = Bench::new(|_| {});
    let token = bench.token(&header(), &claims());
    for _ in 0..2 {
        let Verdict::Accept(decision) = bench.says(&token).await.unwrap() else {
            panic!("not accepted");
        };
        assert_eq!(decision.device.id, DeviceId::new("P", "n").unwrap());
        let left = decision.expires_ms.unwrap() - telemetry::now_unix_ms();
        assert!((60_000..=91_000).contains(&left), "{left}");
    }
}

#[tokio::test]
async fn rules_come_with_the_token_where_the_claim_is_looked_at() {
    let rules = json!([{"effect": "allow", "action": "both", "filter": "$a/{productID}/+"}]);
    for (claim, expected) in [("rules", &rules), ("", &json!([]))] {
        let mut bench = Bench::new(|config| config.rules_claim = claim.to_owned());
        let token = bench.token(&header(), &with("rules", rules.clone()));
        let Verdict::Accept(decision) = bench.says(&token).await.unwrap() else {
            panic!("not accepted");
        };
        let found = serde_json::to_value(&*decision.rules).unwrap();
        assert_eq!(&found, expected);
    }
}

#[tokio::test]
async fn each_fault_has_its_name() {
    let mut bench = Bench::new(|config| {
        config.issuer = Some("us".to_owned());
        config.audience = Some("jetway".to_owned());
    });
    let good = |mut claims: Value| {
        for (name, value) in [("iss", "us"), ("aud", "jetway")] {
            if claims.get(name).is_none() {
                claims[name] = json!(value);
            }
        }
        claims
    };
    let now = now_s();
    for (name, value, expected) in [
        ("exp", Value::Null, "exp missing"),
        ("exp", json!("soon"), "exp"),
        ("exp", json!(-1), "exp"),
        ("exp", json!(1e300), "exp"),
        ("exp", json!(now - 31), "expired"),
        ("nbf", json!(now + 40), "not valid yet"),
        ("nbf", json!([]), "nbf"),
        ("iss", json!("them"), "issuer"),
        ("iss", json!(["us"]), "issuer"),
        ("aud", json!(["a", "b"]), "audience"),
        ("aud", json!(7), "audience"),
        ("device", Value::Null, "device claim"),
        ("device", json!(7), "device claim"),
        ("device", json!("a/b"), "device claim"),
        ("product", json!(""), "device claim"),
        ("device", json!("m"), "other_device"),
        ("rules", json!("a"), "rules claim"),
        ("rules", json!([{"effect": "deny"}]), "rules claim"),
        (
            "rules",
            json!([{"effect": "deny", "action": "both", "filter": "#"}]),
            "rules claim",
        ),
    ] {
        let token = bench.token(&header(), &good(with(name, value)));
        assert_eq!(bench.denial(&token).await, expected, "{name}");
    }
    for aud in [json!("jetway"), json!(["a", "jetway"])] {
        let token = bench.token(&header(), &good(with("aud", aud)));
        assert!(matches!(bench.says(&token).await, Ok(Verdict::Accept(_))));
    }
}

#[tokio::test]
async fn a_signature_counts_only_with_its_key_and_algorithm() {
    let mut bench = Bench::new(|_| {});
    let stranger = Bench::new(|_| {});
    let good = bench.token(&header(), &claims());
    let forged = stranger.token(&header(), &claims());
    assert_eq!(bench.denial(&forged).await, "signature");
    let (signed, _) = good.rsplit_once('.').unwrap();
    for signature in ["", "AAAA"] {
        assert_eq!(
            bench.denial(&format!("{signed}.{signature}")).await,
            "signature"
        );
    }
    assert_eq!(bench.denial(&format!("{signed}.%")).await, "header");
    for (header, expected) in [
        (json!({"alg": "none"}), "algorithm"),
        (json!({"alg": "HS256", "kid": "k1"}), "algorithm"),
        (json!({"alg": "RS256", "kid": "k1"}), "key"),
        (json!({"alg": "EdDSA", "kid": "k2"}), "key"),
        (
            json!({"alg": "EdDSA", "kid": "k1", "crit": ["b64"]}),
            "critical extension",
        ),
        (json!({"kid": "k1"}), "header"),
    ] {
        let token = bench.token(&header, &claims());
        assert_eq!(bench.denial(&token).await, expected, "{header}");
    }
    let without_id = bench.token(&json!({"alg": "EdDSA"}), &claims());
    assert!(matches!(
        bench.says(&without_id).await,
        Ok(Verdict::Accept(_))
    ));
}

#[tokio::test]
async fn one_claim_may_name_both() {
    let mut bench = Bench::new(|config| {
        config.product_claim = String::new();
        config.device_claim = "sub".to_owned();
    });
    for sub in ["P&n", "P/n"] {
        let token = bench.token(&header(), &with("sub", json!(sub)));
        assert!(matches!(bench.says(&token).await, Ok(Verdict::Accept(_))));
    }
    let token = bench.token(&header(), &with("sub", json!("P/n/x")));
    assert_eq!(bench.denial(&token).await, "device claim");
}

#[tokio::test]
async fn what_is_no_token_is_passed_on() {
    let mut bench = Bench::new(|_| {});
    for password in ["", "secret", "a.b.c", "ey.a.b.c", "0f;hmacsha256", "ey"] {
        assert_eq!(
            bench.says(password).await.unwrap(),
            Verdict::Pass(None),
            "{password}"
        );
    }
}

// G24
#[tokio::test]
async fn without_keys_nobody_is_denied() {
    let mut bench = Bench::new(|config| {
        config.jwks_file = None;
        // Nobody listens there.
        config.jwks_url = Some("http://127.0.0.1:1/keys".to_owned());
    });
    let token = bench.token(&header(), &claims());
    for _ in 0..50 {
        assert!(matches!(bench.says(&token).await, Err(Unavailable::Keys)));
    }
}

#[test]
fn settings_that_cannot_work_are_faults() {
    let faults = |change: fn(&mut Config)| {
        let mut config = Config {
            jwks_url: Some("https://example.com/keys".to_owned()),
            ..Config::default()
        };
        change(&mut config);
        config.validate().join(";")
    };
    assert_eq!(faults(|_| {}), "");
    assert!(faults(|config| config.jwks_url = None).starts_with("jwks_file: expected"));
    assert!(faults(|config| config.jwks_file = Some("x".into())).starts_with("jwks_file: exp"));
    assert!(faults(|config| config.jwks_url = Some("x".into())).starts_with("jwks_url: exp"));
    assert!(faults(|config| config.refresh_s = 0).starts_with("refresh_s: expected"));
    assert!(faults(|config| config.device_claim.clear()).starts_with("device_claim: expected"));
    assert!(faults(|config| config.limits.timeout_ms = 0).starts_with("limits.timeout_ms"));
}
