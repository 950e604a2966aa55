//! The depth of the stream of dead letters, whoever fills and empties it.

use crate::setting::Setting;

fn metric(origin: &str, reason: &str) -> String {
    format!("jetway_dlq_messages{{origin=\"{origin}\",reason=\"{reason}\"}}")
}

#[tokio::test]
async fn dead_letters_are_counted_by_origin_and_reason_until_they_are_gone() {
    let setting = Setting::start(&[]).await;
    let backend = setting.backend().await;
    let mut first = 0;
    for (subject, reason, count) in [
        ("dlq.durable.APPLICATION.watched.a", "max_deliveries", 3),
        ("dlq.durable.APPLICATION.watched.b", "terminated", 1),
        ("dlq.downlink.P.D", "expired", 2),
    ] {
        for number in 0..count {
            let subject = format!("{subject}.{number}");
            let sequence = backend
                .publish(&subject, &[("Jw-Reason", reason)], "x")
                .await;
            first = if first == 0 { sequence } else { first };
        }
    }
    setting
        .shows(&metric("durable", "max_deliveries"), 3.0)
        .await;
    setting.shows(&metric("durable", "terminated"), 1.0).await;
    setting.shows(&metric("downlink", "expired"), 2.0).await;

    // One from between, and then all.
    let stream = backend.stream("DLQ").await;
    stream.delete_message(first + 1).await.unwrap();
    setting
        .shows(&metric("durable", "max_deliveries"), 2.0)
        .await;
    stream.purge().await.unwrap();
    setting
        .shows(&metric("durable", "max_deliveries"), 0.0)
        .await;
    setting.shows(&metric("downlink", "expired"), 0.0).await;
    backend
        .publish("dlq.downlink.P.D", &[("Jw-Reason", "expired")], "x")
        .await;
    setting.shows(&metric("downlink", "expired"), 1.0).await;
}

#[tokio::test]
async fn what_anybody_writes_into_the_stream_makes_no_series_of_its_own() {
    // G38.
    let setting = Setting::start(&[]).await;
    let backend = setting.backend().await;
    for number in 0..150 {
        let tail: String = format!("{number:03}")
            .bytes()
            .map(|digit| char::from(digit + 49))
            .collect();
        let reasons = [
            format!("r{tail}"),
            format!("R-{number}\"}} 1"),
            String::new(),
        ];
        for (index, reason) in reasons.iter().enumerate() {
            let subject = format!("dlq.o{number}.{index}");
            backend
                .publish(&subject, &[("Jw-Reason", reason)], "x")
                .await;
        }
    }
    setting.shows(&metric("other", "other"), 387.0).await;
    let (_, body) = setting.site.gateway.get("/metrics").await;
    let series = body
        .lines()
        .filter(|line| line.starts_with("jetway_dlq_messages{"));
    assert_eq!(series.count(), 64, "{body}");
}

#[tokio::test]
async fn a_flood_of_dead_letters_is_counted_whole_and_read_in_part() {
    const READ_MAX: u32 = 10_000;
    const OLDER: u32 = 30;
    let setting = Setting::start(&[]).await;
    let backend = setting.backend().await;
    for first in (0..READ_MAX + OLDER).step_by(1_003) {
        let some = (first..first + 1_003).map(|number| {
            let subject = format!("dlq.downlink.P.{number}");
            let backend = &backend;
            async move {
                backend
                    .publish(&subject, &[("Jw-Reason", "expired")], "")
                    .await
            }
        });
        futures_util::future::join_all(some).await;
    }
    setting
        .shows(&metric("downlink", "expired"), READ_MAX.into())
        .await;
    setting.shows(&metric("other", "other"), OLDER.into()).await;
}
