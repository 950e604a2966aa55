//! The vectors of the profile's §2.7, and requests as firmware writes them or should not.

use serde_json::{Value, json};

use super::*;

/// Of the profile's vectors: product `0A1`, device `dev001`.
const PRODUCT_SECRET: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlM=";
const DEVICE_SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
const SIGN_HEX: &str = "4a3d6639137818507efc78e0f2161347a7614fc1";
const SIGN_BASE64: &str = "NGEzZDY2MzkxMzc4MTg1MDdlZmM3OGUwZjIxNjEzNDdhNzYxNGZjMQ==";
const CBC: &str = "njGQvOwIFA3VzbWthuEoHi2crIVsyTO6CeLPiYBQLwMdwJuS23wtYM9Nj1aFUt/pR7GE6OyAKQ5cZMx0vBWEiNtNwevAwyTu7qw+cE2kV8r2dPf5+r1QTUEmqIX6EPJU";
const ECB: &str = "usn5y8Pm03oOEhc472aLNDKoOb9wExm9H/VhvXbJ5Qn7ZlDewti1O28d9zHwdzmY5ytaCb+3hE1RS17rNyGMPiqBpPQiIgyx9AZZ+cjYWAUQuWhbfKeKVApWFOwECQhR";

fn product_secret() -> ProductSecret {
    ProductSecret::new(PRODUCT_SECRET.to_owned()).unwrap()
}

fn device() -> DeviceId {
    DeviceId::new("0A1", "dev001").unwrap()
}

fn request(signature: &str, encoding: &str) -> Request {
    let text = json!({"msgToken": "reg-1", "payload": {
        "nonce": 2_428_685_019_i64, "timestamp": 1_756_780_254, "signature": signature, "retEnc": encoding,
    }});
    Request::read(text.to_string().as_bytes()).unwrap()
}

fn answered(encoding: &str) -> String {
    let secret = Secret::from_stored(DEVICE_SECRET.to_owned());
    let answer = request(SIGN_HEX, encoding).accept(&product_secret(), &secret);
    String::from_utf8(answer.unwrap()).unwrap()
}

#[test]
fn the_secret_is_told_in_three_encodings() {
    let encrypted = |payload: &str| {
        format!(r#"{{"msgToken":"reg-1","code":200,"data":{{"len":88,"payload":"{payload}"}}}}"#)
    };
    for encoding in ["aes128cbc", "", "AES128ECB", "rot13"] {
        assert_eq!(answered(encoding), encrypted(CBC), "{encoding:?}");
    }
    assert_eq!(answered("aes128ecb"), encrypted(ECB));
    let hex = r#"{"msgToken":"reg-1","code":200,"data":{"len":69,"payload":"{\"encryptionType\":2,\"psk\":\"000102030405060708090a0b0c0d0e0f10111213\"}"}}"#;
    for encoding in ["hex", "HEX", "Hex"] {
        assert_eq!(answered(encoding), hex, "{encoding}");
    }
}

#[test]
fn a_signature_is_hex_in_any_case_or_the_base64_of_it() {
    for signature in [SIGN_HEX, &SIGN_HEX.to_uppercase(), SIGN_BASE64] {
        assert!(request(signature, "").is_signed(&device(), &product_secret()));
    }
    let lower = SIGN_BASE64.to_lowercase();
    for signature in ["", "00", &SIGN_HEX[1..], &lower, &format!(" {SIGN_HEX}")] {
        assert!(
            !request(signature, "").is_signed(&device(), &product_secret()),
            "{signature:?}"
        );
    }
    // The platform's own fixture.
    let secret = ProductSecret::new("HaWo5qNOmisSLb/36oRUfwAY43A=".to_owned()).unwrap();
    let signed = request("fd2094a9f418ac17f9456d82f3817b4bffdf0558", "");
    let signed = Request {
        timestamp_s: 1_756_780_254,
        ..signed
    };
    assert!(signed.is_signed(&DeviceId::new("66", "test").unwrap(), &secret));
    assert!(!signed.is_signed(&DeviceId::new("66", "tesu").unwrap(), &secret));
}

#[test]
fn a_refusal_has_its_number_and_no_payload() {
    let refused = request("", "").refuse(Refusal::Parameter);
    assert_eq!(
        String::from_utf8(refused).unwrap(),
        r#"{"msgToken":"reg-1","code":100006,"data":{"len":0,"payload":""}}"#
    );
    let without = Request::read(b"{}").unwrap().refuse(Refusal::Closed);
    assert_eq!(
        String::from_utf8(without).unwrap(),
        r#"{"code":100021,"data":{"len":0,"payload":""}}"#
    );
}

#[test]
fn requests_are_read_as_firmware_writes_them() {
    let read = |text: &str| Request::read(text.as_bytes()).unwrap();
    let wanted = request(SIGN_HEX, "hex");
    let text = format!(
        r#"{{"method":7,"MSGTOKEN":"no","msgtoken":"reg-1","Payload":{{"NONCE":1,"nonce":2428685019,"TimeStamp":1756780254,
        "Signature":"{SIGN_HEX}","RETENC":"hex","encType":{{}},"tenantCode":[1]}}}}"#
    );
    assert_eq!(read(&text), wanted);
    let empty = Request::default();
    for text in [
        "{}",
        r#"{"payload":{}}"#,
        r#"{"payload":null,"msgToken":null}"#,
    ] {
        assert_eq!(read(text), empty, "{text}");
    }
    for nonce in ["\"1\"", "1.0", "1e3", "9223372036854775808", "true", "{}"] {
        let text = format!(r#"{{"payload":{{"nonce":{nonce}}}}}"#);
        assert_eq!(Request::read(text.as_bytes()), None, "{text}");
    }
    for text in [
        "",
        "null",
        "[]",
        "\"\"",
        "{",
        r#"{"payload":[]}"#,
        r#"{"msgToken":1}"#,
    ] {
        assert_eq!(Request::read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn secrets_that_are_no_keys_encrypt_nothing() {
    assert!(ProductSecret::new("123456789012345".to_owned()).is_none());
    assert!(ProductSecret::new(String::new()).is_none());
    let no_key = Secret::from_stored("abc".to_owned());
    let refused = request(SIGN_HEX, "hex").accept(&product_secret(), &no_key);
    assert_eq!(refused, Err(Refusal::Encryption));
}

#[test]
fn what_is_encrypted_has_the_form_of_the_profile() {
    let vectors: Value = serde_json::from_str(&answered("hex")).unwrap();
    assert_eq!(vectors["data"]["len"], 69);
    // A whole block of padding behind a plain text of whole blocks.
    assert_eq!(encrypt(b"0123456789abcdef", &[7; 32], true).len(), 48);
    assert_eq!(encrypt(b"0123456789abcdef", &[7; 31], false).len(), 32);
}
