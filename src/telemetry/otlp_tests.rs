//! Which spans are kept, and what is kept of them.

use super::*;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn spans(ratio: f64, queue_max: usize) -> (Spans, Exporter) {
    let config = Config {
        otlp_endpoint: Some("http://127.0.0.1:9".to_owned()),
        sample_ratio: ratio,
        queue_max,
        ..Config::default()
    };
    start(&config).unwrap().unwrap()
}

fn record(spans: &Spans, traceparent: &str) {
    let (start, end) = (Duration::from_secs(5), Duration::from_secs(4));
    spans.record("handle", traceparent, start, end, &[("a", "b")]);
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_recorded_and_traces_say_that_others_may() {
    assert!(start(&Config::default()).unwrap().is_none());
    let off = Spans::default();
    record(&off, TRACE);
    assert!(off.samples(1));
    assert!(!off.keeps(TRACE));
}

#[tokio::test]
async fn a_span_is_below_the_one_that_its_trace_context_names() {
    let (spans, mut exporter) = spans(1.0, 8);
    record(&spans, TRACE);
    let at = Duration::from_millis(1_500);
    let own = |parent| spans.record_own("PUBLISH", TRACE, parent, (at, at * 2), &[(ERROR, "full")]);
    own(None);
    own(Some("00f067aa0ba902b7"));
    let below = exporter.queue.recv().await.unwrap();
    let begun = exporter.queue.recv().await.unwrap();
    let continued = exporter.queue.recv().await.unwrap();
    assert_eq!(continued.span_context, begun.span_context);
    assert_eq!(continued.parent_span_id.to_string(), "00f067aa0ba902b7");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for span in [&below, &begun] {
        assert_eq!(span.span_context.trace_id().to_string(), trace);
    }
    assert_eq!(below.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_ne!(below.span_context.span_id(), below.parent_span_id);
    assert_eq!(below.attributes, [KeyValue::new("a", "b")]);
    assert_eq!(below.status, Status::Unset);
    // The wall clock was set back in between.
    assert_eq!(below.end_time, below.start_time);
    assert_eq!(begun.span_context.span_id(), below.parent_span_id);
    assert_eq!(begun.parent_span_id, SpanId::INVALID);
    assert_eq!(begun.status, Status::error("full"));
    assert_eq!(begun.start_time, UNIX_EPOCH + at);
    assert_eq!(begun.end_time, UNIX_EPOCH + at * 2);
}

#[tokio::test]
async fn what_is_not_sampled_or_not_valid_is_not_recorded() {
    let (spans, mut exporter) = spans(1.0, 8);
    for traceparent in [
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c8031\u{e9}-b7ad6b7169203331-01",
    ] {
        assert!(!spans.keeps(traceparent), "{traceparent}");
        record(&spans, traceparent);
    }
    assert!(exporter.queue.try_recv().is_err());
}

#[tokio::test]
async fn the_share_that_is_sampled_is_the_ratio_and_depends_on_the_trace_alone() {
    const TRACES: u64 = 10_000;
    for ratio in [0.0, 0.1, 0.5, 1.0] {
        let ((one, _exporter), (other, _other)) = (spans(ratio, 8), spans(ratio, 8));
        let connection = u128::from(random_u64()) << 64;
        let ids = (1..=TRACES).map(|message| connection | u128::from(message));
        let sampled = ids.filter(|id| {
            assert_eq!(one.samples(*id), other.samples(*id));
            one.samples(*id)
        });
        let share = f64::from(u32::try_from(sampled.count()).unwrap()) / 10_000.0;
        assert!((share - ratio).abs() < 0.03, "{share} instead of {ratio}");
        assert!(ratio.fract() != 0.0 || share == ratio);
    }
}

#[tokio::test]
async fn what_has_no_room_is_dropped_and_counted() {
    let (spans, exporter) = spans(1.0, 2);
    for _ in 0..5 {
        record(&spans, TRACE);
    }
    assert_eq!(exporter.sampler.dropped.get(), 3);
}

#[test]
fn a_configuration_that_cannot_be_used_is_told_all_its_faults() {
    let faulty = Config {
        otlp_endpoint: Some("https://collector".to_owned()),
        sample_ratio: 1.5,
        service_name: "s".to_owned(),
        queue_max: 0,
        export_timeout_ms: 0,
    };
    assert_eq!(faulty.validate().len(), 4);
    for (endpoint, is_valid) in [
        ("http://127.0.0.1:4318", true),
        ("http://collector:4318/otlp/", true),
        ("http://", false),
        ("http:///v1", false),
        ("http://a/?b", false),
        ("a:4318", false),
    ] {
        let config = Config {
            otlp_endpoint: Some(endpoint.to_owned()),
            ..Config::default()
        };
        assert_eq!(config.validate().is_empty(), is_valid, "{endpoint}");
    }
    let undefined = Config {
        sample_ratio: f64::NAN,
        ..Config::default()
    };
    assert_eq!(undefined.validate().len(), 1);
}
