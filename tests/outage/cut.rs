//! The connection between the gateway and a nats-server that lives on: cut, half closed, delayed, and closed while its bytes
//! are still under way, which then reach the server behind those of the next connection.

use std::time::{Duration, Instant};

use super::fleet::Fleet;
use super::rig::{Publishing, Rig};
use super::support::{FaultProxy, Random, eventually, lasting};
use super::verdict::Verdict;

const ROUNDS: usize = 10;

each_protocol!(
    the_tail_in_flight_of_a_cut_connection_is_stored_once_and_in_order,
    a_half_closed_connection_still_delivers_and_nothing_is_stored_twice,
    a_slow_connection_that_ends_overlaps_with_the_next_one,
    stragglers_behind_a_re_send_change_nothing,
    stragglers_while_the_stream_is_read_change_nothing,
    the_rest_of_a_batch_that_arrived_in_part_changes_nothing,
);

async fn the_tail_in_flight_of_a_cut_connection_is_stored_once_and_in_order(
    publishing: Publishing,
) {
    let rig = Rig::behind_proxy(publishing).await;
    let fleet = rig.fleet().await;
    for _ in 0..ROUNDS {
        fleet.pubacks_more(500).await;
        proxy(&rig).cut();
        fleet.every_device_goes_on().await;
    }
    judged(&rig, fleet, publishing, "cut").await;
}

async fn a_half_closed_connection_still_delivers_and_nothing_is_stored_twice(
    publishing: Publishing,
) {
    let rig = Rig::behind_proxy(publishing).await;
    let fleet = rig.fleet().await;
    for _ in 0..ROUNDS {
        fleet.pubacks_more(500).await;
        proxy(&rig).half_close();
        fleet.every_device_goes_on().await;
    }
    judged(&rig, fleet, publishing, "half closed").await;
}

/// With the delay, what was sent before the end of a connection arrives while the next one sends the same again.
async fn a_slow_connection_that_ends_overlaps_with_the_next_one(publishing: Publishing) {
    let rig = Rig::behind_proxy(publishing).await;
    let fleet = rig.fleet().await;
    proxy(&rig).delay(Duration::from_millis(60));
    for round in 0..ROUNDS {
        fleet.pubacks_more(500).await;
        match round % 2 {
            0 => proxy(&rig).half_close(),
            _ => {
                proxy(&rig).sever();
                proxy(&rig).release();
            }
        }
        fleet.every_device_goes_on().await;
    }
    judged(&rig, fleet, publishing, "delayed").await;
}

/// Lets the proxy keep what the gateway sends, and cuts the connections once that is more than so many bytes; returns when there is
/// a new one.
async fn sever_with(rig: &Rig, bytes: usize) {
    eventually("the proxy keeps what the gateway sends", async || {
        // Also on a connection that the gateway makes because nothing is answered.
        proxy(rig).hold();
        match proxy(rig).kept() {
            kept if kept > bytes => Ok(()),
            kept => Err(format!("{kept} bytes")),
        }
    })
    .await;
    let connections = proxy(rig).connections();
    proxy(rig).sever();
    eventually("the gateway connects again", async || {
        match proxy(rig).connections() > connections {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
}

async fn stragglers_behind_a_re_send_change_nothing(publishing: Publishing) {
    let rig = Rig::behind_proxy(publishing).await;
    let fleet = rig.fleet().await;
    for round in 0..ROUNDS {
        fleet.pubacks_more(500).await;
        // Open batches are on their way, and do not arrive; how large they are is up to what was under way before.
        sever_with(&rig, more_than(publishing, 4_000)).await;
        if round % 2 == 0 {
            // Everything was sent again and PUBACKed, and more, before the stragglers come.
            fleet.every_device_goes_on().await;
            fleet.pubacks_more(500).await;
        }
        proxy(&rig).release();
        fleet.every_device_goes_on().await;
        eventually(
            "the stragglers have reached the server",
            async || match proxy(&rig).stragglers() {
                0 => Ok(()),
                kept => Err(format!("{kept} bytes")),
            },
        )
        .await;
    }
    judged(&rig, fleet, publishing, "stragglers").await;
}

/// Requests take long, so that what was under way arrives between two of those that ask what of it is stored.
async fn stragglers_while_the_stream_is_read_change_nothing(publishing: Publishing) {
    let rig = Rig::behind_proxy(publishing).await;
    let mut random = Random::new("while read");
    let fleet = rig.fleet().await;
    proxy(&rig).delay(Duration::from_millis(20));
    for _ in 0..2 * ROUNDS {
        fleet.pubacks_more(200).await;
        sever_with(&rig, more_than(publishing, 4_000)).await;
        lasting(Duration::from_millis(random.below(250))).await;
        proxy(&rig).release();
        fleet.every_device_goes_on().await;
    }
    judged(&rig, fleet, publishing, "while read").await;
}

/// The server keeps a batch open for 10 s, and the rest of it belongs to it.
async fn the_rest_of_a_batch_that_arrived_in_part_changes_nothing(publishing: Publishing) {
    let rig = Rig::behind_proxy(publishing).await;
    let mut random = Random::new("in part");
    let fleet = rig.fleet().await;
    for _ in 0..5 * ROUNDS {
        fleet.pubacks_more(200 + random.below(500)).await;
        // Somewhere in the live copies of one batch, or in the next one.
        proxy(&rig).hold_after(usize::try_from(random.below(100_000)).unwrap());
        sever_with(&rig, more_than(publishing, 2_000)).await;
        fleet.every_device_goes_on().await;
        proxy(&rig).release();
        fleet.every_device_goes_on().await;
    }
    judged(&rig, fleet, publishing, "in part").await;
}

#[tokio::test]
async fn a_connection_that_carries_nothing_any_more_is_replaced() {
    let rig = Rig::behind_proxy(Publishing::Fast).await;
    let fleet = rig.fleet().await;
    fleet.pubacks_more(500).await;
    proxy(&rig).hold();
    let held = Instant::now();
    fleet.every_device_goes_on().await;
    let resumed = held.elapsed();
    proxy(&rig).sever();
    proxy(&rig).release();
    fleet.pubacks_more(500).await;
    let (verdict, _) = rig.judge(fleet).await;
    println!("silent: every device has its next PUBACK after {resumed:.1?}");
    verdict.hold("silent");
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert!(resumed < Duration::from_secs(15), "{resumed:?}");
}

/// Bytes that are under way; fewer where a device has one message under way.
fn more_than(publishing: Publishing, batches: usize) -> usize {
    match publishing {
        Publishing::Single => batches / 5,
        _ => batches,
    }
}

fn proxy(rig: &Rig) -> &FaultProxy {
    rig.proxy.as_ref().expect("this rig has one")
}

async fn judged(rig: &Rig, fleet: Fleet, publishing: Publishing, test: &str) -> Verdict {
    let guarded = "jetway_uplink_stream_guarded_total";
    let guarded = rig.gateway.metric(guarded).await;
    assert_eq!(
        guarded > 0.0,
        publishing != Publishing::Single,
        "recovery of batches without message ids is what is tested"
    );
    let (verdict, _) = rig.judge(fleet).await;
    verdict.hold(&format!("{test}, {publishing:?}"));
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert_eq!(verdict.published, verdict.pubacked, "all is answered");
    assert!(
        proxy(rig).connections() > ROUNDS,
        "the gateway connected again each time"
    );
    verdict
}
