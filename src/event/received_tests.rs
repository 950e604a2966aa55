//! Reading events of any producer.

use super::*;

const EVENT: &str = r#"{"event_id":"1","event_name":"a.b.c","event_version":"1.0","event_time":"2026-10-14T08:30:00.123Z","producer":"x","trace_id":"t","data":{"n": 1.0}}"#;

#[test]
fn an_event_is_read_and_its_data_left_as_it_is() {
    let event = Received::parse(EVENT.as_bytes()).unwrap();
    assert_eq!(event.data.get(), r#"{"n": 1.0}"#);
    let fields = [
        event.event_id,
        event.event_name,
        event.event_version,
        event.event_time,
        event.producer,
        event.trace_id,
    ];
    assert_eq!(
        fields,
        ["1", "a.b.c", "1.0", "2026-10-14T08:30:00.123Z", "x", "t"]
    );
    let least = r#"{"data":{},"event_version":"2.0","event_name":"a\u002Eb","event_id":"1","more":[],"producer":null}"#;
    let event = Received::parse(least.as_bytes()).unwrap();
    assert_eq!((&*event.event_name, &*event.producer), ("a.b", ""));
}

#[test]
fn what_is_no_event_is_a_fault_with_its_place() {
    for (document, reason, path) in [
        ("[]".to_owned(), "shape", ""),
        ("{".to_owned(), "malformed", ""),
        (
            EVENT.replace("\"event_id\":\"1\",", ""),
            "shape",
            "/event_id",
        ),
        (EVENT.replace("\"a.b.c\"", "\"\""), "shape", "/event_name"),
        (EVENT.replace("\"1.0\"", "1.0"), "shape", "/event_version"),
        (EVENT.replace("\"t\"", "7"), "shape", "/trace_id"),
        (EVENT.replace("{\"n\": 1.0}", "[]"), "shape", "/data"),
        (
            EVENT.replace("{\"n\": 1.0}", "{\"n\":1,\"n\":2}"),
            "duplicate_key",
            "/data/n",
        ),
    ] {
        let fault = Received::parse(document.as_bytes()).unwrap_err();
        assert_eq!((fault.reason, &*fault.path), (reason, path), "{document}");
    }
}
