//! Every event that the gateway really publishes, against its JSON Schema and its protobuf message.

use std::collections::BTreeMap;

use jetway::schema::{self, Schema};
use prost_reflect::DynamicMessage;
use serde_json::Value;

use crate::site::{BOTH, Site};
use crate::support::{Backend, Stored, eventually};

fn schema_of(event: &Value) -> &'static Schema {
    let found = schema::all().iter().find(|schema| {
        event["event_name"] == *schema.event && event["event_version"] == *schema.version
    });
    found.unwrap_or_else(|| panic!("no schema: {event}"))
}

/// What is wrong with an event.
fn faults(schema: &Schema, event: &Value) -> Vec<String> {
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema.json)
        .unwrap();
    let wrong = validator.iter_errors(event);
    let mut faults: Vec<String> = wrong.map(|wrong| wrong.to_string()).collect();
    // The protobuf form knows no field but those of the schema.
    let read = DynamicMessage::deserialize(schema.message.clone(), event.clone());
    faults.extend(read.err().map(|error| error.to_string()));
    faults
}

async fn published(backend: &Backend, expected: usize) -> Vec<Value> {
    let all: Vec<Stored> = eventually("all events are published", async || {
        let all = backend
            .messages("APPLICATION", "application.device.>")
            .await;
        match all.len() >= expected {
            true => Ok(all),
            false => Err(format!("{} of {expected}", all.len())),
        }
    })
    .await;
    let events = all
        .iter()
        .map(|event| serde_json::from_slice(&event.payload));
    events.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn every_published_event_is_as_its_schema_says() {
    let site = Site::start(&[("JETWAY_EVENTS_EACH_PROPERTY", "true")]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let messages = [
            (
                "$thing/up/property",
                r#"{"method":"report","msgToken":"t","timestamp":1754000000000,
                    "params":{"a":1.5,"b":true,"c":"x","d":{"e":[1,null]},"big":9007199254740993}}"#,
            ),
            (
                "$thing/up/property",
                r#"{"method":"report","params":{"a":1}}"#,
            ),
            (
                "$thing/up/property",
                r#"{"method":"packReport","properties":[{"timestamp":1754000000000,"params":{"a":1}}],
                    "events":[{"eventID":"low","type":"alert","params":{"v":3}}]}"#,
            ),
            (
                "$thing/up/event",
                r#"{"method":"eventPost","msgToken":"e","eventID":"low","type":"alert","params":{"v":3}}"#,
            ),
            (
                "$thing/up/action",
                r#"{"method":"action","msgToken":"q","actionID":"open","params":{"x":1}}"#,
            ),
            (
                "$thing/up/action",
                r#"{"method":"actionReply","msgToken":"q","actionID":"open","code":200,"msg":"ok","data":{"y":2}}"#,
            ),
            (
                "$thing/up/action",
                r#"{"method":"actionReply","msgToken":"q","actionID":"open","code":200}"#,
            ),
        ];
        for (head, payload) in messages {
            assert_eq!(device.publish_acked(&who.topic(head), payload).await, 0);
        }
        device.disconnect().await;
    }
    // Of each device two of its connection; reports with five, one and one property; two events; three actions.
    let events = published(&backend, 2 * (2 + 6 + 2 + 2 + 2 + 3)).await;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &events {
        let schema = schema_of(event);
        *seen.entry(&schema.event).or_default() += 1;
        assert_eq!(faults(schema, event), Vec::<String>::new(), "{event:#}");
        // What a schema does not say is found.
        for pointer in ["/data", ""] {
            let mut more = event.clone();
            more.pointer_mut(pointer).unwrap()["novel"] = 1.into();
            assert!(!faults(schema, &more).is_empty());
        }
        let required = schema.json["properties"]["data"]["required"]
            .as_array()
            .unwrap();
        for field in required {
            let mut less = event.clone();
            let data = less["data"].as_object_mut().unwrap();
            data.remove(field.as_str().unwrap()).unwrap();
            assert!(!faults(schema, &less).is_empty(), "without {field}");
        }
    }
    // Those of positions come out of a database: the tests of its worker and jobs hold them to their schemas.
    let all = schema::all().iter().map(|schema| &*schema.event);
    let all = all.filter(|event| event.starts_with("device."));
    assert_eq!(
        seen.keys().copied().collect::<Vec<_>>(),
        all.collect::<Vec<_>>()
    );
}
