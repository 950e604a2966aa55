//! Durables, measured while a service works, fails and is away.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::{Consumer, pull};
use futures_util::StreamExt as _;

use crate::setting::{SUBJECT, Setting, consumer, metric};
use crate::support::within;

/// How long a pull waits for what does not come.
const SOON: Duration = Duration::from_millis(500);

async fn pull(
    durable: &Consumer<pull::Config>,
    count: usize,
) -> Vec<async_nats::jetstream::Message> {
    let mut messages = within("a pull", durable.batch().max_messages(count).messages())
        .await
        .unwrap();
    let mut pulled = Vec::new();
    while let Some(message) = within("messages", messages.next()).await {
        pulled.push(message.unwrap());
    }
    assert_eq!(pulled.len(), count);
    pulled
}

#[tokio::test]
async fn a_durable_is_measured_from_its_lag_to_what_became_of_its_messages() {
    let setting = Setting::start(&[]).await;
    let backend = setting.backend().await;
    let durable = consumer(&backend).await;
    for number in 0..5 {
        backend.publish(SUBJECT, &[], number.to_string()).await;
    }
    setting.shows(&metric("lag"), 5.0).await;
    setting.shows(&metric("ack_pending"), 0.0).await;
    // Its age counts up while nobody takes it.
    setting.site.counted(&metric("oldest_seconds"), 0.0).await;
    setting.site.counted(&metric("oldest_seconds"), 1.0).await;

    let messages = pull(&durable, 3).await;
    setting.shows(&metric("lag"), 2.0).await;
    setting.shows(&metric("ack_pending"), 3.0).await;
    messages[0].ack().await.unwrap();
    messages[1].ack().await.unwrap();
    messages[2].ack_with(AckKind::Nak(None)).await.unwrap();
    setting.shows(&metric("handled_total"), 2.0).await;
    setting.shows(&metric("failed_total"), 0.0).await;

    // The second try succeeds, so one has failed; the fourth message is given up after two.
    let messages = pull(&durable, 2).await;
    for message in &messages {
        let payload = &*message.payload;
        match payload {
            b"2" => message.ack().await.unwrap(),
            _ => message.ack_with(AckKind::Nak(None)).await.unwrap(),
        }
    }
    setting.shows(&metric("handled_total"), 3.0).await;
    setting.shows(&metric("failed_total"), 1.0).await;
    setting.shows(&metric("redelivered_total"), 1.0).await;
    let messages = pull(&durable, 2).await;
    for message in &messages {
        match &*message.payload {
            b"3" => message.ack_with(AckKind::Nak(None)).await.unwrap(),
            _ => message.ack_with(AckKind::Term).await.unwrap(),
        }
    }
    // The server gives a message up when somebody asks for the next one.
    let next = durable.batch().max_messages(1).expires(SOON);
    let mut next = next.messages().await.unwrap();
    assert!(within("the end of a pull", next.next()).await.is_none());
    setting.shows(&metric("failed_total"), 4.0).await;
    setting.shows(&metric("redelivered_total"), 2.0).await;
    setting.shows(&metric("handled_total"), 3.0).await;
    setting.shows(&metric("handling_seconds_count"), 3.0).await;
    setting.shows(&metric("lag"), 0.0).await;

    let (_, row) = setting
        .row("a row that counts", |row| row["failed"] == 4)
        .await;
    assert_eq!((&row["handled"], &row["lag"]), (&3.into(), &0.into()));
    assert!(row["p99_seconds"].as_f64().unwrap() > 0.0, "{row}");
}

#[tokio::test]
async fn health_says_whether_somebody_works_and_keeps_up() {
    let limits = [
        ("JETWAY_ALARM_ALIVE_WITHIN_S", "1"),
        ("JETWAY_ALARM_LAG_MAX", "2"),
    ];
    let setting = Setting::start(&limits).await;
    let backend = setting.backend().await;
    let durable = consumer(&backend).await;
    let (status, row) = setting
        .row("nobody works", |row| row["alive"] == false)
        .await;
    assert_eq!((status, &row["ok"]), (503, &false.into()), "{row}");
    assert!(row["faults"][0].as_str().unwrap().contains("nobody"));

    // A service that waits for messages.
    let mut messages = durable.messages().await.unwrap();
    let waits = async {
        let next = messages.next().await;
        panic!("nothing was published, and this came: {next:?}")
    };
    let well = setting.row("somebody waits", |row| row["ok"] == true);
    let (_, row) = tokio::select! {
        () = waits => unreachable!(),
        well = well => well,
    };
    assert_eq!(row["faults"], serde_json::json!([]));
    drop(messages);

    for _ in 0..3 {
        backend.publish(SUBJECT, &[], "x").await;
    }
    let late = |row: &serde_json::Value| row["lag"] == 3;
    let (status, row) = setting.row("three wait", late).await;
    assert_eq!((status, &row["ok"]), (503, &false.into()), "{row}");
    assert!(
        row["faults"]
            .to_string()
            .contains("more than 2 messages wait")
    );
}

#[tokio::test]
async fn health_is_unknown_and_not_well_while_nats_is_away() {
    let mut setting = Setting::start(&[]).await;
    setting.row("a first look", |_| true).await;
    setting.shows("jetway_nats_connected", 1.0).await;
    setting.shows("jetway_ready", 1.0).await;
    setting.site.nats.kill9().await;
    setting.shows("jetway_nats_connected", 0.0).await;
    setting.shows("jetway_ready", 0.0).await;
    let (status, body) = setting.site.gateway.get("/health/mq").await;
    assert_eq!(status, 503, "{body}");
    // G38: readiness follows the ability to store, liveness does not.
    assert_eq!(setting.site.gateway.get("/readyz").await.0, 503);
    assert_eq!(setting.site.gateway.get("/livez").await.0, 200);
    setting.site.nats.restart().await;
    setting.shows("jetway_ready", 1.0).await;
}
