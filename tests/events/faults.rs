//! What is wrong in a message: a dead letter that says so, once, and nobody else notices.

use crate::site::Site;
use crate::support::{Backend, DevOptions, Device, Gateway, Protocol};

#[tokio::test]
async fn g08_a_payload_that_is_no_json_is_one_dead_letter_and_costs_nobody_the_connection() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    let who = gateway.add_devices("g", 1).remove(0);
    let mut device = Device::connect(Protocol::V311, gateway.mqtt(), &who.credentials).await;
    let topic = format!("$thing/up/property/{}/{}", who.product, who.name);
    let deep = "[".repeat(100_000);
    let digits = format!(
        r#"{{"method":"report","params":{{"a":0.{}}}}}"#,
        "9".repeat(100_000)
    );
    let hostile: [&[u8]; 7] = [
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        br#"{"method":"report","params":{"a":NaN}}"#,
        br#"{"method":"report","params":{"a":1,"a":2}}"#,
        deep.as_bytes(),
        digits.as_bytes(),
    ];
    for payload in hostile {
        assert_eq!(device.publish_acked(&topic, payload.to_vec()).await, 0);
    }
    let report = r#"{"method":"report","params":{"temp":1}}"#;
    assert_eq!(device.publish_acked(&topic, report).await, 0);
    let own = format!("{}.{}", who.product, who.name);
    let filter = format!("application.device.{own}.report.>");
    // It comes behind the others.
    assert_eq!(backend.wait_for("APPLICATION", &filter, 1).await.len(), 1);
    let dead = backend.messages("DLQ", &format!("dlq.events.{own}")).await;
    let reasons: Vec<_> = dead.iter().map(|dead| dead.header("Jw-Reason")).collect();
    let expected = [
        "malformed",
        "encoding",
        "encoding",
        "malformed",
        "duplicate_key",
        "depth",
        "number",
    ];
    assert_eq!(reasons, expected);
    for (dead, payload) in dead.iter().zip(hostile) {
        assert_eq!(dead.payload, payload);
        assert_eq!(
            dead.header("Jw-Subject"),
            format!("device.up.mqtt.thing.{own}")
        );
        assert!(!dead.header("traceparent").is_empty() && !dead.header("Jw-Ts").is_empty());
    }
    assert_eq!(dead[4].header("Jw-Path"), "/params/a");
    assert_eq!(
        gateway
            .metric(r#"jetway_events_dead_letters_total{reason="malformed"}"#)
            .await,
        2.0
    );
}

#[tokio::test]
async fn the_good_properties_of_a_mixed_report_go_out() {
    let site = Site::start().await;
    // Stored before the worker starts, so that it has the model from the beginning.
    let first = site.worker().await;
    drop(first);
    let model = r#"{"schema":{"properties":[
        {"id":"temp","mode":"r","type":"float","min":-40,"max":85},
        {"id":"power","mode":"rw","type":"bool"}]}}"#;
    site.backend
        .publish("$KV.jetway_models.P%2E1", &[], model)
        .await;
    let report = r#"{"method":"report","params":{"temp":900,"power":1}}"#;
    let sequence = site.uplink("d", "property", report).await;
    let _worker = site.worker().await;
    let events = site.wait_for_events(1).await;
    assert_eq!(
        events[0].body["data"]["params"],
        serde_json::json!({"power": 1})
    );
    let dead = site.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].subject, "dlq.events.P%2E1.d");
    assert_eq!(dead[0].header("Jw-Reason"), "range");
    assert_eq!(dead[0].header("Jw-Path"), "/params/temp");
    assert_eq!(dead[0].header("Jw-Sequence"), sequence.to_string());
    assert_eq!(dead[0].text(), report);
}

#[tokio::test]
async fn what_the_stream_refuses_is_one_dead_letter_and_holds_nothing_up() {
    let site = Site::start().await;
    let first = site.worker().await;
    // An operator's limit that no declaration knows.
    let stream = site.backend.stream("APPLICATION").await;
    let mut config = stream.cached_info().config.clone();
    drop(first);
    config.max_message_size = 2_000;
    let request = serde_json::to_vec(&config).unwrap();
    let mut request: serde_json::Value = serde_json::from_slice(&request).unwrap();
    request["allow_atomic"] = true.into();
    request["allow_batched"] = true.into();
    let answer = site
        .backend
        .request("$JS.API.STREAM.UPDATE.APPLICATION", request.to_string())
        .await;
    assert!(
        !String::from_utf8_lossy(&answer.payload).contains("error"),
        "{answer:?}"
    );
    let large = format!(
        r#"{{"method":"report","params":{{"a":"{}"}}}}"#,
        "x".repeat(3_000)
    );
    for number in 0..100 {
        site.report("d", number).await;
        if number == 40 {
            site.uplink("d", "property", &large).await;
        }
    }
    let worker = site.worker().await;
    let events = site.wait_for_events(100).await;
    let numbers: Vec<_> = events.iter().map(|event| event.number()).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    let dead = site.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].header("Jw-Reason"), "refused");
    assert_eq!(dead[0].text(), large);
    assert_eq!(
        worker
            .metric(r#"jetway_events_dead_letters_total{reason="refused"}"#)
            .await,
        1.0
    );
}

#[tokio::test]
async fn an_uplink_that_is_not_what_it_says_is_one_dead_letter() {
    let site = Site::start().await;
    let _worker = site.worker().await;
    let content_type = "application/vnd.jetway.device-message.v1+protobuf";
    let headers = [("Content-Type", content_type)];
    let subject = "device.up.mqtt.thing.P%2E1.d";
    site.backend.publish(subject, &headers, "no protobuf").await;
    site.wait_until_passed().await;
    let dead = site.dead_letters().await;
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].header("Jw-Reason"), "form");
    assert_eq!(dead[0].text(), "no protobuf");
    // It had no trace context: one begins here.
    assert_eq!(dead[0].header("traceparent").len(), 55);
}
