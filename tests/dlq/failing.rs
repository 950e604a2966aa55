//! Services that fail on purpose, each in its way.

use crate::site::{Site, TRACE};
use crate::support::eventually;

#[tokio::test]
async fn what_a_service_gives_up_is_one_dead_letter_and_holds_up_nothing() {
    let site = Site::start().await;
    let mut billing = site.service("billing", "").await;
    let mut shipping = site.service("shipping", "ack").await;
    let mut sequences = Vec::new();
    for does in ["raise", "nak", "nak_at_once", "term"] {
        sequences.push(site.order(&format!("orders.P.D.{does}"), does).await);
    }
    site.order("orders.P.D.last", "ack").await;
    // All that failed before are still on their ladder, and this one is there.
    let before = billing.told_until("ack").await;
    assert!(
        before
            .iter()
            .all(|told| told["delivered"].as_u64() < Some(4))
    );
    let others = shipping.told_until("ack").await;
    assert_eq!(others.len(), 5, "another durable gets each once");

    let letters = site.dead_letters(4).await;
    for letter in &letters {
        let at = sequences
            .iter()
            .position(|own| own.to_string() == letter.header("Jw-Sequence"));
        let does = letter.text();
        assert_eq!(["raise", "nak", "nak_at_once", "term"][at.unwrap()], does);
        let (reason, attempts) = match does {
            "term" => ("terminated", "1"),
            _ => ("max_deliveries", "3"),
        };
        for (name, value) in [
            ("Jw-Reason", reason),
            ("Jw-Attempts", attempts),
            ("Jw-Stream", "ORDERS"),
            ("Jw-Durable", "billing"),
            ("Jw-Subject", &format!("orders.P.D.{does}")),
            ("X-Own", "kept"),
            ("Jw-Original-Jw-Ts", "1"),
            ("traceparent", TRACE),
        ] {
            assert_eq!(letter.header(name), value, "{does}: {name}");
        }
        let (first, last) = (letter.header("Jw-First-Ts"), letter.header("Jw-Ts"));
        let time = |text: &str| text.parse::<u64>().unwrap();
        // Two waits of a second between three deliveries, one behind them.
        let waited = if does == "raise" { 2_900 } else { 0 };
        assert!(
            time(last) - time(first) >= waited,
            "{does}: {first} to {last}"
        );
    }
    // Acknowledged where they came from: the durable has nothing more to do, and remembers nothing of them.
    eventually("the durable is done", async || {
        let info = site.api("CONSUMER.INFO.ORDERS.billing", "").await;
        let left =
            ["num_pending", "num_ack_pending", "num_redelivered"].map(|key| info[key].as_u64());
        match left == [Some(0); 3] {
            true => Ok(()),
            false => Err(info.to_string()),
        }
    })
    .await;
    let reason = |reason: &str| {
        format!("jetway_durable_dead_letters_total{{durable=\"billing\",reason=\"{reason}\"}}")
    };
    assert_eq!(site.gateway.metric(&reason("max_deliveries")).await, 3.0);
    assert_eq!(site.gateway.metric(&reason("terminated")).await, 1.0);
}

#[tokio::test]
async fn what_is_handled_in_the_end_is_no_dead_letter() {
    let site = Site::start().await;
    let billing = site.service("billing", "").await;
    let mut shipping = site.service("shipping", "nak").await;
    for _ in 0..5 {
        site.order("orders.P.D", "ack").await;
    }
    // The other durable fails twice, and then a better version of the service takes over.
    for _ in 0..5 {
        shipping.told().await;
    }
    drop(shipping);
    let _better = site.service("shipping", "ack").await;
    eventually("both durables are done", async || {
        for durable in ["billing", "shipping"] {
            let info = site
                .api(&format!("CONSUMER.INFO.ORDERS.{durable}"), "")
                .await;
            if info["ack_floor"]["stream_seq"] != 5 {
                return Err(info.to_string());
            }
        }
        Ok(())
    })
    .await;
    drop(billing);
    assert_eq!(site.backend.count("DLQ").await, 0);
    assert_eq!(site.backend.count("JETWAY_ADVISORIES").await, 0);
}

#[tokio::test]
async fn a_message_too_large_for_a_dead_letter_is_told_without_its_bytes() {
    let site = Site::start().await;
    let _billing = site.service("billing", "term").await;
    let largest = 1024 * 1024 - 200;
    let sequence = site.order("orders.P.D", &"x".repeat(largest)).await;
    let letters = site.dead_letters(1).await;
    assert_eq!(letters[0].header("Jw-Omitted"), "too_large");
    assert_eq!(letters[0].header("Jw-Sequence"), sequence.to_string());
    assert_eq!(letters[0].header("traceparent"), TRACE);
    let refused = site.jetway_fails(&["dlq", "replay", "--all"]);
    assert!(
        refused.contains("the original message is not in it"),
        "{refused}"
    );
    assert_eq!(site.backend.count("DLQ").await, 1);
}
