//! The span of a PUBLISH, the trace context of its message, and a collector that does not answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use jetway::telemetry::now;
use rumqttc::v5::mqttbytes::v5::PublishProperties;
use tokio::net::{TcpListener, TcpSocket};

use crate::collector::{Collected, Collector};
use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Protocol, Publish, Stored, eventually, within};

const ID: &str = "messaging.message.id";

async fn site(endpoint: &str, further: &[(&str, &str)]) -> Site {
    let endpoint = [("JETWAY_TELEMETRY_OTLP_ENDPOINT", endpoint)];
    Site::start(&[&endpoint, further].concat()).await
}

/// Publishes with user properties; the message as it is stored.
async fn publish(site: &Site, backend: &Backend, user: &[(&str, &str)]) -> Stored {
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    let user = user
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    device.publish(Publish {
        properties: Some(PublishProperties {
            user_properties: user.collect(),
            ..PublishProperties::default()
        }),
        ..Publish::new(&who.reports(), "report")
    });
    assert_eq!(device.acked().await.unwrap().reason, 0);
    who.stored_count(backend, 1).await.remove(0)
}

fn assert_of(span: &Collected, who: &Registered, stored: &Stored) {
    assert_eq!(span.service, "jetway");
    assert_eq!(span.attribute("device.product"), who.product);
    assert_eq!(span.attribute("device.name"), who.name);
    let destination = span.attribute("messaging.destination.name");
    assert_eq!(destination, stored.subject);
    assert!(
        span.span
            .status
            .as_ref()
            .is_none_or(|status| status.code == 0)
    );
}

#[tokio::test]
async fn a_trace_begins_with_the_publish_from_its_receipt_until_it_is_stored() {
    let collector = Collector::start().await;
    let site = site(&collector.endpoint(), &[]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let before = now();
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "report").await, 0);
        let after = now();
        let stored = who.stored_count(&backend, 1).await.remove(0);
        let span = collector.span("PUBLISH", ID, stored.header("Jw-Id")).await;
        assert_of(&span, &who, &stored);
        assert_eq!(span.traceparent(), stored.header("traceparent"));
        assert_eq!(span.parent(), "");
        let [start, end] = [span.span.start_time_unix_nano, span.span.end_time_unix_nano]
            .map(Duration::from_nanos);
        assert!(before <= start && start < end && end <= after + Duration::from_secs(1));
    }
    // Counted when the collector has answered.
    site.counted("jetway_spans_exported_total", 1.0).await;
}

#[tokio::test]
async fn a_trace_of_the_device_goes_on_and_only_a_valid_one() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";
    let collector = Collector::start().await;
    let site = site(&collector.endpoint(), &[]).await;
    let backend = site.backend().await;

    let own = format!("00-{TRACE}-{PARENT}-01");
    let stored = publish(&site, &backend, &[("traceparent", &own)]).await;
    assert_eq!(stored.header("traceparent"), own);
    assert_eq!(stored.header("Jw-User-traceparent"), "");
    let span = collector.span("PUBLISH", ID, stored.header("Jw-Id")).await;
    assert_eq!(span.parent(), PARENT);
    assert!(span.traceparent().starts_with(&format!("00-{TRACE}-")));
    assert!(!span.traceparent().contains(PARENT));

    // It says that it is not to be sampled.
    let not_sampled = format!("00-{TRACE}-{PARENT}-00");
    let stored = publish(&site, &backend, &[("traceparent", &not_sampled)]).await;
    assert_eq!(stored.header("traceparent"), not_sampled);
    let not_sampled = stored;

    for invalid in [
        "",
        "x",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nNats-TTL: 1s",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n",
    ] {
        let stored = publish(&site, &backend, &[("traceparent", invalid)]).await;
        let span = collector.span("PUBLISH", ID, stored.header("Jw-Id")).await;
        assert_eq!(stored.header("traceparent"), span.traceparent());
        assert_eq!(span.parent(), "", "{invalid:?}");
        assert!(!span.traceparent().contains(TRACE), "{invalid:?}");
        let kept = stored.header("Jw-User-traceparent");
        let expected = invalid.replace('\r', "%0D").replace('\n', "%0A");
        assert_eq!(kept, expected);
        assert_eq!(stored.header("Nats-TTL"), "");
        assert_eq!(stored.text(), "report");
    }
    assert!(collector.spans(ID, not_sampled.header("Jw-Id")).is_empty());
}

#[tokio::test]
async fn what_is_not_sampled_says_so_and_has_no_span() {
    let collector = Collector::start().await;
    let none = [("JETWAY_TELEMETRY_SAMPLE_RATIO", "0")];
    let site = site(&collector.endpoint(), &none).await;
    let backend = site.backend().await;
    let stored = publish(&site, &backend, &[]).await;
    let own = stored.header("traceparent");
    assert!(own.ends_with("-00"), "{own}");
    // Whatever the device says, no more than the ratio is sampled.
    let own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    publish(&site, &backend, &[("traceparent", own)]).await;
    let mut gateway = site.gateway;
    gateway.terminate();
    assert!(gateway.wait().await.success());
    assert!(collector.spans("device.product", "flows").is_empty());
}

#[tokio::test]
async fn a_refused_publish_says_why() {
    let collector = Collector::start().await;
    let site = site(&collector.endpoint(), &[]).await;
    let backend = site.backend().await;
    let mut config = backend
        .stream("DEVICE_UP")
        .await
        .cached_info()
        .config
        .clone();
    config.max_message_size = 10;
    backend.jetstream.update_stream(config).await.unwrap();
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    let refused = device.publish_acked(&who.reports(), "x".repeat(100)).await;
    assert!(refused >= 0x80, "{refused:#x}");
    let span = collector.span("PUBLISH", "device.name", &who.name).await;
    assert_eq!(span.attribute("error.type"), "too_large");
    assert_eq!(span.span.status.unwrap().code, 2);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    // The port is the test's, and refuses connections until somebody listens.
    let port = TcpSocket::new_v4().unwrap();
    port.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let endpoint = format!("http://{}", port.local_addr().unwrap());
    let site = site(&endpoint, &[]).await;
    let backend = site.backend().await;
    publish(&site, &backend, &[]).await;
    site.counted("jetway_spans_dropped_total", 0.0).await;
    let collector = Collector::on(port.listen(16).unwrap());
    let stored = publish(&site, &backend, &[]).await;
    collector.span("PUBLISH", ID, stored.header("Jw-Id")).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_neither_devices_nor_the_drain() {
    const MESSAGES: usize = 200;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let few = [
        ("JETWAY_TELEMETRY_QUEUE_MAX", "10"),
        ("JETWAY_TELEMETRY_EXPORT_TIMEOUT_MS", "1000"),
    ];
    let mut site = site(&endpoint, &few).await;
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    for _ in 0..MESSAGES {
        assert_eq!(device.publish_acked(&who.reports(), "report").await, 0);
    }
    let dropped = "jetway_spans_dropped_total";
    eventually("spans are dropped", async || {
        match site.gateway.metric(dropped).await {
            // The rest waits, or is under way.
            count if count > 0.0 => Ok(()),
            count => Err(format!("{count}")),
        }
    })
    .await;
    let begun = Instant::now();
    site.gateway.terminate();
    let ended = within("the drain", site.gateway.wait()).await;
    assert!(ended.success(), "{}", site.gateway.log());
    assert!(begun.elapsed() < Duration::from_secs(10));
}
