//! Messages of the profile (§4) and the events that applications get (§5), in both shapes.

use serde_json::json;

use super::*;
use crate::event::derived_id;
use crate::mapping::Presence;
use crate::thing::asked_tests::*;

#[test]
fn a_report_is_one_event_with_all_its_properties() {
    let interpretation = PLAIN.interpret(REPORT);
    assert_eq!(interpretation.fault, None);
    assert_eq!(interpretation.reply, None);
    let [event] = &*interpretation.events else {
        panic!("one event");
    };
    assert_eq!(
        event.subject,
        "application.device.0A1.dev001.report.thing.property"
    );
    let id = derived_id(RECEIVED_MS, &[b"DEVICE_UP", &17_u64.to_be_bytes(), &[0, 0]]).to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Jw-Event", "device.property.reported"),
        ("Jw-Event-Id", &id),
        ("traceparent", TRACEPARENT),
        ("Jw-Source", "DEVICE_UP:17"),
    ];
    assert_eq!(event.headers.iter().collect::<Vec<_>>(), headers);
    let body = format!(
        r#"{{"event_id":"{id}","event_name":"device.property.reported","event_version":"1.0","event_time":"2025-07-31T22:13:20.500Z","producer":"jetway","trace_id":"{TRACE}","data":{{"product_id":"0A1","device_name":"dev001","msg_token":"t1","sampled_at":"2025-07-31T22:13:20.123Z","received_at":"2025-07-31T22:13:20.500Z","params":{{"temp":21.50,"power":true,"arr.2":7}}}}}}"#
    );
    assert_eq!(said(event).1, body);
    assert_eq!(interpretation, PLAIN.interpret(REPORT));
}

#[test]
fn each_property_can_be_an_event_too() {
    let asked = Asked {
        settings: Settings {
            each_property: true,
            ..Settings::default()
        },
        ..PLAIN
    };
    let interpretation = asked.interpret(REPORT);
    let ids: std::collections::HashSet<_> = interpretation
        .events
        .iter()
        .map(|event| event.headers.get("Jw-Event-Id").unwrap())
        .collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(
        interpretation.events[3].subject,
        "application.device.0A1.dev001.report.thing.property.arr.2"
    );
    assert_eq!(
        data(&interpretation.events[3])["params"],
        json!({"arr.2": 7})
    );
}

#[test]
fn the_platform_s_shape_is_that_of_its_examples() {
    let properties = [
        event(
            "application.v2.device.0A1.dev001.report.thing.property",
            r#"{"device":{"productID":"0A1","deviceName":"dev001"},"timestamp":"1754000000123","params":{"temp":21.5,"power":1}}"#,
        ),
        event(
            "application.device.0A1.dev001.report.thing.property.temp",
            r#"{"device":{"productID":"0A1","deviceName":"dev001"},"timestamp":"1754000000123","identifier":"temp","param":21.5}"#,
        ),
        event(
            "application.device.0A1.dev001.report.thing.property.power",
            r#"{"device":{"productID":"0A1","deviceName":"dev001"},"timestamp":"1754000000123","identifier":"power","param":1}"#,
        ),
    ];
    let report = r#"{"method":"report","msgToken":"t1","timestamp":1754000000123,"params":{"temp":21.5,"power":true}}"#;
    assert_eq!(PLATFORM.events(report), properties);
    let posted = Asked {
        type_: "event",
        ..PLATFORM
    };
    assert_eq!(
        posted.events(r#"{"method":"eventPost","msgToken":"e1","eventID":"low","type":"alert","timestamp":1754000000123,"params":{"v":2.9}}"#),
        [event(
            "application.device.0A1.dev001.report.thing.event.alert.low",
            r#"{"device":{"productID":"0A1","deviceName":"dev001"},"timestamp":"1754000000123","identifier":"low","type":"alert","params":{"v":2.9}}"#,
        )]
    );
    let answered = Asked {
        type_: "action",
        ..PLATFORM
    };
    assert_eq!(
        answered.events(r#"{"method":"actionReply","msgToken":"153","actionID":"open","code":200,"timestamp":1754000000123,"data":{"Result":1}}"#),
        [event(
            "application.device.0A1.dev001.report.thing.action.open.resp.up",
            r#"{"device":{"productID":"0A1","deviceName":"dev001"},"msgToken":"153","timestamp":"1754000000123","actionID":"open","params":{"Result":1},"code":200,"dir":"up","reqType":"resp"}"#,
        )]
    );
}

#[test]
fn the_platform_s_connection_events_are_those_of_its_example() {
    let device = DeviceId::new("0A1", "dev001").unwrap();
    let body = |presence| crate::thing::platform_presence(&device, presence, 1_754_000_000_001);
    let expected = r#"{"device":{"productID":"0A1","deviceName":"dev001"},"status":1,"timestamp":"1754000000001"}"#;
    assert_eq!(body(Presence::Connected), expected);
    let expected = expected.replace("\"status\":1", "\"status\":2");
    assert_eq!(body(Presence::Disconnected), expected);
}

#[test]
fn an_action_is_told_in_both_directions() {
    let call = r#"{"method":"action","msgToken":"153","actionID":"open","params":{"angle":30}}"#;
    let answer = r#"{"method":"actionReply","msgToken":"153","actionID":"open","code":2000004,"msg":"stuck","data":{}}"#;
    for (payload, downlink, end, name) in [
        (call, false, "req.up", "device.action.requested"),
        (call, true, "req.down", "device.action.requested"),
        (answer, false, "resp.up", "device.action.answered"),
        (answer, true, "resp.down", "device.action.answered"),
    ] {
        let asked = Asked {
            type_: "action",
            downlink,
            model: Some(MODEL),
            ..PLAIN
        };
        let interpretation = asked.interpret(payload);
        assert_eq!((interpretation.fault, interpretation.reply), (None, None));
        let event = &interpretation.events[0];
        assert_eq!(
            event.subject,
            format!("application.device.0A1.dev001.report.thing.action.open.{end}")
        );
        assert_eq!(event.headers.get("Jw-Event"), Some(name));
        let data = data(event);
        assert_eq!(data["direction"], if downlink { "down" } else { "up" });
        assert_eq!(data.get("code").is_some(), payload == answer);
        assert_eq!(data["msg_token"], "153");
    }
}

#[test]
fn a_message_to_a_device_is_an_event_or_nothing() {
    for (type_, payload) in [
        ("property", r#"{"method":"control","params":{}}"#),
        ("action", "{"),
    ] {
        let asked = Asked {
            type_,
            downlink: true,
            model: Some(MODEL),
            ..PLAIN
        };
        assert_eq!(asked.interpret(payload), Interpretation::default());
    }
}

#[test]
fn a_pack_is_an_event_per_entry_also_of_sub_devices_that_are_bound() {
    let interpretation = Asked {
        model: Some(MODEL),
        ..PLAIN
    }
    .interpret(PACK);
    assert_eq!(interpretation.fault, None);
    let said: Vec<_> = interpretation
        .events
        .iter()
        .map(|event| (&*event.subject, data(event)["sampled_at"].clone()))
        .collect();
    assert_eq!(
        said,
        [
            (
                "application.device.0A1.dev001.report.thing.property",
                json!("2025-07-31T22:13:20.000Z")
            ),
            (
                "application.device.0A1.dev001.report.thing.event.alert.low",
                json!("2025-07-31T22:13:20.001Z")
            ),
            (
                "application.device.0S1.sub-7.report.thing.property",
                json!("2025-07-31T22:13:20.002Z")
            ),
            (
                "application.device.0S1.sub-7.report.thing.event.fault.low",
                json!("2025-07-31T22:13:20.500Z")
            ),
        ]
    );
    assert_eq!(data(&interpretation.events[2])["device_name"], "sub-7");
}

#[test]
fn a_device_s_reply_is_an_event_where_it_says_something_new() {
    let answer = r#"{"method":"getReportReply","msgToken":"1","code":200,"data":{"temp":20}}"#;
    let events = PLAIN.interpret(answer).events;
    assert_eq!(data(&events[0])["params"], json!({"temp": 20}));
    for quiet in [
        r#"{"method":"getReportReply","msgToken":"1","code":100009}"#,
        r#"{"method":"controlReply","msgToken":"1","code":200,"data":{"temp":20}}"#,
        r#"{"method":"reportInfo","params":{"version":"1.0"}}"#,
        r#"{"method":"getStatus","identifiers":["power"]}"#,
    ] {
        assert_eq!(PLAIN.interpret(quiet), Interpretation::default(), "{quiet}");
    }
}

#[test]
fn a_sample_s_time_is_the_device_s_where_that_can_be() {
    for (timestamp, expected) in [
        ("1754000000123", "2025-07-31T22:13:20.123Z"),
        ("1754086400500", "2025-08-01T22:13:20.500Z"),
        ("1754086400501", "2025-07-31T22:13:20.500Z"),
        ("1754000000", "2025-07-31T22:13:20.500Z"),
        ("-1", "2025-07-31T22:13:20.500Z"),
        ("null", "2025-07-31T22:13:20.500Z"),
        ("\"1754000000123\"", "2025-07-31T22:13:20.500Z"),
    ] {
        let payload =
            format!(r#"{{"method":"report","timestamp":{timestamp},"params":{{"a":1}}}}"#);
        let interpretation = PLAIN.interpret(payload);
        let data = data(&interpretation.events[0]);
        assert_eq!(data["sampled_at"], expected, "{timestamp}");
        assert_eq!(data["received_at"], "2025-07-31T22:13:20.500Z");
    }
}
