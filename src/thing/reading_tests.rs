//! What is wrong in a message, and what it costs.

use serde_json::json;

use crate::thing::asked_tests::*;
use crate::thing::{Interpretation, Settings, Unknown};

#[test]
fn a_bad_property_is_a_fault_and_the_others_go_out() {
    let asked = Asked {
        model: Some(MODEL),
        ..PLAIN
    };
    for (params, reason, path) in [
        (r#""temp":"hot""#, "type", "/params/temp"),
        (r#""temp":85.5"#, "range", "/params/temp"),
        (r#""temp":21.3"#, "step", "/params/temp"),
        (r#""power":2"#, "type", "/params/power"),
        (r#""arr":[1,2,10]"#, "range", "/params/arr/2"),
        (r#""arr":[1,2,3,4,5]"#, "length", "/params/arr"),
        (r#""arr.3":10"#, "range", "/params/arr.3"),
        (r#""a..b":1"#, "identifier", "/params/a..b"),
        (r#""":1"#, "identifier", "/params/"),
    ] {
        let payload = format!(r#"{{"method":"report","params":{{{params},"other":1}}}}"#);
        let subject = "application.device.0A1.dev001.report.thing.property".to_owned();
        assert_eq!(
            asked.fault(&payload),
            (vec![subject], reason, path.to_owned()),
            "{payload}"
        );
        let event = &asked.interpret(payload).events[0];
        assert_eq!(data(event)["params"], json!({"other": 1}));
    }
    let two = asked.interpret(r#"{"method":"report","params":{"temp":99,"power":2}}"#);
    assert!(two.events.is_empty());
    assert!(two.fault.unwrap().rule.ends_with("; and 1 more fault"));
}

#[test]
fn an_unknown_property_goes_by_the_policy() {
    let report = r#"{"method":"report","params":{"temp":1,"colour":1}}"#;
    for (unknown, all, fault) in [
        (Unknown::Keep, json!({"temp": 1, "colour": 1}), None),
        (Unknown::Drop, json!({"temp": 1}), None),
        (
            Unknown::DeadLetter,
            json!({"temp": 1}),
            Some(("unknown", "/params/colour")),
        ),
    ] {
        let asked = Asked {
            settings: Settings {
                unknown_property: unknown,
                ..Settings::default()
            },
            model: Some(MODEL),
            ..PLAIN
        };
        let interpretation = asked.interpret(report);
        assert_eq!(data(&interpretation.events[0])["params"], all);
        let found = interpretation.fault.as_ref();
        assert_eq!(found.map(|fault| (fault.reason, &*fault.path)), fault);
        let none = asked
            .reply(r#"{"method":"report","params":{"colour":1}}"#)
            .unwrap();
        assert_eq!(none.1.contains("100006"), unknown != Unknown::Keep);
    }
}

#[test]
fn a_bad_parameter_costs_its_event_or_action() {
    let event = Asked {
        type_: "event",
        model: Some(MODEL),
        ..PLAIN
    };
    let action = Asked {
        type_: "action",
        ..event
    };
    for (asked, payload, reason, path) in [
        (
            &event,
            r#"{"method":"eventPost","eventID":"low","params":{"v":6}}"#,
            "range",
            "/params/v",
        ),
        (
            &event,
            r#"{"method":"eventPost","eventID":"low","params":{"w":6}}"#,
            "missing",
            "/params/v",
        ),
        (
            &event,
            r#"{"method":"eventPost","eventID":"low"}"#,
            "missing",
            "/params/v",
        ),
        (
            &event,
            r#"{"method":"eventPost","eventID":"low","type":"odd","params":{"v":1}}"#,
            "enum",
            "/type",
        ),
        (
            &event,
            r#"{"method":"eventPost","params":{"v":1}}"#,
            "shape",
            "/eventID",
        ),
        (
            &action,
            r#"{"method":"action","actionID":"open","params":{"angle":91}}"#,
            "range",
            "/params/angle",
        ),
        (
            &action,
            r#"{"method":"actionReply","actionID":"open","code":200,"data":{"Result":1.5}}"#,
            "type",
            "/data/Result",
        ),
        (
            &action,
            r#"{"method":"actionReply","code":200,"data":{"Result":1}}"#,
            "shape",
            "/actionID",
        ),
    ] {
        assert_eq!(
            asked.fault(payload),
            (vec![], reason, path.to_owned()),
            "{payload}"
        );
    }
}

#[test]
fn a_bad_entry_of_a_pack_costs_itself() {
    let asked = Asked {
        model: Some(MODEL),
        ..PLAIN
    };
    let pack = r#"{"method":"packReport","properties":[{"params":{"temp":1}},7,{"params":{}}],"events":[{"eventID":"low"}],
        "subDevices":[{"productID":"0S1"},{"productID":"0S1","deviceName":"s","properties":[{"params":{"temp":99,"power":0}}]}]}"#;
    let interpretation = asked.interpret(pack);
    assert_eq!(interpretation.events.len(), 2);
    let fault = interpretation.fault.unwrap();
    assert_eq!((fault.reason, &*fault.path), ("shape", "/properties/1"));
    assert!(fault.rule.ends_with("; and 4 more faults"), "{fault}");
}

#[test]
fn a_message_is_a_fault_where_it_is_none_of_its_type() {
    for (payload, reason, path) in [
        ("", "malformed", ""),
        ("{", "malformed", ""),
        ("[]", "shape", ""),
        ("null", "shape", ""),
        ("{}", "shape", "/method"),
        (r#"{"method":7}"#, "shape", "/method"),
        (
            r#"{"method":"eventPost","eventID":"low"}"#,
            "method",
            "/method",
        ),
        (r#"{"method":"report"}"#, "shape", "/params"),
        (r#"{"method":"report","params":[]}"#, "shape", "/params"),
        (r#"{"method":"report","params":{}}"#, "shape", "/params"),
        (
            r#"{"method":"report","msgToken":{},"params":{"a":1}}"#,
            "shape",
            "/msgToken",
        ),
        (
            r#"{"method":"packReport","properties":{}}"#,
            "shape",
            "/properties",
        ),
    ] {
        assert_eq!(
            PLAIN.fault(payload),
            (vec![], reason, path.to_owned()),
            "{payload}"
        );
    }
    for (handle, type_) in [("thing", "service"), ("ota", "property"), ("thing", "mine")] {
        let asked = Asked {
            handle,
            type_,
            ..PLAIN
        };
        assert_eq!(asked.interpret("{"), Interpretation::default());
    }
}
