//! Streams and durables compared with their declarations, and durables that somebody deletes.

use serde_json::{Value, json};

use crate::site::Site;
use crate::support::eventually;

fn changes(lines: &[Value]) -> Vec<(&str, &str)> {
    let text = |line: &'_ Value, key: &str| line[key].as_str().map(str::to_owned);
    let changed = lines
        .iter()
        .filter(|line| text(line, "action").is_some_and(|action| action != "keep"));
    changed
        .map(|line| {
            (
                line["action"].as_str().unwrap(),
                line["name"].as_str().unwrap(),
            )
        })
        .collect()
}

impl Site {
    async fn eventually_metric(&self, name: &str, value: f64) {
        eventually(name, async || {
            let found = self.gateway.metric(name).await;
            match found == value {
                true => Ok(()),
                false => Err(found.to_string()),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn what_differs_is_reported_and_applied_when_asked_for() {
    let site = Site::start().await;
    assert_eq!(changes(&site.jetway(&["streams", "plan", "--json"])), []);
    let risks = site.jetway(&["streams", "plan", "--json"]);
    let risk =
        json!({"retention_risk": {"stream": "ORDERS", "durable": "billing", "limit": "max_bytes"}});
    assert!(risks.contains(&risk), "{risks:?}");
    assert!(site.gateway.log().contains("retention risk"));
    let risk = "jetway_retention_risk{stream=\"ORDERS\",durable=\"billing\",limit=\"max_bytes\"}";
    assert_eq!(site.gateway.metric(risk).await, 1.0);

    let mut stream = site.api("STREAM.INFO.ORDERS", "").await["config"].take();
    stream["max_age"] = json!(3_600_000_000_000_u64);
    let updated = site.api("STREAM.UPDATE.ORDERS", &stream.to_string()).await;
    assert!(updated["error"].is_null(), "{updated}");
    let mut billing = site.api("CONSUMER.INFO.ORDERS.billing", "").await["config"].take();
    billing["max_ack_pending"] = json!(7);
    let body = json!({"stream_name": "ORDERS", "action": "update", "config": billing});
    let updated = site
        .api("CONSUMER.CREATE.ORDERS.billing", &body.to_string())
        .await;
    assert_eq!(updated["config"]["max_ack_pending"], 7, "{updated}");

    let drift = |kind: &str, name: &str| {
        format!("jetway_provision_drift{{kind=\"{kind}\",name=\"{name}\"}}")
    };
    site.eventually_metric(&drift("stream", "ORDERS"), 1.0)
        .await;
    site.eventually_metric(&drift("durable", "ORDERS/billing"), 1.0)
        .await;
    assert!(site.gateway.log().contains("differs from its declaration"));
    let printed = site.jetway_fails(&["streams", "plan"]);
    assert_eq!(printed, "", "it fails, and is no error");
    let applied = site.jetway(&["streams", "apply", "--json"]);
    assert_eq!(
        changes(&applied),
        [("update", "ORDERS"), ("update", "ORDERS/billing")]
    );
    assert_eq!(changes(&site.jetway(&["streams", "plan", "--json"])), []);
    site.eventually_metric(&drift("durable", "ORDERS/billing"), 0.0)
        .await;
    let info = site.api("CONSUMER.INFO.ORDERS.billing", "").await;
    assert_eq!(info["config"]["max_ack_pending"], 1000);
}

#[tokio::test]
async fn g25_a_durable_that_is_deleted_goes_on_where_it_was() {
    let site = Site::start().await;
    let _other = site.further_gateway().await;
    let mut billing = site.service("billing", "ack").await;
    for number in 0..5 {
        site.order("orders.P.D", &format!("ack {number}")).await;
    }
    billing.told_until("ack 4").await;
    // The gateway has seen how far the durable is.
    eventually("the floor is kept", async || {
        let kept = site
            .backend
            .messages("KV_jetway_durables", "$KV.jetway_durables.ORDERS.billing")
            .await;
        let last = kept
            .last()
            .map(|last| last.text().to_owned())
            .unwrap_or_default();
        match last.contains("\"floor\":5") {
            true => Ok(()),
            false => Err(last),
        }
    })
    .await;
    drop(billing);
    site.order("orders.P.D", "waiting 1").await;
    site.order("orders.P.D", "waiting 2").await;
    let deleted = site.api("CONSUMER.DELETE.ORDERS.billing", "").await;
    assert_eq!(deleted["success"], true, "{deleted}");
    // By one of the gateways, or by both.
    eventually("it is there again", async || {
        let info = site.api("CONSUMER.INFO.ORDERS.billing", "").await;
        match info["config"]["opt_start_seq"] == 6 {
            true => Ok(()),
            false => Err(info.to_string()),
        }
    })
    .await;
    let mut billing = site.service("billing", "ack").await;
    let told = billing.told_until("waiting 2").await;
    let texts: Vec<&str> = told
        .iter()
        .map(|told| told["payload"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        ["waiting 1", "waiting 2"],
        "nothing is repeated, nothing is lost"
    );
    assert_eq!(changes(&site.jetway(&["streams", "plan", "--json"])), []);
}

#[tokio::test]
async fn g25_a_durable_that_is_deleted_is_seen_at_once() {
    let site = Site::start_looking_every("3600000").await;
    for name in ["ORDERS.billing", "APPLICATION.alarm"] {
        let deleted = site.api(&format!("CONSUMER.DELETE.{name}"), "").await;
        assert_eq!(deleted["success"], true, "{deleted}");
    }
    site.eventually_metric("jetway_durables_recreated_total", 2.0)
        .await;
    assert_eq!(changes(&site.jetway(&["streams", "plan", "--json"])), []);
}

#[tokio::test]
async fn g25_a_stream_that_is_replaced_is_read_from_its_beginning() {
    let site = Site::start().await;
    let mut billing = site.service("billing", "ack").await;
    for number in 0..5 {
        site.order("orders.P.D", &format!("ack {number}")).await;
    }
    billing.told_until("ack 4").await;
    drop(billing);
    site.backend
        .jetstream
        .delete_stream("ORDERS")
        .await
        .unwrap();
    let missing = "jetway_provision_missing{kind=\"stream\",name=\"ORDERS\"}";
    site.eventually_metric(missing, 1.0).await;
    site.jetway(&["streams", "apply", "--json"]);
    site.order("orders.P.D", "new").await;
    let mut billing = site.service("billing", "ack").await;
    assert_eq!(billing.told().await["payload"], "new");
    site.eventually_metric(missing, 0.0).await;
}
