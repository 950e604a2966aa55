//! Every fault at once, with its place.

use std::io::Write;

use super::*;

fn load(file: &str, environment: &[(&str, &str)]) -> Result<Config, Faults> {
    let mut temporary = tempfile::NamedTempFile::new().unwrap();
    temporary.write_all(file.as_bytes()).unwrap();
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let path = temporary.path().display().to_string();
    Config::load(Some(temporary.path()), environment).map_err(|faults| {
        Faults(
            faults
                .0
                .iter()
                .map(|fault| fault.replace(&path, "FILE"))
                .collect(),
        )
    })
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(load("", &[]), Ok(Config::default()));
    assert_eq!(
        Config::load(None, std::iter::empty()),
        Ok(Config::default())
    );
}

#[test]
fn the_environment_overrides_the_file() {
    let file =
        "[nats]\nurl = 'nats://a:4222'\nrequest_timeout_ms = 7\n[session]\nkeep_alive_max_s = 60\n";
    let config = load(
        file,
        &[
            ("JETWAY_NATS_URL", "nats://b:4222"),
            ("JETWAY_MQTT_LISTEN", "127.0.0.1:0"),
            ("JETWAY_SESSION_KEEP_ALIVE_MAX_S", "90"),
            ("JETWAY_NATS_SERVER", "/usr/bin/nats-server"),
            ("PATH", "/usr/bin"),
        ],
    )
    .unwrap();
    assert_eq!(config.nats.url, "nats://b:4222");
    assert_eq!(config.nats.request_timeout_ms, 7);
    assert_eq!(config.session.keep_alive_max_s, 90);
    assert_eq!(config.mqtt.listen, Some("127.0.0.1:0".parse().unwrap()));
}

#[test]
fn all_faults_are_reported_at_once_with_their_place() {
    let file = "[mqtt]\nlisten = 'nowhere'\n\n[session]\nkeep_alive = 5\nsubscriptions_max = 0\n\n[naps]\nurl = 'x'\n";
    let Faults(faults) = load(
        file,
        &[
            ("JETWAY_HTTP_LISTEN", "8080"),
            ("JETWAY_HTTP_LISTENN", "127.0.0.1:1"),
            ("JETWAY_PROFILE", "cow"),
        ],
    )
    .unwrap_err();
    let expected = [
        ("FILE:2: listen:", "expected ADDRESS:PORT"),
        ("FILE:5: keep_alive:", "expected one of `packet_bytes_max`"),
        ("FILE:8: [naps]:", "expected one of `profile`"),
        ("environment JETWAY_HTTP_LISTEN:", "expected ADDRESS:PORT"),
        ("environment JETWAY_HTTP_LISTENN:", "listenn"),
        ("environment JETWAY_PROFILE:", "`device`"),
        ("[session] subscriptions_max:", "more than 0"),
    ];
    for (place, what) in expected {
        assert!(
            faults
                .iter()
                .any(|fault| fault.starts_with(place) && fault.contains(what)),
            "{place} {what} in {faults:#?}"
        );
    }
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
}

#[test]
fn limits_that_do_not_fit_each_other_are_a_fault() {
    let Faults(faults) = load(
        "[session]\nuplink_inflight_bytes_max = 9000000\n[publisher]\ninflight_bytes_max = 8000000\n",
        &[],
    )
    .unwrap_err();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("at least session.uplink_inflight_bytes_max (9000000)"));
}

#[test]
fn a_server_reference_is_text_that_fits() {
    let load = |text: &str| load("", &[("JETWAY_DRAIN_SERVER_REFERENCE", text)]);
    let config = load("mqtt2.example.com:1883").unwrap();
    let found = config.drain.server_reference.as_deref();
    assert_eq!(found, Some("mqtt2.example.com:1883"));
    for wrong in ["", "a\u{1}", &"x".repeat(1_001)] {
        let Faults(faults) = load(wrong).unwrap_err();
        assert!(
            faults[0].starts_with("[drain] server_reference:"),
            "{faults:?}"
        );
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}

#[test]
fn a_missing_file_and_a_broken_one_are_named() {
    let missing = Config::load(Some(Path::new("/nonexistent.toml")), std::iter::empty());
    assert!(missing.unwrap_err().0[0].starts_with("/nonexistent.toml: expected a readable file"));
    let Faults(faults) = load("[mqtt\nlisten = 1\n", &[]).unwrap_err();
    assert!(faults[0].starts_with("FILE:1:"), "{faults:?}");
}
