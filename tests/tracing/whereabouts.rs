//! `jetway trace`: where a message is, asked by its msgToken, its id and its time.

use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt as _;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::collector::Collector;
use crate::site::{Registered, Site};
use crate::support::{Backend, Protocol, jetway, jetway_fails, within};

async fn trace(site: &Site, who: &Registered, message: &str) -> Value {
    let device = format!("{}/{}", who.product, who.name);
    let nats = site.nats.url();
    let told = jetway(&["trace", &device, message, "--json", "--nats", &nats], &[]);
    serde_json::from_str(&told).unwrap()
}

fn steps(story: &Value) -> Vec<&str> {
    let steps = story["steps"].as_array().unwrap();
    steps
        .iter()
        .map(|step| step["what"].as_str().unwrap())
        .collect()
}

fn unknown(story: &Value) -> String {
    story["unknown"].to_string()
}

async fn events(backend: &Backend, who: &Registered, count: usize) {
    let filter = who.subject("application.device") + ".report.>";
    backend.wait_for("APPLICATION", &filter, count).await;
}

#[tokio::test]
async fn a_report_is_found_by_token_id_and_time_with_its_event() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V311, &who).await;
    for token in ["t-1", "t-2"] {
        let report = format!(r#"{{"method":"report","msgToken":"{token}","params":{{"a":1}}}}"#);
        assert_eq!(device.publish_acked(&who.reports(), report).await, 0);
    }
    events(&backend, &who, 2).await;
    let stored = who.stored(&backend).await.remove(0);
    let by_token = trace(&site, &who, "t-1").await;
    assert_eq!(steps(&by_token), ["uplink", "event"]);
    let [uplink, event] = [&by_token["steps"][0], &by_token["steps"][1]];
    assert_eq!(uplink["stream"], "DEVICE_UP");
    assert_eq!(uplink["sequence"], stored.sequence);
    assert_eq!(uplink["subject"], stored.subject);
    assert_eq!(uplink["id"], stored.header("Jw-Id"));
    assert_eq!(uplink["detail"], "property");
    assert_eq!(event["of"], format!("DEVICE_UP:{}", stored.sequence));
    assert_eq!(event["detail"], "device.property.reported");
    assert_eq!(event["traceparent"], uplink["traceparent"]);
    assert!(unknown(&by_token).contains("DEVICE_DOWN has no answer"));

    let by_id = trace(&site, &who, stored.header("Jw-Id")).await;
    assert_eq!(by_id["steps"], by_token["steps"]);

    // Both were sent at about the same time.
    let sent_ms: i128 = stored.header("Jw-Ts").parse().unwrap();
    let sent = OffsetDateTime::from_unix_timestamp_nanos(sent_ms * 1_000_000).unwrap();
    let by_time = trace(&site, &who, &sent.format(&Rfc3339).unwrap()).await;
    let mut found = steps(&by_time);
    found.sort_unstable();
    assert_eq!(found, ["event", "event", "uplink", "uplink"]);

    let device = format!("{}/{}", who.product, who.name);
    let text = jetway(&["trace", &device, "t-1", "--nats", &site.nats.url()], &[]);
    assert!(
        text.contains(&format!("stored  DEVICE_UP:{}", stored.sequence)),
        "{text}"
    );
    assert!(text.contains("device.property.reported"), "{text}");
}

#[tokio::test]
async fn a_dead_letter_tells_its_reason_and_what_is_no_event_is_said_to_be_none() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V311, &who).await;
    let bad = r#"{"method":"report","msgToken":"bad","params":7}"#;
    assert_eq!(device.publish_acked(&who.reports(), bad).await, 0);
    let log = who.topic("$log/up/operation");
    assert_eq!(device.publish_acked(&log, r#"{"msgToken":"log"}"#).await, 0);
    // The workers are past the one before as well.
    let good = r#"{"method":"report","params":{"a":1}}"#;
    assert_eq!(device.publish_acked(&who.reports(), good).await, 0);
    events(&backend, &who, 1).await;
    let story = trace(&site, &who, "bad").await;
    assert_eq!(steps(&story), ["uplink", "dead_letter"]);
    let dead = &story["steps"][1];
    let sequence = &story["steps"][0]["sequence"];
    assert_eq!(dead["of"], format!("DEVICE_UP:{sequence}"));
    let detail = dead["detail"].as_str().unwrap();
    assert!(detail.starts_with("shape at /params"), "{detail}");
    let story = trace(&site, &who, "log").await;
    assert_eq!(steps(&story), ["uplink"]);
    assert!(
        unknown(&story).contains("the event workers are past it"),
        "{story}"
    );
}

#[tokio::test]
async fn what_waits_for_the_device_is_told_and_who_has_handled_an_event() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let downlink = who.subject("device.down.thing");
    let call = r#"{"method":"action","msgToken":"153","actionID":"open"}"#;
    backend.publish(&downlink, &[], call).await;
    let story = trace(&site, &who, "153").await;
    assert_eq!(steps(&story), ["downlink"]);
    assert!(
        unknown(&story).contains("DEVICE_UP has no message"),
        "{story}"
    );

    let mut device = site.connect(Protocol::V311, &who).await;
    let answer = r#"{"method":"actionReply","msgToken":"153","actionID":"open","code":200}"#;
    let topic = who.topic("$thing/up/action");
    assert_eq!(device.publish_acked(&topic, answer).await, 0);
    events(&backend, &who, 1).await;
    let durable = async_nats::jetstream::consumer::pull::Config {
        durable_name: Some("rules".to_owned()),
        filter_subject: who.subject("application.device") + ".>",
        ..Default::default()
    };
    let stream = backend.stream("APPLICATION").await;
    stream.create_consumer(durable).await.unwrap();
    let story = trace(&site, &who, "153").await;
    assert_eq!(steps(&story), ["downlink", "uplink", "event"]);
    let durables = story["steps"][2]["durables"].as_array().unwrap();
    let rules = durables
        .iter()
        .find(|durable| durable["durable"] == "rules");
    assert_eq!(rules.unwrap()["state"], "waits for its consumer");
}

#[tokio::test]
async fn an_event_that_fell_out_of_a_durable_is_told_with_its_replay_and_is_in_the_trace() {
    let collector = Collector::start().await;
    let site = Site::start(&[("JETWAY_TELEMETRY_OTLP_ENDPOINT", &collector.endpoint())]).await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V311, &who).await;
    let report = r#"{"method":"report","msgToken":"t","params":{"a":1}}"#;
    assert_eq!(device.publish_acked(&who.reports(), report).await, 0);
    events(&backend, &who, 1).await;

    // A service that says that it will never go well.
    let stream = backend.stream("APPLICATION").await;
    let durable: PullConsumer = stream.get_consumer("app-events").await.unwrap();
    let mut messages = durable.messages().await.unwrap();
    let event = loop {
        let message = within("an event", messages.next()).await.unwrap().unwrap();
        if message.subject.contains(".report.") {
            message.ack_with(AckKind::Term).await.unwrap();
            break message;
        }
        message.ack().await.unwrap();
    };
    let sequence = event.info().unwrap().stream_sequence;
    let of = format!("APPLICATION:{sequence}");
    let dead = "dlq.durable.APPLICATION.app-events.>";
    backend.wait_for("DLQ", dead, 1).await;
    let story = trace(&site, &who, "t").await;
    assert_eq!(steps(&story), ["uplink", "event", "dead_letter"]);
    let (uplink, dead) = (&story["steps"][0], &story["steps"][2]);
    assert_eq!(dead["of"], of);
    let detail = dead["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("terminated, durable app-events"),
        "{detail}"
    );

    let nats = site.nats.url();
    let replay = ["dlq", "replay", "--durable", "app-events"];
    jetway(&replay, &[("JETWAY_NATS_URL", &nats)]);
    let story = trace(&site, &who, "t").await;
    assert_eq!(steps(&story), ["uplink", "event", "replay"]);
    let replay = &story["steps"][2];
    assert_eq!(replay["of"], format!("DEVICE_UP:{}", uplink["sequence"]));
    assert_eq!(replay["durables"].as_array().unwrap().len(), 1, "{replay}");

    let kept = collector.span("dead letter", "jetway.source", &of).await;
    let traceparent = uplink["traceparent"].as_str().unwrap();
    assert!(traceparent.contains(&kept.trace()));
    assert_eq!(kept.attribute("error.type"), "terminated");
}

#[tokio::test]
async fn what_is_not_there_ends_with_a_failure() {
    let site = Site::shared().await;
    let who = site.device();
    let device = format!("{}/{}", who.product, who.name);
    let nats = site.nats.url();
    let (code, _) = jetway_fails(&["trace", &device, "nothing", "--nats", &nats], &[]);
    assert_eq!(code, 1);
    let (_, told) = jetway_fails(&["trace", "no-device", "x", "--nats", &nats], &[]);
    assert!(told.contains("expected PRODUCT/DEVICE"), "{told}");
}
