//! The contract of consumers: the same service with JetStream, in its own process and with Redis Streams.

use std::time::Duration;

use jetway::consumer::{Config, Failure, Outcome};
use serde_json::json;

use crate::place::{Kind, Place, Recorder, event};
use crate::support::eventually;

/// Nothing comes again by itself within a test.
const NEVER: &[u64] = &[600_000];

async fn contract(kind: Kind) {
    tokio::join!(
        handles_each_once_and_in_order(kind),
        climbs_the_ladder(kind),
        gives_up_after_the_ladder(kind),
        gives_up_poison(kind),
        shares_among_replicas(kind),
        takes_over_from_a_crashed_replica(kind),
        keeps_what_runs_for_long(kind),
        bears_an_outage(kind),
        gives_back_at_the_stop(kind),
    );
}

async fn handles_each_once_and_in_order(kind: Kind) {
    let place = Place::start(kind, NEVER).await;
    // What the durable does not select is nobody's.
    place
        .publish_as("application.device.other.d", "no event".to_owned())
        .await;
    for number in 1..=20 {
        place.publish("d", number).await;
    }
    let recorder = Recorder::new();
    let replica = place.replica(&recorder).await;
    place.until_rows(20).await;
    place.publish("d", 7).await;
    place.publish("d", 21).await;
    let rows = place.until_rows(21).await;
    let expected: Vec<_> = (1..=21).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    eventually("the repeated one is known", async || {
        match replica.metrics.count(Outcome::Duplicate) {
            1 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    // A dead letter that is sent again has its own subject.
    let replayed = event("r", json!({"number": 1}));
    place
        .publish_as("replay.app-events.application.device.p.r", replayed)
        .await;
    place.until_rows(22).await;
    assert_eq!(recorder.calls()[21].subject, "application.device.p.r");
    replica.stop().await;
}

async fn climbs_the_ladder(kind: Kind) {
    let place = Place::start(kind, &[1_000, 600_000]).await;
    let recorder = Recorder::ending(|call| match call.attempt {
        1 if call.number == 1 => Err(Failure::Retry("not now".to_owned())),
        _ => Ok(()),
    });
    let replica = place.replica(&recorder).await;
    place.publish("d", 1).await;
    place.publish("d", 2).await;
    let rows = place.until_rows(2).await;
    assert_eq!(rows, [("d".to_owned(), 2), ("d".to_owned(), 1)]);
    let calls = recorder.calls();
    let order: Vec<_> = calls
        .iter()
        .map(|call| (call.number, call.attempt))
        .collect();
    assert_eq!(order, [(1, 1), (2, 1), (1, 2)]);
    let waited = calls[2].at - calls[0].at;
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    replica.stop().await;
}

async fn gives_up_after_the_ladder(kind: Kind) {
    // No handling takes a step: the broker would give the message again meanwhile.
    const LADDER: [u64; 3] = [1_000, 1_200, 1_400];
    let place = Place::start(kind, &LADDER).await;
    let recorder = Recorder::ending(|call| match &*call.device {
        "bad" => Err(Failure::Retry("never".to_owned())),
        _ => Ok(()),
    });
    let replica = place.replica(&recorder).await;
    place.publish("bad", 1).await;
    place.publish("good", 1).await;
    assert_eq!(place.until_dead(1).await, ["max_deliver"]);
    let bad: Vec<_> = recorder
        .calls()
        .into_iter()
        .filter(|call| call.device == "bad")
        .collect();
    let attempts: Vec<_> = bad.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    for (pair, step) in bad.windows(2).zip(LADDER) {
        let waited = pair[1].at - pair[0].at;
        assert!(waited >= Duration::from_millis(step) * 9 / 10, "{waited:?}");
    }
    assert_eq!(place.rows().await, [("good".to_owned(), 1)]);
    replica.stop().await;
}

async fn gives_up_poison(kind: Kind) {
    let place = Place::start(kind, NEVER).await;
    let recorder = Recorder::ending(|_| Err(Failure::Poison("a\nbad thing".to_owned())));
    let replica = place.replica(&recorder).await;
    place
        .publish_as("application.device.p.d", "\u{0}\u{1}{".to_owned())
        .await;
    let reasons = place.until_dead(1).await;
    assert!(reasons[0].starts_with("no event: "), "{reasons:?}");
    place.publish("d", 1).await;
    assert_eq!(place.until_dead(2).await[1], "a bad thing");
    assert_eq!(place.rows().await, []);
    replica.stop().await;
}

async fn shares_among_replicas(kind: Kind) {
    const EVENTS: u64 = 200;
    let place = Place::start(kind, NEVER).await;
    let recorders = [Recorder::new(), Recorder::new()];
    let config = Config {
        inflight_max: 8,
        ..Config::new("APPLICATION", "app-events")
    };
    let a = place.replica_with(&recorders[0], config.clone()).await;
    let b = place.replica_with(&recorders[1], config).await;
    for number in 0..EVENTS {
        place.publish("d", number).await;
    }
    let mut rows = place.until_rows(200).await;
    rows.sort_unstable();
    let expected: Vec<_> = (0..EVENTS).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    let calls = recorders.map(|recorder| recorder.calls().len());
    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
    assert_eq!(calls.iter().sum::<usize>(), 200);
    a.stop().await;
    b.stop().await;
}

async fn takes_over_from_a_crashed_replica(kind: Kind) {
    let place = Place::start(kind, &[1_000, 1_000, 1_000]).await;
    let crashing = Recorder::gated();
    let first = place.replica(&crashing).await;
    for number in 1..=5 {
        place.publish(&format!("d{number}"), number).await;
    }
    crashing.until_calls(1).await;
    first.crash().await;
    // What its handler commits now is never acknowledged.
    crashing.gate.add_permits(1);
    place.until_rows(1).await;
    crashing.gate.close();
    let recorder = Recorder::new();
    let second = place.replica(&recorder).await;
    let mut numbers: Vec<_> = place
        .until_rows(5)
        .await
        .into_iter()
        .map(|row| row.1)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    eventually("the second knew the first's", async || {
        match second.metrics.count(Outcome::Duplicate) {
            1 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    assert_eq!(place.rows().await.len(), 5);
    second.stop().await;
}

async fn keeps_what_runs_for_long(kind: Kind) {
    let place = Place::start(kind, &[2_000]).await;
    let recorder = Recorder::gated();
    let replica = place.replica(&recorder).await;
    let other = Recorder::new();
    let second = place.replica(&other).await;
    place.publish("d", 1).await;
    eventually("one of them has it", async || {
        match recorder.calls().len() + other.calls().len() {
            1 => Ok(()),
            calls => Err(calls.to_string()),
        }
    })
    .await;
    if other.calls().is_empty() {
        crate::support::lasting(Duration::from_secs(5)).await;
        recorder.gate.add_permits(1);
    }
    place.until_rows(1).await;
    assert_eq!(recorder.calls().len() + other.calls().len(), 1);
    replica.stop().await;
    second.stop().await;
}

async fn bears_an_outage(kind: Kind) {
    let mut place = Place::start(kind, &[1_000; 10]).await;
    let recorder = Recorder::gated();
    let replica = place.replica(&recorder).await;
    for number in 0..10 {
        place.publish(&format!("d{number}"), number).await;
    }
    recorder.gate.add_permits(3);
    place.until_rows(3).await;
    let gate = std::sync::Arc::clone(&recorder.gate);
    place.outage(async move { gate.add_permits(2) }).await;
    recorder.gate.add_permits(100);
    for number in 10..20 {
        place.publish(&format!("d{number}"), number).await;
    }
    let mut numbers: Vec<_> = place
        .until_rows(20)
        .await
        .into_iter()
        .map(|row| row.1)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..20));
    assert_eq!(replica.metrics.count(Outcome::Dead), 0);
    replica.stop().await;
    assert_eq!(place.rows().await.len(), 20);
}

async fn gives_back_at_the_stop(kind: Kind) {
    let place = Place::start(kind, NEVER).await;
    let recorder = Recorder::gated();
    let config = Config {
        drain_max: Duration::ZERO,
        ..Config::new("APPLICATION", "app-events")
    };
    let first = place.replica_with(&recorder, config).await;
    place.publish("d", 1).await;
    recorder.until_calls(1).await;
    first.stop().await;
    let second = place.replica(&Recorder::new()).await;
    place.until_rows(1).await;
    second.stop().await;
}

#[tokio::test]
async fn with_jetstream() {
    Box::pin(contract(Kind::Jetstream)).await;
}

#[tokio::test]
async fn in_memory() {
    Box::pin(contract(Kind::Memory)).await;
}

#[tokio::test]
async fn with_redis() {
    Box::pin(contract(Kind::Redis)).await;
}

#[tokio::test]
async fn a_redis_that_forgot_everything_is_set_up_again() {
    let place = Place::start(Kind::Redis, NEVER).await;
    let recorder = Recorder::new();
    let replica = place.replica(&recorder).await;
    place.publish("d", 1).await;
    place.until_rows(1).await;
    place.forget().await;
    place.publish("d", 2).await;
    let rows = place.until_rows(2).await;
    assert_eq!(rows[1], ("d".to_owned(), 2));
    replica.stop().await;
}
