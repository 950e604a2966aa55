//! What a report becomes: its event, in either shape, and the answer to the device.

use serde_json::{Value, json};

use crate::site::{PRODUCT, Site};
use crate::support::{DevOptions, Device, Gateway, Protocol, eventually};

#[tokio::test]
async fn a_report_of_a_device_is_an_event_that_goes_on_with_its_trace() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let backend = crate::support::Backend::connect(&gateway.ready.nats).await;
    let who = gateway.add_devices("r", 1).remove(0);
    let mut device = Device::connect(Protocol::V5, gateway.mqtt(), &who.credentials).await;
    let topic = format!("$thing/up/property/{}/{}", who.product, who.name);
    let report = r#"{"method":"report","msgToken":"t1","params":{"temp":21.50}}"#;
    assert_eq!(device.publish_acked(&topic, report).await, 0);
    let filter = format!("application.device.{}.{}.report.>", who.product, who.name);
    let events = backend.wait_for("APPLICATION", &filter, 1).await;
    let uplinks = backend.messages("DEVICE_UP", ">").await;
    let (event, uplink) = (&events[0], &uplinks[0]);
    assert!(
        event.subject.ends_with(".report.thing.property"),
        "{event:?}"
    );
    let source = format!("DEVICE_UP:{}", uplink.sequence);
    assert_eq!(event.header("Jw-Source"), source);
    assert_eq!(event.header("Jw-Event"), "device.property.reported");
    assert_eq!(event.header("traceparent"), uplink.header("traceparent"));
    let body: Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(body["event_id"], event.header("Jw-Event-Id"));
    assert_eq!(body["trace_id"], uplink.header("traceparent")[3..35]);
    assert_eq!(body["event_version"], "1.0");
    assert_eq!(body["producer"], "jetway");
    assert_eq!(body["data"]["product_id"], who.product);
    assert_eq!(body["data"]["device_name"], who.name);
    // Numbers as the device wrote them.
    assert!(
        event.text().contains(r#""params":{"temp":21.50}"#),
        "{}",
        event.text()
    );
}

#[tokio::test]
async fn every_kind_of_message_has_its_events_in_the_order_of_the_stream() {
    let site = Site::start().await;
    let _worker = site.worker().await;
    let pack = json!({"method":"packReport","msgToken":"t","properties":[
        {"timestamp":1754000000000_u64,"params":{"a":1}},
        {"timestamp":1754000001000_u64,"params":{"a":2}}],
        "events":[{"timestamp":1754000000000_u64,"eventID":"low","params":{"v":2.9}}]});
    site.report("d", 1).await;
    site.uplink("d", "property", &pack.to_string()).await;
    let event =
        r#"{"method":"eventPost","msgToken":"e","eventID":"low","type":"alert","params":{}}"#;
    site.uplink("d", "event", event).await;
    let action = r#"{"method":"action","msgToken":"a","actionID":"open","params":{}}"#;
    site.uplink("d", "action", action).await;
    site.uplink("d", "service", r#"{"method":"bindChange"}"#)
        .await;
    site.uplink("d", "property", "").await;
    site.report("d", 2).await;
    site.wait_until_passed().await;
    let events = site.events().await;
    let subjects: Vec<_> = events
        .iter()
        .map(|event| {
            event
                .subject
                .strip_prefix("application.device.P%2E1.d.report.thing.")
                .unwrap()
        })
        .collect();
    let expected = [
        "property",
        "property",
        "property",
        "event.info.low",
        "event.alert.low",
        "action.open.req.up",
        "property",
    ];
    assert_eq!(subjects, expected);
    let sources: Vec<_> = events.iter().map(|event| &*event.source).collect();
    let of = |sequence| format!("DEVICE_UP:{sequence}");
    assert_eq!(sources, [1, 2, 2, 2, 3, 4, 7].map(of));
}

#[tokio::test]
async fn the_platforms_shape_and_an_event_for_each_property() {
    let site = Site::start().await;
    let environment = [
        ("JETWAY_EVENTS_SHAPE", "unitedrhino"),
        ("JETWAY_EVENTS_EACH_PROPERTY", "true"),
    ];
    let _worker = site.worker_with(&environment).await;
    let report =
        r#"{"method":"report","timestamp":1754000000123,"params":{"temp":21.5,"power":1}}"#;
    site.uplink("d", "property", report).await;
    let events = site.wait_for_events(3).await;
    let own = json!({"productID": PRODUCT, "deviceName": "d"});
    assert_eq!(
        events[0].subject,
        "application.v2.device.P%2E1.d.report.thing.property"
    );
    let all =
        json!({"device": own, "timestamp": "1754000000123", "params": {"temp": 21.5, "power": 1}});
    assert_eq!(events[0].body, all);
    let one =
        json!({"device": own, "timestamp": "1754000000123", "identifier": "temp", "param": 21.5});
    let temp = "application.device.P%2E1.d.report.thing.property.temp";
    let found = events.iter().find(|event| event.subject == temp);
    assert_eq!(found.unwrap().body, one);
}

#[tokio::test]
async fn a_device_gets_the_answers_that_its_product_is_to_have() {
    let site = Site::start().await;
    let worker = site.worker().await;
    let model = r#"{"reply":["property","ntp"]}"#;
    site.backend
        .publish("$KV.jetway_models.P%2E1", &[], model)
        .await;
    // The worker hears of the model a little later than it is stored.
    eventually("a reply", async || {
        Box::pin(site.report("d", 1)).await;
        site.wait_until_passed().await;
        match Box::pin(site.backend.count("DEVICE_DOWN")).await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let last = site
        .uplink(
            "d",
            "event",
            r#"{"method":"eventPost","msgToken":"e","eventID":"low","params":{}}"#,
        )
        .await;
    site.wait_for_cursor(last).await;
    let replies = site.backend.messages("DEVICE_DOWN", ">").await;
    let reply = replies.last().unwrap();
    assert_eq!(reply.subject, "device.down.mqtt.thing.P%2E1.d");
    assert_eq!(
        reply.text(),
        r#"{"method":"reportReply","msgToken":"t","code":200}"#
    );
    assert_eq!(reply.header("Jw-Type"), "property");
    assert_eq!(reply.header("Jw-Qos"), "1");
    assert_eq!(reply.header("Nats-TTL"), "10s");
    assert!(worker.metric("jetway_events_replies_total").await >= 1.0);
}
