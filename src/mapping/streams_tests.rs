//! Stream declarations: what is declared, what is refused, and what the server is asked for.

use serde_json::json;

use super::*;
use crate::mapping::{Mapping, Settings};

fn load(extra: &str) -> Result<Vec<Stream>, Vec<String>> {
    let loaded = Mapping::load(&Settings::default(), Some(("own.toml", extra)));
    loaded
        .map(|mapping| mapping.streams)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

#[test]
fn an_operator_changes_keys_of_a_stream() {
    let streams =
        load("[[stream]]\nname = \"DEVICE_UP\"\nnum_replicas = 3\nmax_age = \"36h\"\n").unwrap();
    let config = &streams[0].config;
    assert_eq!(config["num_replicas"], 3);
    assert_eq!(config["max_age"], 129_600_000_000_000_i64);
    assert_eq!(
        config["subjects"],
        json!(["device.up.mqtt.*.*.*", "replay.iot-core.>"])
    );
    assert_eq!(config["name"], "DEVICE_UP");
}

#[test]
fn the_protocol_is_filled_in() {
    let settings = Settings {
        protocol: "urMqtt".to_owned(),
        ..Settings::default()
    };
    let mapping = Mapping::load(&settings, None).unwrap();
    let config = |name| {
        &mapping
            .streams
            .iter()
            .find(|stream| stream.name == name)
            .unwrap()
            .config
    };
    assert_eq!(
        config("DEVICE_UP")["subjects"],
        json!(["device.up.urMqtt.*.*.*", "replay.iot-core.>"])
    );
    let transform = &config("DEVICE_DOWN")["subject_transform"];
    assert_eq!(
        transform["dest"],
        "device.down.urMqtt.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
    );
}

/// A line added to DEVICE_UP, and the fault.
const WRONG_STREAMS: &[(&str, &str)] = &[
    (
        "colour = \"red\"",
        "stream 1: key `colour`: unknown, expected one of name, description",
    ),
    (
        "retention = \"none\"",
        "stream 1: key `retention`: found \"none\", expected one of limits, interest, workqueue",
    ),
    (
        "max_age = 7",
        "stream 1: key `max_age`: found 7, expected a duration such as",
    ),
    (
        "max_age = \"7w\"",
        "stream 1: key `max_age`: found \"7w\", expected a duration such as",
    ),
    (
        "max_age = \"99999999d\"",
        "stream 1: key `max_age`: found \"99999999d\", expected a duration",
    ),
    (
        "max_bytes = 0",
        "stream 1: key `max_bytes`: found 0, expected -1 or an integer, at least 1",
    ),
    (
        "num_replicas = -1",
        "stream 1: key `num_replicas`: found -1, expected an integer, at least 1",
    ),
    (
        "allow_direct = \"yes\"",
        "stream 1: key `allow_direct`: found \"yes\", expected true or false",
    ),
    (
        "subjects = []",
        "stream 1: key `subjects`: found [], expected a list of subject filters",
    ),
    (
        "subjects = [\"a..b\"]",
        "stream 1: key `subjects`: found [\"a..b\"], expected a list of subject filters",
    ),
    (
        "description = 1",
        "stream 1: key `description`: found 1, expected text",
    ),
    (
        "subject_transform = { src = \"a..b\", dest = \"b\" }",
        "stream 1: key `subject_transform`: found {\"dest\":\"b\",\"src\":\"a..b\"}, expected { src",
    ),
    (
        "subjects = [\"application.x\"]",
        "stream APPLICATION: key `subjects`: application.> overlaps application.x of stream DEVICE_UP, expected no subject in two",
    ),
    (
        "subjects = [\"device.down.mqtt.>\"]",
        "stream DEVICE_UP: key `subjects`: device.down.mqtt.> takes device.down.mqtt.status.fix, expected it in no stream",
    ),
    (
        "subjects = [\"_jw.dn.>\"]",
        "stream DEVICE_UP: key `subjects`: _jw.dn.> takes _jw.>, expected it in no stream",
    ),
];

#[test]
fn each_fault_of_a_stream_has_its_place() {
    for (line, expected) in WRONG_STREAMS {
        let faults = load(&format!("[[stream]]\nname = \"DEVICE_UP\"\n{line}\n")).unwrap_err();
        let found = faults
            .iter()
            .any(|fault| fault.contains(expected) && fault.contains(".toml:"));
        assert!(found, "{expected} not in {faults:#?}");
    }
}

#[test]
fn a_new_stream_says_everything() {
    let faults = load("[[stream]]\nname = \"MINE\"\nsubjects = [\"mine.>\"]\n").unwrap_err();
    assert_eq!(faults.len(), 10, "{faults:#?}");
    assert_eq!(
        faults[0],
        "own.toml:2: stream MINE: key `retention`: missing, expected one of limits, interest, workqueue"
    );
    let faults = load("[[stream]]\nname = \"my stream\"\n").unwrap_err();
    assert_eq!(
        faults[0],
        "own.toml:2: stream 1: key `name`: found \"my stream\", expected letters, digits, `_` and `-`"
    );
}

#[test]
fn durations_are_nanoseconds() {
    for (text, expected) in [
        ("0s", Some(0)),
        ("90s", Some(90_000_000_000)),
        ("2m", Some(120_000_000_000)),
        ("1h", Some(3_600_000_000_000)),
        ("7d", Some(604_800_000_000_000)),
        ("", None),
        ("7", None),
        ("-7d", None),
        ("7é", None),
    ] {
        assert_eq!(nanoseconds(text), expected, "{text}");
    }
}
