//! Dead letters on the operator's HTTP port.

use serde_json::{Value, json};

use crate::site::Site;
use crate::support::http;

impl Site {
    async fn http(&self, method: &str, path: &str) -> (u16, Value) {
        let (status, body) = http::request(self.gateway.ready.http, method, path).await;
        let json = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        (status, json)
    }
}

#[tokio::test]
async fn dead_letters_are_listed_shown_replayed_and_dropped_over_http() {
    let site = Site::start().await;
    let mut billing = site.service("billing", "").await;
    let _shipping = site.service("shipping", "ack").await;
    for does in ["term 1", "term 2", "term 3"] {
        site.order("orders.P.D", does).await;
    }
    site.dead_letters(3).await;
    billing.told_until("term 3").await;
    let ids = site.ids(&[]);

    let (status, page) = site.http("GET", "/dlq?durable=billing&limit=2").await;
    assert_eq!((status, &page["next"]), (200, &json!(ids[1])));
    let (_, rest) = site
        .http("GET", &format!("/dlq?durable=billing&after={}", ids[1]))
        .await;
    assert_eq!(rest["dead_letters"][0]["id"], ids[2]);
    assert_eq!(rest["next"], Value::Null);
    let (status, one) = site.http("GET", &format!("/dlq/{}", ids[0])).await;
    assert_eq!((status, &one["payload"]), (200, &json!("term 1")));

    for (method, path, status, said) in [
        ("GET", "/dlq/999", 404, "no dead letter 999"),
        (
            "GET",
            "/dlq?colour=red",
            400,
            "colour: unknown, expected one of id",
        ),
        ("GET", "/dlq?since=soon", 400, "since: found \"soon\""),
        (
            "POST",
            "/dlq/replay",
            400,
            "expected a condition, or all=true",
        ),
        ("DELETE", "/dlq", 400, "expected a condition, or all=true"),
        ("DELETE", "/dlq/999", 404, "no dead letter 999"),
    ] {
        let (found, body) = site.http(method, path).await;
        assert_eq!(found, status, "{method} {path}");
        let text = body["error"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
    }

    let replay = format!("/dlq/replay?id={}&dry_run=", ids[0]);
    let (_, would) = site.http("POST", &format!("{replay}true")).await;
    assert_eq!(
        would,
        json!({"replayed": [ids[0]], "failed": [], "next": null, "dry_run": true})
    );
    assert_eq!(site.ids(&[]), ids);
    let (_, done) = site.http("POST", &format!("{replay}false")).await;
    assert_eq!(done["replayed"], json!([ids[0]]));
    assert_eq!(billing.told().await["headers"]["Jw-Replay"], "1");
    let (status, dropped) = site.http("DELETE", &format!("/dlq/{}", ids[1])).await;
    assert_eq!((status, &dropped["dropped"]), (200, &json!([ids[1]])));
    site.dead_letters(2).await;
    let (_, dropped) = site.http("DELETE", "/dlq?stream=ORDERS").await;
    assert_eq!(dropped["dropped"].as_array().unwrap().len(), 2);
    site.dead_letters(0).await;
}
