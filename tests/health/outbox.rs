//! The alarms of the outbox: rows that wait too long, and dead ones, told by the gateway and over when they are gone.

use jetway::database::{Config, Pool};
use jetway::outbox::store::{Enqueue as _, Event};
use serde_json::Value;

use crate::receiver::{Answer, Receiver, alarms};
use crate::setting::Setting;

fn has(body: &Value, expected: (&str, &str, &str)) -> bool {
    alarms(body).contains(&expected)
}

#[tokio::test]
async fn rows_that_wait_and_rows_that_are_dead_are_told_and_their_end() {
    let receiver = Receiver::start(Answer::Ok).await;
    let setting = Setting::start(&[
        ("JETWAY_ALARM_WEBHOOK_URL", &receiver.url()),
        // Nobody empties it, but it is looked at.
        ("JETWAY_OUTBOX_RELAY_ENABLED", "false"),
    ])
    .await;
    let config = Config {
        url: setting.site.database_url(),
        ..Config::default()
    };
    let pool = Pool::open(&config).await.unwrap();
    let Pool::Sqlite(sqlite) = &pool else {
        panic!("{}", config.url)
    };
    // Made by the gateway as soon as it has its role.
    crate::support::eventually("the outbox has its table", async || {
        let count = sqlx::query("SELECT id FROM outbox_event").fetch_all(sqlite);
        count.await.map_err(|error| error.to_string())
    })
    .await;
    let mut on = pool.begin().await.unwrap();
    let event = |number: u8| Event {
        event_id: uuid::Uuid::from_bytes([number; 16]),
        event_type: "gps.report.created".into(),
        event_version: "1.0".into(),
        aggregate_type: "device".into(),
        aggregate_id: format!("P/{number}").into(),
        subject: "gps.report.created.P.D".into(),
        payload: "{}".into(),
        headers: Default::default(),
        trace_id: "".into(),
    };
    on.enqueue(&[event(1), event(2)]).await.unwrap();
    on.commit().await.unwrap();
    let change = async |sql: &'static str| {
        let changed = sqlx::query(sql).execute(sqlite).await.unwrap();
        assert_eq!(changed.rows_affected(), 1);
    };
    change("UPDATE outbox_event SET created_at = created_at - 301000 WHERE aggregate_id = 'P/1'")
        .await;
    let pending = ("firing", "JetwayOutboxPending", "outbox_pending");
    receiver
        .is_told("of rows that wait", |body| has(body, pending))
        .await;
    change("UPDATE outbox_event SET status = 'dead' WHERE aggregate_id = 'P/2'").await;
    let dead = ("firing", "JetwayOutboxDead", "outbox_dead");
    receiver
        .is_told("of dead rows", |body| has(body, dead))
        .await;
    change("DELETE FROM outbox_event WHERE aggregate_id = 'P/1'").await;
    change("DELETE FROM outbox_event WHERE aggregate_id = 'P/2'").await;
    for rule in [
        ("over", "JetwayOutboxPending", "outbox_pending"),
        ("over", "JetwayOutboxDead", "outbox_dead"),
    ] {
        receiver
            .is_told("that it is over", |body| has(body, rule))
            .await;
    }
}
