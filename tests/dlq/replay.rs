//! Dead letters listed, replayed and dropped from the command line.

use serde_json::json;

use crate::site::Site;
use crate::support::eventually;

#[tokio::test]
async fn a_replay_reaches_the_durable_that_failed_and_no_other() {
    let site = Site::start().await;
    let mut billing = site.service("billing", "").await;
    let mut shipping = site.service("shipping", "ack").await;
    site.order("orders.P.D.a", "term 1").await;
    site.order("orders.P.E.b", "term 2").await;
    site.dead_letters(2).await;
    let ids = site.ids(&[]);

    let would = site.jetway(&[
        "dlq",
        "replay",
        "--durable",
        "billing",
        "--dry-run",
        "--json",
    ]);
    assert_eq!(would.len(), 2);
    assert_eq!(site.ids(&[]), ids, "a dry run changes nothing");

    // The service is as bad as before: one falls out again.
    billing.told_until("term 2").await;
    let replayed = site.jetway(&["dlq", "replay", "--id", &ids[0].to_string(), "--json"]);
    assert_eq!(replayed[0]["id"], ids[0]);
    let told = billing.told().await;
    assert_eq!(told["subject"], "replay.billing.orders.P.D.a");
    let headers = &told["headers"];
    assert_eq!(headers["Jw-Subject"], "orders.P.D.a");
    assert_eq!(headers["Jw-Replay"], "1");
    assert_eq!(
        [&headers["X-Own"], &headers["Jw-Ts"]],
        [&json!("kept"), &json!("1")]
    );
    assert!(headers.get("Jw-Reason").is_none(), "{headers}");
    eventually("it is a dead letter again", async || {
        let again = site.jetway(&["dlq", "ls", "--subject", "orders.P.D.a", "--json"]);
        match again.len() == 1 && again[0]["replays"] == 1 {
            true => Ok(()),
            false => Err(format!("{again:?}")),
        }
    })
    .await;

    // A better service takes them all.
    drop(billing);
    let mut better = site.service("billing", "ack").await;
    site.jetway(&["dlq", "replay", "--all", "--json"]);
    let told = [better.told().await, better.told().await];
    let replays: Vec<&str> = told
        .iter()
        .map(|told| told["headers"]["Jw-Replay"].as_str().unwrap())
        .collect();
    assert_eq!(
        replays,
        ["1", "2"],
        "oldest first: that of b was never replayed"
    );
    site.dead_letters(0).await;
    site.order("orders.P.D.end", "end").await;
    let seen = shipping.told_until("end").await;
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[tokio::test]
async fn conditions_select_dead_letters() {
    let site = Site::start().await;
    let _billing = site.service("billing", "").await;
    let _shipping = site.service("shipping", "ack").await;
    site.order("orders.P.D.a", "term").await;
    site.order("orders.P.E.b", "nak_at_once").await;
    site.dead_letters(2).await;
    let said = [
        ("Jw-Reason", "expired"),
        ("Jw-Subject", "device.down.mqtt.thing.P.D"),
        ("Jw-Ts", "5"),
    ];
    let down = site
        .backend
        .publish("dlq.downlink.P.D", &said, "down")
        .await;
    let events = site
        .backend
        .publish("dlq.events.P.D", &[("Jw-Reason", "range")], "{")
        .await;
    let of = |reason: &str| site.ids(&["--reason", reason])[0];
    let (term, nak) = (of("terminated"), of("max_deliveries"));
    for (conditions, expected) in [
        (&["--stream", "ORDERS"][..], &[term, nak][..]),
        (&["--durable", "shipping"], &[]),
        (&["--origin", "downlink"], &[down]),
        (&["--device", "P/D"], &[term, down]),
        (&["--subject", "orders.*.*.b"], &[nak]),
        (
            &["--since", "1h", "--stream", "ORDERS", "--device", "P/D"],
            &[term],
        ),
        (&["--until", "1970-01-02T00:00:00Z"], &[down]),
        (
            &["--id", &nak.to_string(), "--id", &down.to_string()],
            &[nak, down],
        ),
    ] {
        let mut found = site.ids(conditions);
        found.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{conditions:?}");
    }
    assert_eq!(site.ids(&["--limit", "2"]).len(), 2);
    assert_eq!(site.ids(&["--after", &down.to_string()]), [events]);

    let shown = site.jetway(&["dlq", "show", &nak.to_string(), "--json"]);
    assert_eq!(shown[0]["payload"], "nak_at_once");
    assert_eq!(shown[0]["dead_letter"]["attempts"], 3);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let site = Site::start().await;
    let wrong = site.jetway_fails(&["dlq", "ls", "--since", "soon"]);
    assert!(
        wrong.contains("--since: found \"soon\", expected RFC 3339"),
        "{wrong}"
    );
    for command in ["drop", "replay"] {
        let all = site.jetway_fails(&["dlq", command]);
        assert!(all.contains("expected a condition, or --all"), "{all}");
    }
}

#[tokio::test]
async fn what_the_gateway_gave_up_is_replayed_where_someone_takes_it() {
    let site = Site::start().await;
    let said = [
        ("Jw-Reason", "expired"),
        ("Jw-Subject", "device.down.mqtt.thing.P.D"),
    ];
    site.backend
        .publish("dlq.downlink.P.D", &said, "down")
        .await;
    let events = site
        .backend
        .publish("dlq.events.P.D", &[("Jw-Reason", "range")], "{")
        .await;
    // What the gateway gave up: a downlink goes to its device again, an event has nobody who takes it.
    let refused = site.jetway_fails(&["dlq", "replay", "--origin", "events"]);
    assert!(
        refused.contains("dead letters of events cannot be replayed"),
        "{refused}"
    );
    site.jetway(&["dlq", "replay", "--origin", "downlink", "--json"]);
    let waiting = site
        .backend
        .messages("DEVICE_DOWN", "device.down.mqtt.thing.P.D")
        .await;
    assert_eq!(waiting[0].text(), "down");

    for dry_run in [&["--dry-run"][..], &[]] {
        assert_eq!(site.ids(&[]), [events]);
        let drop = ["dlq", "drop", "--origin", "events", "--json"];
        site.jetway(&[&drop[..], dry_run].concat());
    }
    assert!(site.ids(&[]).is_empty());
}
