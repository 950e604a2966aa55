//! Several nodes: one tells for all, another goes on where it ended, and a lost one is told.

use crate::receiver::{Answer, Receiver, alarms};
use crate::setting::Setting;
use crate::support::{Backend, eventually};

const DEAD: (&str, &str, &str) = ("firing", "JetwayDeadLetters", "terminated");

/// Waits until whoever tells next knows that it was told, which is after the receiver was.
async fn is_kept(backend: &Backend) {
    let key = "$KV.jetway_nodes.alarm.told.webhook";
    eventually("what was told is kept", async || {
        let kept = backend.last("KV_jetway_nodes", key).await;
        let kept = String::from_utf8_lossy(&kept.unwrap_or_default()).into_owned();
        kept.contains(DEAD.1).then_some(()).ok_or(kept)
    })
    .await;
}

#[tokio::test]
async fn one_node_tells_for_all_and_the_next_goes_on_where_it_ended() {
    let receiver = Receiver::start(Answer::Ok).await;
    let mut setting = Setting::start(&[("JETWAY_ALARM_WEBHOOK_URL", &receiver.url())]).await;
    let backend = setting.backend().await;
    let other = setting.site.further_gateway().await;
    let looked = "jetway_stream_stored_total{stream=\"KV_jetway_nodes\"}";
    eventually("the other node has looked", async || {
        match other.metric(looked).await {
            0.0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let dead_letter = || backend.publish("dlq.downlink.P.D", &[("Jw-Reason", "terminated")], "x");
    dead_letter().await;
    receiver
        .is_told("of it", |body| alarms(body) == [DEAD])
        .await;
    is_kept(&backend).await;
    eventually("both nodes see it", async || {
        match other.metric("jetway_alarms").await {
            1.0 => Ok(()),
            count => Err(format!("{count}")),
        }
    })
    .await;

    // The first one had the lease, since it was alone. It ends as in a crash, and the alarm ends before another one tells.
    setting.site.gateway.kill9().await;
    backend.stream("DLQ").await.purge().await.unwrap();
    let lost = ("firing", "JetwayNodeLost", "node_lost");
    receiver
        .is_told("of the lost node", |body| alarms(body).contains(&lost))
        .await;
    let over = ("over", DEAD.1, DEAD.2);
    receiver
        .is_told("the end", |body| alarms(body).contains(&over))
        .await;
    let told = receiver.told();
    let firing = told.iter().filter(|(_, body)| alarms(body).contains(&DEAD));
    assert_eq!(firing.count(), 1, "it was told twice: {told:#?}");
    assert_eq!(other.metric("jetway_nodes_lost_total").await, 1.0);
}

#[tokio::test]
async fn a_gateway_that_starts_again_tells_nothing_twice_and_ends_nothing_that_lasts() {
    let receiver = Receiver::start(Answer::Ok).await;
    let mut setting = Setting::start(&[
        ("JETWAY_ALARM_WEBHOOK_URL", &receiver.url()),
        ("JETWAY_ALARM_GROUP_WAIT_MS", "0"),
    ])
    .await;
    let backend = setting.backend().await;
    let headers = [("Jw-Reason", "terminated")];
    backend.publish("dlq.downlink.P.D", &headers, "x").await;
    receiver
        .is_told("of it", |body| alarms(body) == [DEAD])
        .await;
    is_kept(&backend).await;
    setting.site.gateway.terminate();
    assert!(setting.site.gateway.wait().await.success());
    setting.site.restart_gateway().await;
    // A further one is news, and by then everything that is not would have been told.
    setting.shows("jetway_alarms", 1.0).await;
    backend.publish("dlq.downlink.P.E", &headers, "x").await;
    let count = |body: &serde_json::Value| body["alarms"][0]["count"] == 2;
    receiver.is_told("of the next one", count).await;
    let told = receiver.told();
    assert_eq!(told.len(), 2, "{told:#?}");
    backend.stream("DLQ").await.purge().await.unwrap();
    let over = ("over", DEAD.1, DEAD.2);
    receiver
        .is_told("the end", |body| alarms(body) == [over])
        .await;
}

#[tokio::test]
async fn a_node_that_stops_in_good_order_is_not_lost() {
    let mut setting = Setting::start(&[]).await;
    let other = setting.site.further_gateway().await;
    setting.site.gateway.terminate();
    assert!(setting.site.gateway.wait().await.success());
    // A node that is lost behind it is seen to be; so it would have been seen too.
    let mut third = setting.site.further_gateway().await;
    third.kill9().await;
    let lost = eventually("the third node is lost", async || {
        match other.metric("jetway_nodes_lost_total").await {
            0.0 => Err("none is lost".to_owned()),
            count => Ok(count),
        }
    });
    assert_eq!(lost.await, 1.0);
}

#[tokio::test]
async fn a_node_tells_that_nats_is_away_and_ends_no_alarm_that_it_cannot_see() {
    let receiver = Receiver::start(Answer::Ok).await;
    let mut setting = Setting::start(&[("JETWAY_ALARM_WEBHOOK_URL", &receiver.url())]).await;
    let backend = setting.backend().await;
    backend
        .publish("dlq.downlink.P.D", &[("Jw-Reason", "terminated")], "x")
        .await;
    receiver
        .is_told("of the dead letter", |body| alarms(body) == [DEAD])
        .await;
    setting.site.nats.kill9().await;
    let away = ("firing", "JetwayNatsAway", "nats_away");
    receiver
        .is_told("that NATS is away", |body| alarms(body) == [away])
        .await;
    setting.site.nats.restart().await;
    let back = ("over", away.1, away.2);
    receiver
        .is_told("that NATS is back", |body| alarms(body).contains(&back))
        .await;
    backend
        .publish("dlq.downlink.P.E", &[("Jw-Reason", "terminated")], "x")
        .await;
    let count = |body: &serde_json::Value| body["alarms"][0]["count"] == 2;
    receiver.is_told("of the next dead letter", count).await;
    let over = ("over", DEAD.1, DEAD.2);
    let told = receiver.told();
    let ended = told.iter().any(|(_, body)| alarms(body).contains(&over));
    assert!(!ended, "{told:#?}");
}
