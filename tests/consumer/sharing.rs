//! Replicas share a durable: every event is handled once, one device's in order; a repeated one is known by its id.

use std::collections::HashMap;

use jetway::consumer::{Config, Order, Outcome};
use serde_json::json;

use crate::rig::{Call, DURABLE, NEVER, ONE_WRITER, Recorder, Rig, STREAM, Writers, event, open};
use crate::support::eventually;

#[tokio::test]
async fn two_replicas_share_and_handle_each_event_once() {
    const EVENTS: u64 = 200;
    let rig = Rig::start(NEVER).await;
    let recorders = [Recorder::new("a"), Recorder::new("b")];
    let config = Config {
        inflight_max: 8,
        ..Config::new(STREAM, DURABLE)
    };
    let a = rig.replica_with(&recorders[0], config.clone()).await;
    let b = rig.replica_with(&recorders[1], config).await;
    rig.until("both pull", |info| info.num_waiting == 2).await;
    for number in 0..EVENTS {
        rig.publish("d", number).await;
    }
    let mut rows = rig.until_rows(200).await;
    rows.sort_unstable();
    let expected: Vec<_> = (0..EVENTS).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    let info = rig.until_done().await;
    assert_eq!(info.delivered.consumer_sequence, EVENTS);
    for recorder in &recorders {
        assert!(!recorder.calls().is_empty());
    }
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn one_replica_keeps_the_order_of_each_device() {
    let rig = Rig::start(NEVER).await;
    let devices = ["d1", "d2", "d3"];
    for number in 0..30 {
        for device in devices {
            rig.publish(device, number).await;
        }
    }
    let recorder = Recorder::new("only");
    let config = Config {
        order: Order::Tokens(4),
        ..Config::new(STREAM, DURABLE)
    };
    // Which of several writers goes on is chance.
    let writers = Writers {
        connections: 8,
        ..ONE_WRITER
    };
    let pool = open(&rig.database(), writers).await;
    let replica = rig.replica_on(pool, &recorder, config).await;
    rig.until_rows(90).await;
    let mut numbers: HashMap<String, Vec<u64>> = HashMap::new();
    for Call { device, number, .. } in recorder.calls() {
        numbers.entry(device).or_default().push(number);
    }
    let ascending: Vec<u64> = (0..30).collect();
    for device in devices {
        assert_eq!(numbers[device], ascending, "{device}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn an_event_that_is_published_twice_is_handled_once() {
    let rig = Rig::start(NEVER).await;
    let recorder = Recorder::new("only");
    let replica = rig.replica(&recorder).await;
    for device in ["d1", "d1", "d2"] {
        let payload = event("same", "1.0", json!({"number": 1}));
        rig.publish_as(device, &payload).await;
    }
    rig.publish("d1", 2).await;
    rig.until_done().await;
    assert_eq!(rig.rows().await.len(), 2);
    eventually("both repetitions are counted", async || {
        match replica.metrics.count(Outcome::Duplicate) {
            2 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    assert_eq!(recorder.calls().len(), 2);
    replica.stop().await;
}
