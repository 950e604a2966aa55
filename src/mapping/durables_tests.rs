//! Durable declarations: what is declared, what is refused, and what the server is asked for.

use serde_json::json;

use super::*;
use crate::mapping::{Mapping, Settings};

fn load(settings: &Settings, extra: &str) -> Result<Mapping, Vec<String>> {
    Mapping::load(settings, Some(("own.toml", extra)))
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn durable(mapping: &Mapping, name: &str) -> Durable {
    let mut all = mapping.durables.iter();
    all.find(|durable| durable.name == name).unwrap().clone()
}

fn stream<'m>(mapping: &'m Mapping, name: &str) -> &'m Value {
    let mut all = mapping.streams.iter();
    &all.find(|stream| stream.name == name).unwrap().config
}

#[test]
fn a_durable_has_the_ladder_and_its_own_way_for_replays() {
    let text = "[[durable]]\nname = \"mine\"\nstream = \"GPS\"\nfilters = [\"gps.report.>\"]\n";
    let mapping = load(&Settings::default(), text).unwrap();
    let mine = durable(&mapping, "mine");
    let expected = json!({
        "durable_name": "mine", "description": null, "deliver_policy": "all", "ack_policy": "explicit",
        "replay_policy": "instant", "max_deliver": 4, "max_ack_pending": 1000,
        "filter_subjects": ["gps.report.>", "replay.mine.>"], "sample_freq": "10",
        "backoff": [10_000_000_000_i64, 60_000_000_000_i64, 300_000_000_000_i64],
    });
    assert_eq!(mine.config, expected);
    assert!(mine.dead_letters);
    let subjects = stream(&mapping, "GPS")["subjects"]
        .as_array()
        .unwrap()
        .clone();
    assert!(subjects.contains(&json!("replay.mine.>")), "{subjects:?}");
}

#[test]
fn the_shipped_durables_are_there_in_both_trees() {
    for tree in [Tree::Protocol, Tree::Handle] {
        let mut settings = Settings {
            tree,
            ..Settings::default()
        };
        if tree == Tree::Handle {
            settings.live.clear();
        }
        let mapping = load(&settings, "").unwrap();
        let names: Vec<&str> = mapping.durables.iter().map(|own| &*own.name).collect();
        assert_eq!(
            names,
            ["iot-core", "gps", "alarm", "status-sync", "app-events"]
        );
    }
}

#[test]
fn an_operator_changes_keys_of_a_durable() {
    let text = "[[durable]]\nname = \"alarm\"\nbackoff = [\"1s\", \"2s\"]\nmax_ack_pending = 5\ndead_letters = false\n";
    let mapping = load(&Settings::default(), text).unwrap();
    let alarm = durable(&mapping, "alarm");
    assert_eq!(
        alarm.config["backoff"],
        json!([1_000_000_000, 2_000_000_000])
    );
    assert_eq!(alarm.config["max_ack_pending"], 5);
    assert_eq!(alarm.config["max_deliver"], 3);
    assert_eq!(alarm.stream, "APPLICATION");
    assert!(!alarm.dead_letters);
    let waits = "[[durable]]\nname = \"alarm\"\nack_wait = \"30s\"\n";
    let alarm = durable(&load(&Settings::default(), waits).unwrap(), "alarm");
    assert_eq!(alarm.config["ack_wait"], 30_000_000_000_i64);
    assert_eq!(alarm.config["max_deliver"], 4);
    assert!(alarm.config.get("backoff").is_none());
}

/// Lines of a durable `mine` on stream GPS, and the fault.
const WRONG: &[(&str, &str)] = &[
    (
        "colour = 1",
        "durable 1: key `colour`: unknown, expected one of name, stream",
    ),
    (
        "filters = [\"gps.>\"]\nbackoff = [\"1w\"]",
        "key `backoff`: found [\"1w\"], expected a list of durations",
    ),
    (
        "backoff = [\"1s\"]",
        "durable mine: key `filters`: missing, expected a list of subject filters",
    ),
    (
        "filters = [\"device.>\"]",
        "durable mine: key `filters`: stream GPS does not store all of device.>",
    ),
    (
        "filters = [\"gps.a\", \"gps.*\"]",
        "durable mine: key `filters`: gps.* overlaps gps.a",
    ),
    (
        "filters = [\"gps.>\"]\nack_wait = \"1s\"\nbackoff = [\"1s\"]",
        "durable mine: key `ack_wait`: expected it or `backoff`",
    ),
    (
        "filters = [\"gps.>\"]\nmax_deliver = 2",
        "durable mine: key `max_deliver`: found 2, expected at least the 3 steps",
    ),
    (
        "filters = [\"gps.>\"]\ndeliver_policy = \"last\"",
        "key `deliver_policy`: found \"last\", expected one of all, new",
    ),
];

#[test]
fn each_fault_of_a_durable_has_its_place() {
    for (lines, expected) in WRONG {
        let text = format!("[[durable]]\nname = \"mine\"\nstream = \"GPS\"\n{lines}\n");
        let faults = load(&Settings::default(), &text).unwrap_err();
        let found = faults
            .iter()
            .any(|fault| fault.contains(expected) && fault.starts_with("own.toml:"));
        assert!(found, "{expected} not in {faults:#?}");
    }
    for (text, expected) in [
        (
            "name = \"my.own\"\nstream = \"GPS\"",
            "key `name`: found \"my.own\", expected letters",
        ),
        (
            "name = \"mine\"\nstream = \"NONE\"",
            "key `stream`: found \"NONE\", expected the name of a [[stream]]",
        ),
        ("name = \"mine\"", "key `stream`: missing"),
    ] {
        let text = format!("[[durable]]\n{text}\nfilters = [\"gps.>\"]\n");
        let faults = load(&Settings::default(), &text).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{faults:#?}"
        );
    }
}

#[test]
fn no_stream_takes_what_is_replayed_but_that_of_the_durable() {
    let text = "[[stream]]\nname = \"GPS\"\nsubjects = [\"gps.>\", \"replay.x.>\"]\n";
    let faults = load(&Settings::default(), text).unwrap_err();
    assert!(
        faults[0].contains("replay.x.> takes replay.>"),
        "{faults:#?}"
    );
}
