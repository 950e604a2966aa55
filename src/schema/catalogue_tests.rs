//! What the schemas of this release say.

use super::*;

#[test]
fn each_event_of_the_gateway_has_a_schema_and_a_name_of_the_rules() {
    let names: Vec<&str> = all().iter().map(|schema| &*schema.event).collect();
    assert_eq!(
        names,
        [
            "device.action.answered",
            "device.action.requested",
            "device.connection.closed",
            "device.connection.opened",
            "device.event.posted",
            "device.property.reported",
            "gps.geofence.entered",
            "gps.geofence.left",
            "gps.report.created",
            "gps.speed.exceeded",
            "gps.stop.detected",
            "gps.trip.started",
            "gps.trip.stopped",
            "gps.window.closed",
        ]
    );
    for schema in all() {
        assert_eq!(schema.version, "1.0");
        assert!(PROTO.contains(&format!("message {} {{", schema.message.name())));
    }
}

#[test]
fn a_schema_says_types_formats_and_what_is_always_there() {
    let schema = all()
        .iter()
        .find(|schema| schema.event == "device.action.answered");
    let json = &schema.unwrap().json;
    assert_eq!(json["$id"], "/schemas/device.action.answered/1.0");
    assert_eq!(json["description"], "An action was answered.");
    let properties = &json["properties"];
    assert_eq!(properties["event_name"]["const"], "device.action.answered");
    assert_eq!(properties["event_version"]["const"], "1.0");
    assert_eq!(properties["event_id"]["format"], "uuid");
    assert_eq!(properties["event_time"]["format"], "date-time");
    assert_eq!(properties["trace_id"]["pattern"], "^[0-9a-f]{32}$");
    let data = &properties["data"];
    assert_eq!(data["type"], "object");
    let code =
        serde_json::json!({ "type": "integer", "minimum": 0, "description": "200 is success." });
    assert_eq!(data["properties"]["code"], code);
    assert_eq!(data["properties"]["params"]["type"], "object");
    let required = data["required"].as_array().unwrap();
    assert!(required.contains(&"identifier".into()));
    assert!(!required.contains(&"code".into()));
}

#[test]
fn a_list_is_always_there_and_an_absent_place_is_none() {
    let of = |event: &str| {
        let schema = all().iter().find(|schema| schema.event == event);
        &schema.unwrap().json["properties"]["data"]
    };
    let created = of("gps.report.created");
    assert_eq!(created["properties"]["flags"]["type"], "array");
    assert_eq!(created["properties"]["latitude"]["type"], "number");
    assert_eq!(created["properties"]["device_time"]["format"], "date-time");
    let required = created["required"].as_array().unwrap();
    assert!(required.contains(&"flags".into()) && !required.contains(&"device_time".into()));
    let closed = of("gps.window.closed");
    assert_eq!(closed["properties"]["first"]["type"], "object");
    assert!(
        !closed["required"]
            .as_array()
            .unwrap()
            .contains(&"first".into())
    );
}
