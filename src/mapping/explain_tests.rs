//! Explanations name the rule, or the level that differs.

use super::*;
use crate::mapping::Settings;

fn check(topic: &str, mapped: bool, expected: &[&str]) {
    let settings = Settings {
        forms: [("log".to_owned(), Form::Protobuf)].into(),
        ..Settings::default()
    };
    let mapping = Mapping::load(&settings, None).unwrap();
    let explanation = mapping.explain(topic);
    let text = explanation.to_string();
    assert_eq!(explanation.mapped, mapped, "{text}");
    for line in expected {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_topic_that_maps() {
    check(
        "$thing/up/property/P.1/D",
        true,
        &[
            "topic         $thing/up/property/P.1/D\n",
            "rule          $thing/up/{type}/{extra...}/{product}/{device} (subjects/rules.toml:",
            "direction     up: the device publishes\n",
            "handle        thing\n",
            "type          property\n",
            "device        P.1/D\n",
            "subject       device.up.mqtt.thing.P%2E1.D\n",
            "live subject  device.up.thing.P%2E1.D\n",
            "stream        DEVICE_UP\n",
            "form          native\n",
            "headers       Jw-Id, Nats-Msg-Id, Jw-Ts, traceparent, Jw-Qos, Jw-Type\n\
             product rules may deny it, or allow more: jetway product rule ls P.1\n",
        ],
    );
    check(
        "$rpc/up/17/P/D",
        true,
        &["Jw-Qos, Jw-Topic: $rpc/up/17/P/D\n"],
    );
    check(
        "$log/up/report/x/P/D",
        true,
        &["form          protobuf\n", "traceparent, Content-Type\n"],
    );
    check(
        "$thing/down/+/P/D",
        true,
        &[
            "subject       device.down.mqtt.thing.P.D\n",
            "stream        DEVICE_DOWN\n",
            "type from     Jw-Type, else the payload's method, else property\n",
        ],
    );
}

#[test]
fn a_topic_that_does_not_map_has_a_nearest_rule() {
    for (topic, rule, reason) in [
        (
            "$thing/up/P/N",
            "$thing/up/",
            "level 5: found the end, expected {device}",
        ),
        (
            "$thing/left/property/P/N",
            "$thing/up/",
            "level 2: found \"left\", expected up",
        ),
        (
            "$thing/down/property/P/+",
            "$thing/down/",
            "level 5: found \"+\", expected {device}",
        ),
        (
            "$thing/down/property//P/N",
            "$thing/down/",
            "level 4: found \"\", expected a name",
        ),
        (
            "$rpc/up/1/P/N/x",
            "$rpc/up/",
            "level 6: found \"x\", expected the end",
        ),
    ] {
        let nearest = format!("nearest rule  {rule}");
        check(
            topic,
            false,
            &[&nearest, &format!("not mapped    {reason}\n")],
        );
    }
    for topic in ["#", "other/topic", "", "$share/g/$thing/down/property/P/N"] {
        let found = topic.split('/').next().unwrap();
        let expected =
            "expected one of $config, $ext, $gateway, $log, $ota, $rpc, $shadow, $thing\n";
        check(
            topic,
            false,
            &[&format!(
                "not mapped    level 1: found {found:?}, {expected}"
            )],
        );
    }
    let long = format!("$thing/up/property/P/{}", "N".repeat(129));
    check(
        &long,
        false,
        &["not mapped    deviceName has 129 bytes, at most 128 are allowed\n"],
    );
}
