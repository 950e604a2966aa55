//! Rule files: the shipped ones hold, and every fault of an operator's file is reported with its place.

use super::*;
use crate::mapping::{Form, Tree};

fn load(extra: &str) -> Result<Mapping, Vec<String>> {
    let loaded = Mapping::load(&Settings::default(), Some(("own.toml", extra)));
    loaded.map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

/// The faults of a file; without the line of another file that they speak of, which moves as that file does.
fn faults(extra: &str) -> Vec<String> {
    let plain = |fault: &String| match fault.split_once("rules.toml:") {
        Some((before, after)) => format!(
            "{before}rules.toml{}",
            after.trim_start_matches(|c: char| c.is_ascii_digit())
        ),
        None => fault.clone(),
    };
    load(extra)
        .expect_err("the file is wrong")
        .iter()
        .map(plain)
        .collect()
}

/// An operator's rule that is right, with some lines replaced.
fn rule(changes: &[(&str, &str)]) -> String {
    let mut keys = vec![
        ("handle", "\"chat\""),
        ("direction", "\"up\""),
        ("mqtt", "\"chat/{type}/{product}/{device}\""),
        (
            "nats",
            "\"device.up.{protocol}.{handle}.{product}.{device}\"",
        ),
        ("stream", "\"DEVICE_UP\""),
    ];
    for (key, value) in changes {
        match keys.iter_mut().find(|(name, _)| name == key) {
            Some(found) => found.1 = value,
            None => keys.push((key, value)),
        }
    }
    let lines = keys.iter().filter(|(_, value)| !value.is_empty());
    let lines = lines.map(|(key, value)| format!("{key} = {value}\n"));
    format!("[[rule]]\n{}", lines.collect::<String>())
}

#[test]
fn the_own_files_are_right() {
    for tree in [Tree::Protocol, Tree::Handle] {
        let settings = Settings {
            tree,
            ..Settings::default()
        };
        let mapping = Mapping::load(&settings, None).unwrap();
        assert_eq!(mapping.rules.len(), 16);
        let streams: Vec<_> = mapping.uplink_streams();
        assert_eq!(streams, [Arc::from("DEVICE_UP")]);
    }
}

#[test]
fn an_operator_adds_a_rule() {
    let mapping = load(&rule(&[])).unwrap();
    let address = mapping.address("chat/text/P/D").unwrap();
    assert_eq!((address.handle, address.kind), ("chat", "text"));
    assert_eq!((address.product, address.name), ("P", "D"));
    assert_eq!(mapping.address("chat/P/D"), None);
}

type Changes = &'static [(&'static str, &'static str)];

/// Changes of the rule, the faulty line, and the fault.
const WRONG_RULES: &[(Changes, u32, &str)] = &[
    (
        &[("handel", "\"x\"")],
        7,
        "rule 1: key `handel`: unknown, expected one of handle, direction, mqtt, nats, live, stream, default_type, methods",
    ),
    (
        &[("handle", "")],
        2,
        "rule 1: key `handle`: missing, expected text",
    ),
    (
        &[("handle", "7")],
        2,
        "rule 1: key `handle`: found integer, expected text",
    ),
    (
        &[("handle", "\"a.b\"")],
        2,
        "rule 1: key `handle`: found \"a.b\", expected letters, digits, `_` and `-`",
    ),
    (
        &[("handle", "\"mqtt\"")],
        2,
        "rule 1: key `handle`: \"mqtt\" is the protocol's code, expected another name",
    ),
    (
        &[("direction", "\"left\"")],
        3,
        "rule 1: key `direction`: found \"left\", expected \"up\", \"down\" or \"both\"",
    ),
    (
        &[("mqtt", "\"chat/{area}/{product}/{device}\"")],
        4,
        "rule 1: key `mqtt`: unknown capture {area}, expected one of {type}, {id}, {product}, {device}, {extra...}",
    ),
    (
        &[("mqtt", "\"chat/{type}/{product}\"")],
        4,
        "rule 1: key `mqtt`: no {device}, expected it once",
    ),
    (
        &[("mqtt", "\"chat/{type}/{type}/{product}/{device}\"")],
        4,
        "rule 1: key `mqtt`: {type} twice, expected at most once",
    ),
    (
        &[("mqtt", "\"chat/{extra...}/{product}/{extra...}/{device}\"")],
        4,
        "rule 1: key `mqtt`: {extra...} twice, expected at most once",
    ),
    (
        &[("mqtt", "\"{type}/{product}/{device}\"")],
        4,
        "rule 1: key `mqtt`: starts with {type}, expected a literal first level",
    ),
    (
        &[("mqtt", "\"chat//{product}/{device}\"")],
        4,
        "rule 1: key `mqtt`: level \"\", expected a capture or a name without `+`, `#` and U+0000",
    ),
    (
        &[("mqtt", "\"$thing/up/{product}/{device}/{id}\"")],
        4,
        "rule 1: key `mqtt`: $thing/up/{product}/{device}/{id} overlaps $thing/up/{type}/{extra...}/{product}/{device} (subjects/rules.toml), expected each topic in one rule",
    ),
    (
        &[("nats", "\"device.up.{protocol}.{type}.{product}.{device}\"")],
        5,
        "rule 1: key `nats`: unknown capture {type}, expected one of {protocol}, {handle}, {product}, {device}",
    ),
    (
        &[("nats", "\"device.up.{protocol}.{handle}.{device}\"")],
        5,
        "rule 1: key `nats`: no {product}, expected it: no header gives it back",
    ),
    (
        &[(
            "nats",
            "\"device.up.{product}.{handle}.{product}.{device}\"",
        )],
        5,
        "rule 1: key `nats`: {product} twice, expected it once",
    ),
    (
        &[("nats", "\"device.up.*.x.{product}.{device}\"")],
        5,
        "rule 1: key `nats`: token *, expected no wildcard",
    ),
    (
        &[("nats", "\"device.up..x.{product}.{device}\"")],
        5,
        "rule 1: key `nats`: token \"\", expected one token of a NATS subject",
    ),
    (
        &[("nats", "\"chat.{product}.{device}\"")],
        5,
        "rule 1: key `nats`: chat.*.* is not stored in DEVICE_UP, expected it in that stream's subjects",
    ),
    (
        &[("nats", "\"device.up.{protocol}.thing.{product}.{device}\"")],
        5,
        "rule 1: key `nats`: device.up.mqtt.thing.*.* overlaps device.up.mqtt.thing.*.* (subjects/rules.toml), expected each subject in one rule",
    ),
    (
        &[("stream", "\"CHAT\"")],
        6,
        "rule 1: key `stream`: \"CHAT\" is not declared, expected a [[stream]]",
    ),
    (
        &[("default_type", "\"x\"")],
        7,
        "rule 1: key `default_type`: expected only with direction = \"down\"",
    ),
    (
        &[("methods", "{ a = 1 }")],
        7,
        "rule 1: key `methods.a`: found integer, expected text",
    ),
    (
        &[("methods", "{ a = \"b/c\" }")],
        7,
        "rule 1: key `methods.a`: found \"b/c\", expected one level of a topic name",
    ),
    (
        &[("methods", "3")],
        7,
        "rule 1: key `methods`: found integer, expected a table",
    ),
    (
        &[("handle", "\"thing\"")],
        2,
        "rule 1: key `handle`: \"thing\" has a rule of this direction (subjects/rules.toml), expected one",
    ),
];

#[test]
fn each_fault_of_a_rule_has_its_place() {
    for (changes, line, expected) in WRONG_RULES {
        let text = rule(changes);
        let expected = format!("own.toml:{line}: {expected}");
        assert!(
            faults(&text).contains(&expected),
            "expected {expected}\nfound {:#?}",
            faults(&text)
        );
    }
}

#[test]
fn a_live_copy_is_never_stored() {
    let live = [("live", "\"application.{product}.{device}\"")];
    let mut settings = Settings::default();
    settings.live.insert("chat".to_owned());
    let faults = Mapping::load(&settings, Some(("own.toml", &rule(&live)))).unwrap_err();
    let expected = "own.toml:7: rule 1: key `live`: application.*.* is stored in APPLICATION, expected a subject of no stream";
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [expected]
    );
    // Switched off, it is sent nowhere.
    load(&rule(&live)).unwrap();
}

#[test]
fn all_faults_are_reported_at_once() {
    let first = rule(&[("handle", "7"), ("mqtt", "\"chat/{x}/{y}\"")]);
    let second = rule(&[("stream", "\"NONE\""), ("nats", "\"a.{device}\"")]);
    let settings = Settings {
        protocol: "a.b".to_owned(),
        live: ["nobody".to_owned()].into(),
        forms: [("none".to_owned(), Form::Native)].into(),
        ..Settings::default()
    };
    let text = format!("{first}{second}[[stream]]\nname = 1\n[[nonsense]]\n");
    let faults = Mapping::load(&settings, Some(("own.toml", &text))).unwrap_err();
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    for expected in [
        "own.toml:2: rule 1: key `handle`",
        "own.toml:4: rule 1: key `mqtt`: unknown capture {x}",
        "own.toml:4: rule 1: key `mqtt`: unknown capture {y}",
        "own.toml:4: rule 1: key `mqtt`: no {product}",
        "own.toml:11: rule 2: key `nats`: no {product}",
        "own.toml:14: stream 1: key `name`: found integer",
        "own.toml:15: key `nonsense`: expected only tables [[rule]], [[stream]]",
        "mapping.protocol: found \"a.b\"",
        "mapping.live: no rule with direction = \"up\" has the handle \"nobody\"",
        "mapping.forms: no rule with direction = \"up\" has the handle \"none\"",
    ] {
        assert!(
            faults.iter().any(|fault| fault.starts_with(expected)),
            "{expected} not in {faults:#?}"
        );
    }
}

#[test]
fn broken_syntax_is_reported_with_its_lines() {
    let faults = faults("[[rule]]\nhandle = \n\nmqtt = \"\\x\"\n");
    assert!(
        faults.iter().any(|fault| fault.starts_with("own.toml:2: ")),
        "{faults:#?}"
    );
    assert!(
        faults.iter().any(|fault| fault.starts_with("own.toml:4: ")),
        "{faults:#?}"
    );
}

#[test]
fn a_protocol_may_not_be_a_handle() {
    let settings = Settings {
        protocol: "thing".to_owned(),
        ..Settings::default()
    };
    let faults = Mapping::load(&settings, None).unwrap_err();
    assert!(faults.iter().any(|fault| {
        fault
            .to_string()
            .contains("\"thing\" is the protocol's code")
    }));
}

#[test]
fn a_filter_may_have_a_wildcard_only_for_the_type() {
    let mapping = Mapping::load(&Settings::default(), None).unwrap();
    for (topic, kind) in [
        ("$thing/up/property/P/N", Some("property")),
        ("$thing/up/foo/P/N", Some("foo")),
        ("$thing/up/property/custom/P/N", Some("property")),
        ("$thing/up/property/a/b/c/P/N", Some("property")),
        ("$thing/down/+/P/N", Some("+")),
        ("$thing/down/+/custom/P/N", Some("+")),
        ("$rpc/down/17/P/N", Some("")),
        ("$rpc/down/+/P/N", Some("")),
        ("$rpc/down/17/x/P/N", None),
        ("$thing/up/P/N", None), // W-S1
        ("$thing/up/property/P/", None),
        ("$thing/up/property//N", None),
        ("$thing/up//P/N", None),
        ("$thing/up/property//P/N", None),
        ("$thing/up/property/P/N/", None),
        ("/$thing/up/property/P/N", None),
        ("$thing/down/property/+/P/N", None),
        ("$thing/down/property/P/+", None),
        ("$thing/down/property/+/N", None),
        ("$thing/down/property/P/#", None),
        ("$thing/down/#", None),
        ("$thing/+/property/P/N", None),
        ("+/down/property/P/N", None),
        ("#", None),
        ("", None),
        ("$share/g/$thing/down/property/P/N", None),
        ("$thing", None),
        ("$THING/up/property/P/N", None),
        ("$thing/UP/property/P/N", None),
        ("thing/up/property/P/N", None),
    ] {
        let address = mapping.address(topic);
        assert_eq!(address.map(|address| address.kind), kind, "{topic}");
        if let Some(address) = address {
            assert_eq!((address.product, address.name), ("P", "N"), "{topic}");
        }
    }
}

#[test]
fn settings_say_what_is_wrong_with_them() {
    let read = |text| toml::from_str::<Settings>(text).map_err(|error| error.to_string());
    let settings = read("tree = \"handle\"\nlive = []\nforms = { thing = \"protobuf\" }").unwrap();
    assert_eq!(
        (settings.tree, settings.protocol.as_str()),
        (Tree::Handle, "mqtt")
    );
    assert_eq!(settings.forms["thing"], Form::Protobuf);
    assert_eq!(read("").unwrap(), Settings::default());
    for (text, expected) in [
        (
            "forms = { thing = \"json\" }",
            "message form `json` is not available in this version, expected `native` or `protobuf`",
        ),
        (
            "forms = { thing = \"xml\" }",
            "message form `xml` is unknown, expected `native` or `protobuf`",
        ),
        ("trees = 1", "unknown field `trees`"),
        ("tree = \"oak\"", "unknown variant `oak`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
