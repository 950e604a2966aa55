//! Gateways and nats-servers that die in between: each message that falls out is one dead letter.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::site::Site;
use crate::support::{eventually, lasting};

const ORDERS: u64 = 30;

impl Site {
    /// Every second order is terminated, the others are never acknowledged.
    async fn failing_orders(&self) -> BTreeSet<u64> {
        let mut sequences = BTreeSet::new();
        for number in 0..ORDERS {
            let does = if number % 2 == 0 { "term" } else { "raise" };
            sequences.insert(self.order("orders.P.D", does).await);
        }
        sequences
    }

    /// Lets a stream refuse what is new once it has so many messages.
    async fn limit(&self, stream: &str, messages: u64) {
        let info = self.api(&format!("STREAM.INFO.{stream}"), "").await;
        let mut config = info["config"].clone();
        config["discard"] = "new".into();
        config["max_msgs"] = messages.into();
        let update = format!("STREAM.UPDATE.{stream}");
        let updated = self.api(&update, &config.to_string()).await;
        assert!(updated["error"].is_null(), "{updated}");
    }

    async fn each_is_one(&self, sequences: &BTreeSet<u64>) {
        let letters = self.dead_letters(sequences.len()).await;
        let of = |letter: &crate::support::Stored| letter.header("Jw-Sequence").parse::<u64>();
        let found: BTreeSet<u64> = letters.iter().map(|letter| of(letter).unwrap()).collect();
        assert_eq!(found, *sequences);
    }
}

#[tokio::test]
async fn what_falls_out_while_no_gateway_runs_is_kept_by_the_next_one() {
    let mut site = Site::start().await;
    site.gateway.kill9().await;
    let _billing = site.service("billing", "").await;
    let sequences = site.failing_orders().await;
    eventually("all fell out", async || {
        match site.backend.count("JETWAY_ADVISORIES").await {
            ORDERS => Ok(()),
            other => Err(format!("{other} advisories")),
        }
    })
    .await;
    site.restart_gateway().await;
    site.each_is_one(&sequences).await;
}

#[tokio::test]
async fn a_gateway_that_dies_while_it_collects_loses_and_repeats_nothing() {
    let mut site = Site::start().await;
    let _billing = site.service("billing", "").await;
    let sequences = site.failing_orders().await;
    site.backend.wait_for("DLQ", "dlq.>", 5).await;
    site.gateway.kill9().await;
    site.restart_gateway().await;
    site.each_is_one(&sequences).await;
}

#[tokio::test]
async fn gateways_collect_together_and_go_on_without_each_other() {
    let mut site = Site::start().await;
    let other = site.further_gateway().await;
    let _billing = site.service("billing", "").await;
    let mut sequences = site.failing_orders().await;
    site.each_is_one(&sequences).await;
    site.gateway.kill9().await;
    sequences.extend(site.failing_orders().await);
    site.each_is_one(&sequences).await;
    drop(other);
}

#[tokio::test]
async fn an_advisory_that_comes_twice_makes_no_second_dead_letter() {
    let site = Site::start().await;
    let _billing = site.service("billing", "term").await;
    let sequence = site.order("orders.P.D", "x").await;
    let sequences = BTreeSet::from([sequence]);
    site.each_is_one(&sequences).await;
    let advisory = format!(
        r#"{{"type":"io.nats.jetstream.advisory.v1.terminated","id":"x","timestamp":"2026-01-01T00:00:00Z","stream":"ORDERS","consumer":"billing","consumer_seq":1,"stream_seq":{sequence},"deliveries":1}}"#
    );
    let subject = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.billing";
    for _ in 0..3 {
        site.backend.publish(subject, &[], advisory.clone()).await;
    }
    site.each_is_one(&sequences).await;
    // What no gateway understands, or belongs to others, does not stay in the way.
    site.backend.publish(subject, &[], "{").await;
    let others = advisory.replace("\"billing\"", "\"theirs\"");
    site.backend.publish(subject, &[], others).await;
    site.each_is_one(&sequences).await;
    // Nor does one that was dropped come back.
    site.jetway(&["dlq", "drop", "--all", "--json"]);
    site.backend.publish(subject, &[], advisory).await;
    site.dead_letters(0).await;
    let kept = "jetway_durable_dead_letters_total{durable=\"billing\",reason=\"terminated\"}";
    assert_eq!(site.gateway.metric(kept).await, 1.0);
}

#[tokio::test]
async fn g25_a_nats_server_that_restarts_loses_and_repeats_no_dead_letter() {
    let mut site = Site::start().await;
    let _billing = site.service("billing", "").await;
    let sequences = site.failing_orders().await;
    site.backend.wait_for("DLQ", "dlq.>", 5).await;
    site.nats.stop().await;
    site.nats.restart().await;
    site.each_is_one(&sequences).await;
    let again = site.failing_orders().await;
    site.nats.kill9().await;
    site.nats.restart().await;
    let all: BTreeSet<u64> = sequences.union(&again).copied().collect();
    site.each_is_one(&all).await;
}

#[tokio::test]
async fn g25_a_nats_server_that_dies_again_and_again_loses_no_message_that_fell_out() {
    let mut site = Site::start().await;
    let _billing = site.service("billing", "").await;
    let mut sequences = BTreeSet::new();
    // Before, between and at the ends of the ladder's steps of a second.
    for after_ms in [30, 990, 1_500, 2_990, 3_010, 3_200] {
        sequences.extend(site.failing_orders().await);
        lasting(Duration::from_millis(after_ms)).await;
        site.nats.kill9().await;
        site.nats.restart().await;
    }
    site.each_is_one(&sequences).await;
}

#[tokio::test]
async fn g26_dead_letters_wait_for_a_stream_that_takes_them() {
    let site = Site::start().await;
    let _billing = site.service("billing", "term").await;
    site.backend.jetstream.delete_stream("DLQ").await.unwrap();
    let (status, body) = site.gateway.get("/readyz").await;
    assert_eq!((status, &*body), (503, "stream DLQ is missing\n"));
    let sequence = site.order("orders.P.D", "x").await;
    eventually("it is tried", async || {
        let failures = site
            .gateway
            .metric("jetway_durable_dead_letter_failures_total")
            .await;
        match failures > 0.0 {
            true => Ok(()),
            false => Err(failures.to_string()),
        }
    })
    .await;
    site.jetway(&["streams", "apply", "--json"]);
    site.each_is_one(&BTreeSet::from([sequence])).await;
}

#[tokio::test]
async fn g26_a_full_stream_holds_up_dead_letters_and_loses_none() {
    let site = Site::start().await;
    let _billing = site.service("billing", "term").await;
    site.backend.publish("dlq.other", &[], "x").await;
    site.limit("DLQ", 1).await;
    let sequence = site.order("orders.P.D", "x").await;
    let failures = "jetway_durable_dead_letter_failures_total";
    eventually("it is tried", async || {
        match site.gateway.metric(failures).await > 0.0 {
            true => Ok(()),
            false => Err("no failure".to_owned()),
        }
    })
    .await;
    // The limit is drift, and goes with it.
    site.jetway(&["streams", "apply", "--json"]);
    site.each_is_one(&BTreeSet::from([sequence])).await;
}

#[tokio::test]
async fn g26_a_replay_that_is_refused_leaves_its_dead_letter() {
    let site = Site::start().await;
    let _shipping = site.service("shipping", "ack").await;
    let billing = site.service("billing", "term").await;
    site.order("orders.P.D", "x").await;
    site.dead_letters(1).await;
    drop(billing);
    site.limit("ORDERS", 1).await;
    let refused = site.jetway_fails(&["dlq", "replay", "--all"]);
    assert!(refused.contains("maximum messages exceeded"), "{refused}");
    assert!(refused.contains("0 replayed, 1 failed"), "{refused}");
    site.dead_letters(1).await;
    site.jetway(&["streams", "apply", "--json"]);
    site.jetway(&["dlq", "replay", "--all", "--json"]);
    let mut billing = site.service("billing", "ack").await;
    assert_eq!(billing.told().await["headers"]["Jw-Replay"], "1");
    site.dead_letters(0).await;
}
