//! The golden logins, the lenient secrets, and random input.

use proptest::prelude::*;

use super::*;
use crate::auth::denied::Denied;

#[derive(serde::Deserialize)]
struct Golden {
    accept: Vec<Case>,
    reject: Vec<Case>,
    base64: Vec<Lenient>,
}

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    client_id: String,
    username: String,
    device_secret_b64: String,
    password: String,
    reason: Option<String>,
}

#[derive(serde::Deserialize)]
struct Lenient {
    text: String,
    key_hex: String,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../tests/golden/login.json")).unwrap()
}

fn log_in(
    client_id: &str,
    username: &str,
    password: &[u8],
    secret: &Secret,
) -> Result<DeviceId, Error> {
    let device = Identity::parse("client id", client_id)?.device;
    Login::parse(&device, Some(username), Some(password))?.verify(secret)?;
    Ok(device)
}

fn run(case: &Case) -> Result<DeviceId, Error> {
    let secret = Secret::from_stored(case.device_secret_b64.clone());
    log_in(
        &case.client_id,
        &case.username,
        case.password.as_bytes(),
        &secret,
    )
}

#[test]
fn golden_logins_are_accepted() {
    let cases = golden().accept;
    assert_eq!(cases.len(), 5);
    for case in cases {
        let device = run(&case).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let legacy = format!("{}{}", device.product(), device.name());
        let plain = format!("{}&{}", device.product(), device.name());
        assert!([legacy, plain].contains(&case.client_id), "{}", case.name);
    }
}

#[test]
fn golden_logins_are_denied_with_their_reason() {
    let cases = golden().reject;
    assert_eq!(cases.len(), 9);
    for case in cases {
        let error = run(&case).expect_err(&case.name);
        let reason = Denied::Credentials(error).reason();
        assert_eq!(Some(reason), case.reason.as_deref(), "{}", case.name);
    }
}

#[test]
fn any_changed_character_of_a_login_is_denied() {
    for case in golden().accept {
        let secret = Secret::from_stored(case.device_secret_b64.clone());
        for field in [&case.username, &case.password] {
            for at in 0..field.len() {
                let mut changed = field.clone().into_bytes();
                changed[at] ^= 1;
                let changed = String::from_utf8(changed).unwrap();
                let (username, password) = if std::ptr::eq(field, &raw const case.username) {
                    (&changed, &case.password)
                } else {
                    (&case.username, &changed)
                };
                let outcome = log_in(&case.client_id, username, password.as_bytes(), &secret);
                assert!(outcome.is_err(), "{username} {password}");
            }
        }
    }
}

#[test]
fn a_secret_is_decoded_up_to_its_first_fault() {
    let padded = [
        ("YWJjZA==", "61626364"),
        ("YWJjZB==", "61626364"),
        ("YWJjZA==YWJj", "61626364"),
        ("YW\r\nJjZA=\n=", "61626364"),
        ("YWJjZA=x", "616263"),
        ("YWJj====", "616263"),
        ("YWJj=abc", "616263"),
        ("YWJj\u{e9}\u{e9}YWJj", "616263"),
    ];
    let padded = padded.map(|(text, key_hex)| (text.to_owned(), key_hex.to_owned()));
    let table = golden().base64.into_iter().map(|l| (l.text, l.key_hex));
    for (text, key_hex) in table.chain(padded) {
        let key = Secret::from_stored(text.clone()).key().unwrap_or_default();
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, key_hex, "{text:?}");
    }
}

#[test]
fn a_secret_without_a_key_proves_nothing() {
    let username = "p&d;0;x;0";
    let token = Method::HmacSha1.sign(b"", username);
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let password = format!("{hex};hmacsha1");
    for text in ["", "abc", "!", "===="] {
        let secret = Secret::from_stored(text.to_owned());
        let outcome = log_in("p&d", username, password.as_bytes(), &secret);
        assert_eq!(outcome, Err(Error::Secret), "{text:?}");
    }
}

#[test]
fn operators_type_secrets_in_the_strict_form() {
    for text in ["AAECAwQFBgcICQoLDA0ODxAREhM=", "9b3c5ed76398f33f"] {
        assert_eq!(text.parse::<Secret>().ok().unwrap().text(), text);
    }
    for text in ["", "abc", "YWJjZA", "YWJj\nZGVm", "YWJj-_8=", "abcd!"] {
        assert_eq!(
            text.parse::<Secret>().err(),
            Some(Error::Secret),
            "{text:?}"
        );
    }
}

#[test]
fn an_identity_has_three_forms() {
    let parse = |text| {
        let identity = Identity::parse("client id", text)?;
        let device = identity.device;
        Ok::<_, Error>((
            device.product().to_owned(),
            device.name().to_owned(),
            identity.scope,
        ))
    };
    let named = |product: &str, name: &str, scope| Ok((product.into(), name.into(), scope));
    assert_eq!(parse("p&d"), named("p", "d", Scope::Full));
    assert_eq!(parse("register&d"), named("register", "d", Scope::Full));
    assert_eq!(parse("register&p&d"), named("p", "d", Scope::Register));
    assert_eq!(
        parse("abcdefghijkd"),
        named("abcdefghijk", "d", Scope::Full)
    );
    assert_eq!(
        parse("a&b&c&d&e&fg"),
        named("a&b&c&d&e&f", "g", Scope::Full)
    );
    let place = "client id";
    for text in ["", "abcdefghij", "foo&p&d", "abcdefghij\u{e9}d", "a&b&c&d"] {
        assert_eq!(parse(text), Err(Error::Identity(place)), "{text:?}");
    }
    let empty = |field| Err(Error::Name(place, device::Error::Empty(field)));
    assert_eq!(parse("&d"), empty("productID"));
    assert_eq!(parse("p&"), empty("deviceName"));
    assert_eq!(parse("abcdefghijk"), empty("deviceName"));
    let slash = device::Error::Character("deviceName", '/');
    assert_eq!(parse("p&d/e"), Err(Error::Name(place, slash)));
    assert_eq!(
        parse(&format!("p&{}", "d".repeat(129))),
        Err(Error::Name(
            place,
            device::Error::TooLong("deviceName", 129)
        ))
    );
}

#[test]
fn a_missing_field_is_a_malformed_one() {
    let device = DeviceId::new("p", "d").unwrap();
    let parse = |username, password| Login::parse(&device, username, password).err();
    assert_eq!(parse(None, None), Some(Error::Username));
    assert_eq!(parse(Some("p&d;0;x;0"), None), Some(Error::Password));
    assert_eq!(
        parse(Some("p&d;0;x;0"), Some(b"\xff")),
        Some(Error::Password)
    );
}

#[test]
fn a_name_with_a_separator_has_no_credentials() {
    let secret = Secret::from_key(b"key");
    for (product, name, text, separator) in [("p&q", "d", "p&q", '&'), ("p", "d;1", "d;1", ';')] {
        let device = DeviceId::new(product, name).unwrap();
        let outcome = Credentials::generate(&device, &secret, Method::HmacSha1).err();
        assert_eq!(outcome, Some(Error::Separator(text.to_owned(), separator)));
    }
}

proptest! {
    #[test]
    fn generated_credentials_log_in(
        product in "[^/+#\0&;]{1,32}", name in "[^/+#\0&;]{1,32}", key in prop::collection::vec(any::<u8>(), 1..64),
        other in prop::collection::vec(any::<u8>(), 1..64), sha1 in any::<bool>(),
    ) {
        let device = DeviceId::new(&product, &name).unwrap();
        let method = if sha1 { Method::HmacSha1 } else { Method::HmacSha256 };
        let secret = Secret::from_key(&key);
        prop_assert_eq!(secret.key().unwrap(), key.clone());
        let made = Credentials::generate(&device, &secret, method).ok().unwrap();
        let log_in = |secret: &Secret| log_in(&made.client_id, &made.username, made.password.as_bytes(), secret);
        prop_assert_eq!(log_in(&secret), Ok(device));
        // HMAC pads a key with zeros: only keys that differ in more than that are other keys.
        prop_assume!(key.iter().rposition(|b| *b != 0).map(|at| &key[..=at]) != other.iter().rposition(|b| *b != 0).map(|at| &other[..=at]));
        prop_assert_eq!(log_in(&Secret::from_key(&other)), Err(Error::Token));
    }

    #[test]
    fn random_input_is_refused_without_a_panic(
        client_id in "[a-z&;\u{e9}]{0,16}", username in "([a-z]{0,3}[&;\u{e9}]){0,6}", secret in "\\PC*",
        password in prop::collection::vec(any::<u8>(), 0..80), token in "[0-9a-fA-F\u{e9}]{40}(;hmacsha1)?",
    ) {
        let secret = Secret::from_stored(secret);
        prop_assert!(log_in(&client_id, &username, &password, &secret).is_err());
        prop_assert!(log_in("p&d", "p&d;0;x;0", &password, &secret).is_err());
        prop_assert!(log_in("p&d", "p&d;0;x;0", token.as_bytes(), &secret).is_err());
    }
}
