//! One trace through all of it: the device's PUBLISH, the event worker, the event, the dead letter.

use serde_json::Value;

use crate::collector::Collector;
use crate::site::Site;
use crate::support::{Protocol, Publish};
use rumqttc::v5::mqttbytes::v5::PublishProperties;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test]
async fn a_report_and_its_event_are_one_trace_and_so_are_a_bad_one_and_its_dead_letter() {
    let collector = Collector::start().await;
    let endpoint = collector.endpoint();
    let site = Site::start(&[("JETWAY_TELEMETRY_OTLP_ENDPOINT", &endpoint)]).await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    let own = format!("00-{TRACE}-00f067aa0ba902b7-01");
    device.publish(Publish {
        properties: Some(PublishProperties {
            user_properties: vec![("traceparent".to_owned(), own)],
            ..PublishProperties::default()
        }),
        ..Publish::new(
            &who.reports(),
            r#"{"method":"report","params":{"temp":21.5}}"#,
        )
    });
    assert_eq!(device.acked().await.unwrap().reason, 0);
    assert_eq!(device.publish_acked(&who.reports(), "{").await, 0);

    let filter = who.subject("application.device") + ".report.>";
    let event = backend.wait_for("APPLICATION", &filter, 1).await.remove(0);
    let body: Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(body["trace_id"], TRACE);
    assert!(
        event
            .header("traceparent")
            .starts_with(&format!("00-{TRACE}-"))
    );
    let source = event.header("Jw-Source");
    let made = collector.span("events", "jetway.source", source).await;
    let published = collector.span("PUBLISH", "device.name", &who.name).await;
    for span in [&made, &published] {
        assert_eq!(span.trace(), TRACE);
        assert_eq!(span.parent(), "00f067aa0ba902b7");
    }
    assert!(made.span.start_time_unix_nano >= published.span.start_time_unix_nano);
    assert_eq!(made.attribute("jetway.events"), "1");
    assert_eq!(made.attribute("error.type"), "");

    let dead = backend
        .wait_for("DLQ", &who.subject("dlq.events"), 1)
        .await
        .remove(0);
    let bad = who.stored_count(&backend, 2).await.remove(1);
    let source = format!("DEVICE_UP:{}", bad.sequence);
    let kept = collector
        .span("dead letter", "jetway.source", &source)
        .await;
    assert_eq!(kept.attribute("error.type"), dead.header("Jw-Reason"));
    assert_eq!(dead.header("traceparent"), bad.header("traceparent"));
    assert!(bad.header("traceparent").contains(&kept.trace()));
    assert_ne!(kept.trace(), TRACE);
}
