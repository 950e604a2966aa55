//! Key sets: which keys of them count, and a source that comes and goes.

use serde_json::json;

use super::*;

fn x(length: usize) -> String {
    URL_SAFE_NO_PAD.encode(vec![7; length])
}

#[test]
fn keys_of_other_kinds_and_purposes_are_left_out() {
    let set = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "good", "x": x(32), "use": "sig", "alg": "EdDSA"},
        {"kty": "EC", "crv": "P-256", "kid": "also", "x": x(32), "y": x(32), "key_ops": ["verify"]},
        {"kty": "RSA", "kid": "too", "n": "AAEC", "e": "AQAB"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "OKP", "crv": "Ed25519", "x": x(32), "use": "enc"},
        {"kty": "OKP", "crv": "Ed25519", "x": x(32), "alg": "ES256"},
        {"kty": "OKP", "crv": "Ed25519", "x": x(31)},
        {"kty": "OKP", "crv": "X25519", "x": x(32)},
        {"kty": "EC", "crv": "P-384", "x": x(48), "y": x(48)},
        {"kty": "EC", "crv": "P-256", "x": x(32)},
        {"kty": "RSA", "n": "%", "e": "AQAB"},
        {"kty": 1},
        "no key",
    ]});
    let KeySet(keys) = KeySet::parse(set.to_string().as_bytes()).unwrap();
    let ids: Vec<_> = keys.iter().filter_map(|key| key.id.as_deref()).collect();
    assert_eq!(
        (ids.as_slice(), keys.len()),
        (["good", "also", "too"].as_slice(), 3)
    );
    let n = vec![1, 2];
    assert!(matches!(&keys[2].material, Material::Rsa { n: found, .. } if *found == n));
}

#[test]
fn a_set_without_a_usable_key_is_a_fault() {
    for json in [
        "",
        "{}",
        "[]",
        r#"{"keys":[]}"#,
        r#"{"keys":[{"kty":"oct","k":"AA"}]}"#,
    ] {
        assert!(KeySet::parse(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn a_token_without_a_key_id_needs_one_key_that_could_be_meant() {
    let key = |id: &str| json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x(32)});
    let one = KeySet::parse(json!({"keys": [key("a")]}).to_string().as_bytes()).unwrap();
    let two = json!({"keys": [key("a"), key("b")]}).to_string();
    let two = KeySet::parse(two.as_bytes()).unwrap();
    let verify = |set: &KeySet, id, algorithm| set.verify(id, algorithm, b"m", &[0; 64]);
    assert_eq!(verify(&one, None, Algorithm::EdDsa), Some(false));
    assert_eq!(verify(&one, None, Algorithm::Es256), None);
    assert_eq!(verify(&two, None, Algorithm::EdDsa), None);
    assert_eq!(verify(&two, Some("b"), Algorithm::EdDsa), Some(false));
    assert_eq!(verify(&two, Some("c"), Algorithm::EdDsa), None);
}
