//! What operators see and do, by the store, the command line and HTTP; and a node whose database is away.

use std::time::Duration;

use jetway::outbox::store::{Action, Answer, Enqueue as _, Error, Filter, Policy, Store};
use serde_json::{Value, json};

use crate::rig::{Database, KINDS, event, events, impatient, pool, terms};
use crate::support::{
    Backend, Gateway, NatsServer, Postgres, RunOptions, eventually, http, jetway, jetway_fails,
};

fn filter(conditions: &[(&str, &str)]) -> Filter {
    let mut filter = Filter::default();
    for (key, value) in conditions {
        assert!(filter.set(key, value, 2_000_000_000_000).unwrap());
    }
    filter
}

async fn ids(store: &Store, conditions: &[(&str, &str)]) -> Vec<i64> {
    let rows = store.list(&filter(conditions), 0, 100).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

/// Three rows of device `bad` are dead, two of `good` published, and one of `new` pending.
async fn prepare(store: &Store) {
    let mut transaction = store.pool().begin().await.unwrap();
    transaction.enqueue(&events("bad", 0..3)).await.unwrap();
    transaction.enqueue(&events("good", 0..2)).await.unwrap();
    transaction.commit().await.unwrap();
    let policy = Policy {
        attempts_max: 1,
        ..impatient()
    };
    while let Some(claim) = store.claim(&terms(100)).await.unwrap() {
        let answer = |row: &jetway::outbox::Row| match &*row.event.aggregate_id {
            "p/bad" => Answer::Refused("larger than anybody takes".to_owned()),
            _ => Answer::Stored,
        };
        let answers: Vec<_> = claim.rows.iter().map(answer).collect();
        store.settle(&claim, &answers, &policy).await.unwrap();
    }
    let mut transaction = store.pool().begin().await.unwrap();
    transaction.enqueue(&[event("new", 0)]).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn rows_are_listed_and_shown() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        let store = &database.store;
        prepare(store).await;
        let all = ids(store, &[]).await;
        assert_eq!(all.len(), 6, "{kind:?}");
        let dead = ids(store, &[("status", "dead")]).await;
        assert_eq!(dead, all[..3], "{kind:?}");
        assert_eq!(
            ids(store, &[("aggregate", "p/good"), ("status", "published")]).await,
            all[3..5]
        );
        assert_eq!(
            ids(
                store,
                &[
                    ("event", "gps.report.created"),
                    ("since", "2020-01-01T00:00:00Z")
                ]
            )
            .await,
            all
        );
        assert_eq!(
            ids(store, &[("until", "2020-01-01T00:00:00Z")]).await,
            [0; 0]
        );
        let event_id = event("bad", 1).event_id.hyphenated().to_string();
        assert_eq!(
            ids(
                store,
                &[("event_id", &event_id), ("event", "gps.report.created")]
            )
            .await,
            [dead[1]]
        );
        assert_eq!(
            ids(
                store,
                &[("id", &all[0].to_string()), ("id", &all[5].to_string())]
            )
            .await,
            [all[0], all[5]]
        );
        let behind = store.list(&filter(&[]), all[1], 2).await.unwrap();
        assert_eq!(
            behind.iter().map(|row| row.id).collect::<Vec<_>>(),
            all[2..4],
            "{kind:?}"
        );

        let shown = store.show(dead[0]).await.unwrap().described();
        assert_eq!(shown["error"], "larger than anybody takes", "{kind:?}");
        assert_eq!(
            (&shown["status"], &shown["attempts"]),
            (&json!("dead"), &json!(1))
        );
        assert_eq!(
            shown["headers"],
            json!([["Content-Type", "application/json"]])
        );
        assert_eq!(shown["payload"], "{\"device\":\"bad\",\"number\":0}");
        assert!(matches!(
            store.show(999_999).await,
            Err(Error::Unknown(999_999))
        ));
    }
}

#[tokio::test]
async fn dead_rows_are_replayed_and_purged_and_pending_ones_are_not() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        let store = &database.store;
        prepare(store).await;
        let all = ids(store, &[]).await;
        let dead = ids(store, &[("status", "dead")]).await;
        // What is to be published is nobody's to replay or purge.
        for action in [Action::Replay, Action::Purge] {
            let pending = filter(&[("status", "pending")]);
            assert!(
                store.act(action, &pending, 100).await.unwrap().is_empty(),
                "{kind:?}"
            );
            assert!(
                store.meant(action, &pending, 100).await.unwrap().is_empty(),
                "{kind:?}"
            );
        }
        assert_eq!(
            store
                .replay(&filter(&[("id", &dead[0].to_string())]), 100)
                .await
                .unwrap()
                .len(),
            1
        );
        assert_eq!(
            ids(store, &[("status", "dead")]).await,
            dead[1..],
            "{kind:?}"
        );
        assert_eq!(
            store.purge(&filter(&[]), 1).await.unwrap().len(),
            1,
            "{kind:?}"
        );
        assert_eq!(
            store
                .meant(Action::Purge, &filter(&[]), 100)
                .await
                .unwrap()
                .len(),
            3
        );
        assert_eq!(
            store.purge(&filter(&[]), 100).await.unwrap().len(),
            3,
            "{kind:?}"
        );
        assert_eq!(ids(store, &[]).await, [all[0], all[5]], "{kind:?}");
        let claim = store.claim(&terms(100)).await.unwrap().unwrap();
        assert_eq!(claim.rows.len(), 2, "{kind:?}");
        // It has all its attempts again.
        let answers = vec![Answer::Refused("no".to_owned()); 2];
        assert_eq!(
            store
                .settle(&claim, &answers, &impatient())
                .await
                .unwrap()
                .refused,
            2,
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn published_rows_are_purged_after_their_time_and_no_others() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        prepare(&database.store).await;
        let purge = async |seconds| {
            database
                .store
                .purge_published(Duration::from_secs(seconds))
                .await
                .unwrap()
        };
        assert_eq!(purge(3_600).await, (0, false), "{kind:?}");
        // Two hours ago, 2,048 of them; nobody looks again for a while.
        database.run("UPDATE outbox_event SET published_at = published_at - 7200000 WHERE status = 'published'").await;
        assert_eq!(purge(3_600).await, (0, false), "{kind:?}");
        database
            .run("UPDATE outbox_shard SET lease_until = 0")
            .await;
        let others = "SELECT id FROM outbox_event WHERE status <> 'published' ORDER BY id";
        let before = database.numbers(others).await;
        database.double(10).await;
        let after = database.numbers(others).await;
        assert_eq!(purge(3_600).await, (1_000, true), "{kind:?}");
        assert_eq!(purge(3_600).await, (1_000, true), "{kind:?}");
        assert_eq!(purge(3_600).await, (48, false), "{kind:?}");
        assert_eq!(purge(3_600).await, (0, false), "{kind:?}");
        assert_eq!(database.numbers(others).await, after, "{kind:?}");
        assert_eq!(before.len(), 4, "{kind:?}");
    }
}

#[tokio::test]
async fn a_node_waits_for_its_database_and_its_operators_reach_the_rows() {
    let nats = NatsServer::start().await;
    let postgres = Postgres::start().await;
    let url = postgres.database("outbox").await;
    postgres.kill9().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url: url.clone(),
        environment: vec![("JETWAY_ROLES".to_owned(), "[\"outbox\"]".to_owned())],
        ..RunOptions::default()
    })
    .await;
    assert_eq!(gateway.get("/readyz").await.0, 200);
    assert_eq!(gateway.get("/outbox").await.0, 503);
    postgres.restart().await;
    let backend = Backend::connect(&nats.url()).await;
    eventually("the tables are there", async || {
        match gateway.get("/outbox").await {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let store = Store::new(pool(&url).await);
    let mut transaction = store.pool().begin().await.unwrap();
    transaction.enqueue(&events("d", 0..3)).await.unwrap();
    transaction.commit().await.unwrap();
    let messages = backend.wait_for("GPS", ">", 3).await;
    let first = &messages[0];
    let id = event("d", 0).event_id.hyphenated().to_string();
    for (name, value) in [
        ("Nats-Msg-Id", &*id),
        ("Jw-Event-Id", &id),
        ("Jw-Event", "gps.report.created"),
        ("Content-Type", "application/json"),
    ] {
        assert_eq!(first.header(name), value);
    }
    assert!(
        first
            .header("traceparent")
            .starts_with("00-0af7651916cd43dd8448eb211c80319c-")
    );
    eventually("its figures say so", async || {
        let published = gateway.metric("jetway_outbox_published_total").await;
        if published == 3.0 {
            Ok(())
        } else {
            Err(published.to_string())
        }
    })
    .await;
    assert_eq!(gateway.metric("jetway_outbox_dead").await, 0.0);

    let rows = by_command_line(&url);
    by_http(&gateway, &rows).await;
    let environment = [("JETWAY_DATABASE_URL", &*url)];
    assert_eq!(jetway(&["outbox", "ls"], &environment).lines().count(), 2);
}

/// Three published rows; gives them.
fn by_command_line(url: &str) -> Vec<Value> {
    let environment = [("JETWAY_DATABASE_URL", url)];
    let cli = |arguments: &[&str]| jetway(&[&["outbox"], arguments].concat(), &environment);
    let lines: Vec<Value> = cli(&["ls", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(cli(&["ls", "--status", "dead"]), "");
    let number = lines[0]["id"].to_string();
    assert!(cli(&["show", &number]).contains("{\"device\":\"d\",\"number\":0}"));
    assert!(cli(&["stats"]).starts_with("pending\t0\nsending\t0\ndead\t0\n"));
    let (_, error) = jetway_fails(&["outbox", "purge"], &environment);
    assert!(error.contains("expected a condition, or --all"), "{error}");
    let (_, error) = jetway_fails(&["outbox", "ls", "--status", "lost"], &environment);
    assert!(
        error.contains("--status: found \"lost\", expected pending"),
        "{error}"
    );
    assert_eq!(cli(&["purge", "--all", "--dry-run"]).lines().count(), 3);
    cli(&["replay", "--all"]);
    lines
}

/// The same rows; removes the first.
async fn by_http(gateway: &Gateway, rows: &[Value]) {
    let number = rows[0]["id"].to_string();
    let ask = async |method: &str, path: &str| {
        let (status, body) = http::request(gateway.ready.http, method, path).await;
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let (_, page) = ask("GET", "/outbox?status=published&limit=2").await;
    assert_eq!(
        (&page["rows"][1]["id"], &page["next"]),
        (&rows[1]["id"], &rows[1]["id"])
    );
    let (_, one) = ask("GET", &format!("/outbox/{number}")).await;
    assert_eq!(one["payload"], "{\"device\":\"d\",\"number\":0}");
    let (_, stats) = ask("GET", "/outbox/stats").await;
    assert_eq!(
        stats,
        json!({"pending": 0, "sending": 0, "dead": 0, "oldest_pending_ms": null})
    );
    for (method, path, status, said) in [
        ("GET", "/outbox/999", 404, "no row 999"),
        (
            "GET",
            "/outbox?colour=red",
            400,
            "colour: unknown, expected one of id",
        ),
        (
            "DELETE",
            "/outbox",
            400,
            "expected a condition, or all=true",
        ),
        (
            "POST",
            "/outbox/replay",
            400,
            "expected a condition, or all=true",
        ),
    ] {
        let (found, body) = ask(method, path).await;
        assert_eq!(found, status, "{method} {path}");
        let text = body["error"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
    }
    let (_, would) = ask("DELETE", "/outbox?all=true&dry_run=true").await;
    assert_eq!(would["purged"].as_array().unwrap().len(), 3);
    let (_, purged) = ask("DELETE", &format!("/outbox?id={number}")).await;
    assert_eq!(
        purged,
        json!({"purged": [rows[0]["id"]], "more": false, "dry_run": false})
    );
}
