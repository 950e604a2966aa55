//! Alarms that arrive: at each kind of receiver, together, not too often, not twice, and their end.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::receiver::{Answer, Receiver, alarms};
use crate::setting::{SUBJECT, Setting, consumer};
use crate::support::pki::{Key, Pki};
use crate::support::{Backend, lasting, within};

const TRACE: &str = "0123456789abcdef0123456789abcdef";

/// A dead letter with all that can be said of one.
async fn dead_letter(backend: &Backend, reason: &str, number: u32) {
    let traceparent = format!("00-{TRACE}-0123456789abcdef-01");
    let headers = [
        ("Jw-Reason", reason),
        ("Jw-Attempts", "4"),
        ("Jw-Durable", "watched"),
        ("Jw-Event", "device.property.reported"),
        ("traceparent", &traceparent),
    ];
    let subject = format!("dlq.durable.APPLICATION.watched.{number}");
    backend.publish(&subject, &headers, "x").await;
}

async fn no_dead_letters(backend: &Backend) {
    backend.stream("DLQ").await.purge().await.unwrap();
}

const FIRING: [(&str, &str, &str); 2] = [
    ("firing", "JetwayDeadLetters", "max_deliveries"),
    ("firing", "JetwayDeadLetters", "terminated"),
];
const OVER: [(&str, &str, &str); 2] = [
    ("over", "JetwayDeadLetters", "max_deliveries"),
    ("over", "JetwayDeadLetters", "terminated"),
];

#[tokio::test]
async fn every_kind_of_receiver_is_told_once_what_is_wrong_and_once_that_it_is_over() {
    let receivers = [
        Receiver::start(Answer::Ok).await,
        Receiver::start(Answer::Ok).await,
        Receiver::start(Answer::Ok).await,
    ];
    let setting = Setting::start(&[
        ("JETWAY_ALARM_WEBHOOK_URL", &receivers[0].url()),
        ("JETWAY_ALARM_FEISHU_URL", &receivers[1].url()),
        ("JETWAY_ALARM_FEISHU_SECRET", "demo"),
        ("JETWAY_ALARM_WECOM_URL", &receivers[2].url()),
        ("JETWAY_ALARM_GROUP_WAIT_MS", "3000"),
    ])
    .await;
    let backend = setting.backend().await;
    // Both within the time in which news join.
    dead_letter(&backend, "max_deliveries", 1).await;
    dead_letter(&backend, "terminated", 2).await;
    let told = receivers[0]
        .is_told("of both", |body| alarms(body) == FIRING)
        .await;
    assert_eq!(
        (&told["environment"], &told["region"]),
        (&"test bench".into(), &"here".into())
    );
    let alarm = &told["alarms"][0];
    for (key, expected) in [
        ("task", Value::from("durable")),
        ("event", "device.property.reported".into()),
        ("retries", 4.into()),
        ("trace_id", TRACE.into()),
    ] {
        assert_eq!(alarm[key], expected, "{key} in {alarm}");
    }
    let feishu = receivers[1]
        .is_told("of both", |body| is_text(&body["content"]["text"]))
        .await;
    assert_eq!(feishu["msg_type"], "text");
    assert!(feishu["sign"].is_string(), "{feishu}");
    let wecom = receivers[2]
        .is_told("of both", |body| is_text(&body["markdown"]["content"]))
        .await;
    assert_eq!(wecom["msgtype"], "markdown");

    no_dead_letters(&backend).await;
    receivers[0]
        .is_told("the end", |body| alarms(body) == OVER)
        .await;
    for receiver in &receivers {
        receiver
            .is_told("the end", |body| {
                body.to_string().to_lowercase().contains("over")
            })
            .await;
    }
    // A further one of a kind that was told is news.
    dead_letter(&backend, "terminated", 3).await;
    receivers[0]
        .is_told("of the next", |body| alarms(body) == FIRING[1..])
        .await;
    assert_eq!(receivers[0].told().len(), 3, "{:#?}", receivers[0].told());
    let log = setting.site.gateway.log();
    assert!(
        !log.contains("key=secret"),
        "a receiver's key is in the log"
    );
}

fn is_text(text: &Value) -> bool {
    let text = text.as_str().unwrap();
    let parts = [
        "2 firing, 0 over",
        "test bench",
        "device.property.reported",
        "max_deliveries",
        TRACE,
    ];
    parts.iter().all(|part| text.contains(part))
}

#[tokio::test]
async fn what_a_service_gives_up_or_leaves_waiting_is_told_with_its_name() {
    let receiver = Receiver::start(Answer::Ok).await;
    let setting = Setting::start(&[
        ("JETWAY_ALARM_WEBHOOK_URL", &receiver.url()),
        ("JETWAY_ALARM_LAG_MAX", "2"),
        ("JETWAY_ALARM_LAG_FOR_S", "1"),
        ("JETWAY_ALARM_WINDOW_S", "2"),
    ])
    .await;
    let backend = setting.backend().await;
    let durable = consumer(&backend).await;
    let traceparent = format!("00-{TRACE}-0123456789abcdef-01");
    let headers = [
        ("Jw-Event", "device.event.posted"),
        ("traceparent", &traceparent),
    ];
    for _ in 0..3 {
        backend.publish(SUBJECT, &headers, "x").await;
    }
    let lag = |status| (status, "JetwayDurableLag", "lag");
    let told = receiver
        .is_told("of the lag", |body| alarms(body) == [lag("firing")])
        .await;
    let alarm = &told["alarms"][0];
    assert_eq!(alarm["task"], "APPLICATION/watched", "{alarm}");

    let mut messages = durable.batch().max_messages(3).messages().await.unwrap();
    while let Some(message) = within("messages", messages.next()).await {
        message.unwrap().ack_with(AckKind::Term).await.unwrap();
    }
    let failures = ("firing", "JetwayDurableFailures", "failures");
    let dead = FIRING[1];
    for (what, alarm) in [("failures", failures), ("dead letters", dead)] {
        receiver
            .is_told(what, |body| alarms(body).contains(&alarm))
            .await;
    }
    receiver
        .is_told("the end of the lag", |body| {
            alarms(body).contains(&lag("over"))
        })
        .await;
    let told = receiver
        .is_told("of all three", |body| {
            body.to_string().contains("3 dead letters")
        })
        .await;
    let all = told["alarms"].as_array().unwrap();
    let alarm = all.iter().find(|alarm| alarm["rule"] == dead.1).unwrap();
    for (key, expected) in [
        ("task", Value::from("durable")),
        ("event", "device.event.posted".into()),
        ("retries", 1.into()),
        ("trace_id", TRACE.into()),
        ("detail", "3 dead letters, the last one of watched".into()),
    ] {
        assert_eq!(alarm[key], expected, "{key} in {alarm}");
    }
    let over = ("over", failures.1, failures.2);
    receiver
        .is_told("the end of the failures", |body| {
            alarms(body).contains(&over)
        })
        .await;
}

#[tokio::test]
async fn a_receiver_that_is_away_holds_nobody_up_and_hears_the_newest_state_later() {
    let (silent, refusing) = (
        Receiver::start(Answer::Nothing).await,
        Receiver::start(Answer::Refused).await,
    );
    let well = Receiver::start(Answer::Ok).await;
    let setting = Setting::start(&[
        ("JETWAY_ALARM_TIMEOUT_MS", "2000"),
        ("JETWAY_ALARM_FEISHU_URL", &silent.url()),
        ("JETWAY_ALARM_WECOM_URL", &refusing.url()),
        ("JETWAY_ALARM_WEBHOOK_URL", &well.url()),
    ])
    .await;
    let backend = setting.backend().await;
    // The gateway knows it only when it has the answer, and tells no end of what it did not tell.
    let sent = "jetway_notifications_total{receiver=\"webhook\",outcome=\"sent\"}";
    dead_letter(&backend, "max_deliveries", 1).await;
    well.is_told("of it", |body| alarms(body) == FIRING[..1])
        .await;
    setting.site.counted(sent, 0.0).await;
    refusing.is_told("of it", |_| true).await;
    silent.is_told("of it", |_| true).await;
    // While they are away one ends and another begins.
    no_dead_letters(&backend).await;
    well.is_told("the end", |body| alarms(body) == OVER[..1])
        .await;
    setting.site.counted(sent, 1.0).await;
    dead_letter(&backend, "terminated", 2).await;
    well.is_told("of the next", |body| alarms(body) == FIRING[1..])
        .await;
    for (label, metric) in [("wecom", "refused"), ("feishu", "unanswered")] {
        let metric =
            format!("jetway_notifications_total{{receiver=\"{label}\",outcome=\"{metric}\"}}");
        setting.site.counted(&metric, 0.0).await;
    }
    silent.answers(Answer::Ok);
    refusing.answers(Answer::Ok);
    for receiver in [&silent, &refusing] {
        let newest = |body: &Value| {
            let text = body.to_string();
            text.contains("1 firing, 0 over") && text.contains("terminated")
        };
        let told = receiver.is_told("the newest state", newest).await;
        assert!(!told.to_string().contains("max_deliveries"), "{told}");
    }
}

#[tokio::test]
async fn a_receiver_is_not_told_more_often_than_it_may_be() {
    let receiver = Receiver::start(Answer::Ok).await;
    let setting = Setting::start(&[
        ("JETWAY_ALARM_WEBHOOK_URL", &receiver.url()),
        ("JETWAY_ALARM_GROUP_WAIT_MS", "0"),
        ("JETWAY_ALARM_NOTIFICATIONS_PER_MINUTE_MAX", "30"),
    ])
    .await;
    let backend = setting.backend().await;
    for number in 0..30 {
        dead_letter(&backend, "terminated", number).await;
        lasting(Duration::from_millis(200)).await;
    }
    let last = |body: &Value| body["alarms"][0]["count"] == 30;
    receiver.is_told("of the last one", last).await;
    let times: Vec<_> = receiver.told().into_iter().map(|(at, _)| at).collect();
    assert!(times.len() >= 3, "it was told of changes: {}", times.len());
    for pair in times.windows(2) {
        let between = pair[1].duration_since(pair[0]);
        assert!(between >= Duration::from_millis(1_900), "{between:?}");
    }
}

#[tokio::test]
async fn a_receiver_with_tls_is_told_only_if_its_certificate_is_one_of_a_known_authority() {
    let pki = Pki::new();
    let (known, unknown) = (pki.authority("known"), pki.authority("unknown"));
    let trusted = Receiver::start_tls(&pki.leaf("trusted", Key::Ecdsa, &known, 10)).await;
    let stranger = Receiver::start_tls(&pki.leaf("stranger", Key::Ecdsa, &unknown, 10)).await;
    let roots = known.certificate.display().to_string();
    let setting = Setting::start(&[
        ("SSL_CERT_FILE", &roots),
        ("JETWAY_ALARM_WEBHOOK_URL", &trusted.url()),
        ("JETWAY_ALARM_WECOM_URL", &stranger.url()),
    ])
    .await;
    let backend = setting.backend().await;
    dead_letter(&backend, "terminated", 1).await;
    trusted
        .is_told("of it", |body| alarms(body) == FIRING[1..])
        .await;
    let unanswered = "jetway_notifications_total{receiver=\"wecom\",outcome=\"unanswered\"}";
    setting.site.counted(unanswered, 0.0).await;
    assert!(stranger.told().is_empty());
}
