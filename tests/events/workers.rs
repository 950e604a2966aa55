//! Workers that come and go: who makes the events of a shard, and that nothing is made twice.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::Config;

use crate::site::Site;
use crate::support::{Gateway, eventually, lasting};

/// Its lease is over, found to be, and the shard taken: a few seconds.
const FAILOVER_MAX: Duration = Duration::from_secs(8);

async fn shards(worker: &Gateway) -> f64 {
    worker.metric("jetway_events_shards").await
}

/// Two workers: the one that has the shard, and the other. One that stands still for a while has lost it.
async fn active_and_idle(a: Gateway, b: Gateway) -> (Gateway, Gateway) {
    let is_a = eventually("one of them has the shard", async || {
        match (shards(&a).await, shards(&b).await) {
            (1.0, 0.0) => Ok(true),
            (0.0, 1.0) => Ok(false),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    match is_a {
        true => (a, b),
        false => (b, a),
    }
}

#[tokio::test]
async fn one_of_two_workers_has_the_shard_and_the_other_takes_it_over() {
    let site = Site::start().await;
    let first = site.worker().await;
    eventually("the first has the shard", async || {
        match shards(&first).await {
            1.0 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let second = site.worker().await;
    for number in 0..20 {
        site.report("d", number).await;
    }
    site.wait_for_events(20).await;
    let (mut active, mut idle) = active_and_idle(first, second).await;
    active.kill9().await;
    let killed = Instant::now();
    site.report("d", 20).await;
    let events = site.wait_for_events(21).await;
    assert!(killed.elapsed() < FAILOVER_MAX, "{:?}", killed.elapsed());
    let numbers: Vec<_> = events.iter().map(|event| event.number()).collect();
    assert_eq!(numbers, (0..=20).collect::<Vec<_>>());
    // In good order it is a matter of the next look.
    let third = site.worker().await;
    idle.terminate();
    assert!(idle.wait().await.success());
    site.report("d", 21).await;
    site.wait_for_events(22).await;
    assert_eq!(shards(&third).await, 1.0);
}

#[tokio::test]
async fn a_worker_that_was_stopped_meanwhile_makes_nothing_twice() {
    let site = Site::start().await;
    let first = site.worker().await;
    let second = site.worker().await;
    site.report("d", 0).await;
    site.wait_for_events(1).await;
    let (active, idle) = active_and_idle(first, second).await;
    active.pause().await;
    for number in 1..200 {
        site.report("d", number).await;
    }
    site.wait_for_events(200).await;
    assert_eq!(shards(&idle).await, 1.0);
    active.resume();
    for number in 200..400 {
        site.report("d", number).await;
    }
    site.wait_until_passed().await;
    eventually("one gives way", async || {
        match shards(&active).await + shards(&idle).await {
            1.0 => Ok(()),
            both => Err(both.to_string()),
        }
    })
    .await;
    let numbers: Vec<_> = site
        .events()
        .await
        .iter()
        .map(|event| event.number())
        .collect();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_read_again_gives_the_same_ids_and_no_second_dead_letter() {
    let site = Site::start().await;
    let worker = site.worker().await;
    for number in 0..50 {
        site.report("d", number).await;
        site.uplink("d", "property", "{").await;
    }
    site.wait_until_passed().await;
    drop(worker);
    let before = site.events().await;
    site.forget_cursor().await;
    let worker = site.worker().await;
    let after = site.wait_for_events(100).await;
    site.wait_until_passed().await;
    drop(worker);
    assert_eq!(before.len(), 50);
    assert_eq!(after.len(), 100);
    assert_eq!(before[..], after[50..]);
    let ids: HashSet<_> = after.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), 50);
    assert_eq!(site.dead_letters().await.len(), 50);
}

#[tokio::test]
async fn only_the_last_cursor_is_kept() {
    let site = Site::start().await;
    let _worker = site.worker().await;
    for number in 0..20 {
        let sequence = site.report("d", number).await;
        site.wait_for_cursor(sequence).await;
    }
    assert_eq!(
        site.backend
            .messages("APPLICATION", "application.cursor.>")
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn an_uplink_stream_that_was_made_anew_is_read_from_its_beginning() {
    let site = Site::start().await;
    let worker = site.worker().await;
    for number in 0..10 {
        site.report("d", number).await;
    }
    site.uplink("d", "property", "{").await;
    site.wait_until_passed().await;
    let config = site
        .backend
        .stream("DEVICE_UP")
        .await
        .cached_info()
        .config
        .clone();
    let anew = async |config: Config| {
        site.backend
            .jetstream
            .delete_stream("DEVICE_UP")
            .await
            .unwrap();
        site.backend.jetstream.create_stream(config).await.unwrap();
    };
    // Under a running worker, and while there is none.
    anew(config.clone()).await;
    site.uplink("d", "property", "{").await;
    for number in 10..13 {
        site.report("d", number).await;
    }
    site.wait_for_events(13).await;
    drop(worker);
    anew(config).await;
    site.report("d", 13).await;
    let _worker = site.worker().await;
    let events = site.wait_for_events(14).await;
    let numbers: Vec<_> = events.iter().map(|event| event.number()).collect();
    assert_eq!(numbers, (0..14).collect::<Vec<_>>());
    assert_eq!(site.dead_letters().await.len(), 2);
}

#[tokio::test]
async fn what_was_purged_is_passed() {
    let site = Site::start().await;
    let worker = site.worker().await;
    site.report("d", 0).await;
    site.wait_for_events(1).await;
    drop(worker);
    for number in 1..10 {
        site.report("d", number).await;
    }
    site.backend
        .stream("DEVICE_UP")
        .await
        .purge()
        .await
        .unwrap();
    site.report("d", 10).await;
    let _worker = site.worker().await;
    let numbers: Vec<_> = site
        .wait_for_events(2)
        .await
        .iter()
        .map(|event| event.number())
        .collect();
    assert_eq!(numbers, [0, 10]);
}

#[tokio::test]
async fn g25_events_go_on_after_nats_was_away() {
    let mut site = Site::start().await;
    let _worker = site.worker().await;
    for round in 0..3 {
        for number in round * 100..round * 100 + 100 {
            site.report("d", number).await;
        }
        site.nats().kill9().await;
        lasting(Duration::from_millis(300)).await;
        site.nats().restart().await;
        eventually("the test is connected again", async || {
            let state = site.backend.client.connection_state();
            match state == async_nats::connection::State::Connected {
                true => Ok(()),
                false => Err(state.to_string()),
            }
        })
        .await;
    }
    site.report("d", 300).await;
    let events = site.wait_for_events(301).await;
    let numbers: Vec<_> = events.iter().map(|event| event.number()).collect();
    assert_eq!(numbers, (0..=300).collect::<Vec<_>>());
}

#[tokio::test]
async fn shards_share_the_devices_and_keep_their_number() {
    let site = Site::start().await;
    let four = [("JETWAY_EVENTS_SHARDS", "4")];
    let worker = site.worker_with(&four).await;
    for number in 0..40 {
        site.report(&format!("d{}", number % 8), number).await;
    }
    let events = site.wait_for_events(40).await;
    for device in 0..8 {
        let of = events
            .iter()
            .filter(|event| event.device() == format!("d{device}"));
        let numbers: Vec<_> = of.map(|event| event.number()).collect();
        assert_eq!(
            numbers,
            (0..5).map(|round| round * 8 + device).collect::<Vec<_>>()
        );
    }
    eventually("it has all shards", async || match shards(&worker).await {
        4.0 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    drop(worker);
    let other = site.worker().await;
    site.report("d0", 40).await;
    eventually("the other number is refused", async || {
        match other
            .log()
            .contains("the cursor is of 4 shards, expected 1")
        {
            true => Ok(()),
            false => Err(other.log()),
        }
    })
    .await;
    drop(other);
    let _worker = site.worker_with(&four).await;
    assert_eq!(site.wait_for_events(41).await.len(), 41);
}

#[tokio::test]
async fn g38_every_node_tells_how_far_events_are_behind() {
    let site = Site::start().await;
    let worker = site.worker().await;
    site.report("d", 0).await;
    site.wait_for_events(1).await;
    drop(worker);
    // One that may do nothing: the cursor is of another number of shards.
    let idle = site.worker_with(&[("JETWAY_EVENTS_SHARDS", "2")]).await;
    for number in 1..=5 {
        site.report("d", number).await;
    }
    let tells = async |node: &Gateway, behind: bool| {
        eventually("the lag is told", async || {
            let lag = node.metric("jetway_events_lag").await;
            let oldest = node.metric("jetway_events_oldest_seconds").await;
            // A look may have come before all reports.
            let tells = match behind {
                true => lag >= 5.0 && oldest > 0.0,
                false => lag == 0.0 && oldest == 0.0,
            };
            match tells {
                true => Ok(()),
                false => Err(format!("{lag}, {oldest} s")),
            }
        })
        .await
    };
    tells(&idle, true).await;
    let worker = site.worker().await;
    site.wait_for_events(6).await;
    tells(&worker, false).await;
    for name in ["inputs", "stored"] {
        // Counted when the stream has answered, which is after the events are there.
        eventually(name, async || {
            let name = format!("jetway_events_{name}_total");
            match worker.metric(&name).await {
                5.0 => Ok(()),
                count => Err(count.to_string()),
            }
        })
        .await;
    }
    assert!(worker.metric("jetway_events_batches_total").await >= 1.0);
}
