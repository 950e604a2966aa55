//! One trace through all of it: the device's PUBLISH, the event worker, the event, the dead letter.

use async_nats::jetstream::consumer::pull;
use jetway::consumer::{Config, Consumer, Event, Failure, Handle, Inbox, Transaction};
use jetway::database::Pool;
use jetway::jetstream::{Link, client};
use jetway::tasks::{OnExit, Tasks};
use jetway::telemetry::otlp;
use serde_json::Value;
use sqlx::SqlitePool;
use tokio_util::sync::CancellationToken;

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

/// Fails the first time.
struct Second;

impl Handle for Second {
    async fn handle(&self, event: &Event, _: &mut Transaction) -> Result<(), Failure> {
        match event.attempt {
            1 => Err(Failure::Retry("not yet".to_owned())),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_service_goes_on_with_the_trace_of_an_event_and_each_attempt_is_a_span() {
    let collector = Collector::start().await;
    let site = Site::start(&[("JETWAY_TELEMETRY_OTLP_ENDPOINT", &collector.endpoint())]).await;
    let backend = site.backend().await;
    let who = site.device();
    let durable = pull::Config {
        durable_name: Some("rules".to_owned()),
        filter_subject: who.subject("application.device") + ".report.>",
        backoff: vec![std::time::Duration::from_secs(1); 2],
        max_deliver: 3,
        ..pull::Config::default()
    };
    let stream = backend.stream("APPLICATION").await;
    stream.create_consumer(durable).await.unwrap();

    let stop = CancellationToken::new();
    let tasks = Tasks::new(stop.clone());
    let telemetry = otlp::Config {
        otlp_endpoint: Some(collector.endpoint()),
        service_name: "rules".to_owned(),
        ..otlp::Config::default()
    };
    let (spans, exporter) = otlp::start(&telemetry).unwrap().unwrap();
    tasks.spawn("spans", OnExit::Log, exporter.run(stop.clone()));
    let nats = client::Config {
        url: site.nats.url(),
        ..client::Config::default()
    };
    let link = Link::connect(&nats).await.unwrap();
    let pool = SqlitePool::connect("sqlite::memory:").await.unwrap();
    let inbox = Inbox::open(Pool::Sqlite(pool)).await.unwrap();
    let consumer = Consumer::new(&link, Config::new("APPLICATION", "rules"), inbox);
    let consumer = consumer
        .on("device.property.reported", "1.0", Second)
        .spans(spans);
    tasks.spawn("rules", OnExit::Log, consumer.run(stop.clone()));

    let mut device = site.connect(Protocol::V311, &who).await;
    let report = r#"{"method":"report","params":{"temp":21.5}}"#;
    assert_eq!(device.publish_acked(&who.reports(), report).await, 0);
    let published = collector.span("PUBLISH", "device.name", &who.name).await;
    let failed = collector.span("handle", "jetway.attempt", "1").await;
    let handled = collector.span("handle", "jetway.attempt", "2").await;
    for attempt in [&failed, &handled] {
        assert_eq!(attempt.service, "rules");
        assert_eq!(attempt.trace(), published.trace());
        assert!(published.traceparent().contains(&attempt.parent()));
        assert_eq!(
            attempt.attribute("jetway.event"),
            "device.property.reported"
        );
    }
    assert_ne!(failed.traceparent(), handled.traceparent());
    assert_eq!(failed.attribute("error.type"), "failed");
    assert_eq!(handled.attribute("error.type"), "");
    stop.cancel();
    tasks.wait().await;
}
