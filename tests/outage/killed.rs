//! `kill -9` of nats-server, of the gateway, and of both, under load.

use std::time::{Duration, Instant};

use super::rig::{Publishing, Rig};
use super::support::{Gateway, Random, goes_on};

/// Between two kills of the fast form.
const PUBACKS_BETWEEN: u64 = 2_000;

each_protocol!(
    nats_server_killed_ten_times_under_load,
    both_killed_at_random_moments
);

async fn nats_server_killed_ten_times_under_load(publishing: Publishing) {
    let test = &format!("nats-server killed, {publishing:?}");
    let mut rig = Rig::publishing(publishing).await;
    let fleet = rig.fleet().await;
    let (started, mut rounds) = (Instant::now(), 0);
    let (mut down, mut resumed) = (Vec::new(), Vec::new());
    while goes_on(started, rounds, 10) {
        fleet.pubacks_more(PUBACKS_BETWEEN).await;
        let killed = Instant::now();
        rig.nats.kill9().await;
        rig.nats.restart().await;
        let ready = Instant::now();
        fleet.every_device_goes_on().await;
        down.push(killed.elapsed());
        resumed.push(ready.elapsed());
        rounds += 1;
    }
    let (verdict, _) = rig.judge(fleet).await;
    println!(
        "{test}: {rounds} times; from kill to the next PUBACK of every device {}; from nats-server ready {}",
        spread(&mut down),
        spread(&mut resumed)
    );
    verdict.hold(test);
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert_eq!(verdict.published, verdict.pubacked, "all is answered");
}

#[tokio::test]
async fn gateway_killed_under_load() {
    const TEST: &str = "gateway killed";
    let mut rig = Rig::start(&[]).await;
    let fleet = rig.fleet().await;
    let (started, mut rounds) = (Instant::now(), 0);
    let mut down = Vec::new();
    while goes_on(started, rounds, 5) {
        fleet.pubacks_more(PUBACKS_BETWEEN).await;
        let killed = Instant::now();
        rig.gateway.kill9().await;
        rig.gateway = Gateway::run(rig.gateway_options()).await;
        fleet.every_device_goes_on().await;
        down.push(killed.elapsed());
        rounds += 1;
    }
    let (verdict, journals) = rig.judge(fleet).await;
    println!(
        "{TEST}: {rounds} times; from kill to the next PUBACK of every device {}",
        spread(&mut down)
    );
    verdict.hold(TEST);
    assert!(
        journals.iter().all(|journal| journal.lost.len() == rounds),
        "each kill costs each device one connection"
    );
}

async fn both_killed_at_random_moments(publishing: Publishing) {
    let test = &format!("both killed, {publishing:?}");
    let mut random = Random::new(test);
    let mut rig = Rig::publishing(publishing).await;
    let fleet = rig.fleet().await;
    let (started, mut rounds) = (Instant::now(), 0);
    while goes_on(started, rounds, 6) {
        fleet.pubacks_more(random.below(PUBACKS_BETWEEN)).await;
        match random.below(3) {
            0 => {
                rig.nats.kill9().await;
                rig.nats.restart().await;
            }
            1 => {
                rig.gateway.kill9().await;
                rig.gateway = Gateway::run(rig.gateway_options()).await;
            }
            _ => {
                if random.below(2) == 0 {
                    rig.nats.kill9().await;
                    rig.gateway.kill9().await;
                } else {
                    rig.gateway.kill9().await;
                    rig.nats.kill9().await;
                }
                // The gateway waits for a nats-server that starts beside it.
                let gateway = Gateway::run(rig.gateway_options());
                (rig.gateway, ()) = tokio::join!(gateway, rig.nats.restart());
            }
        }
        rounds += 1;
    }
    fleet.every_device_goes_on().await;
    let (verdict, _) = rig.judge(fleet).await;
    println!("{test}: {rounds} rounds in {:?}", started.elapsed());
    verdict.hold(test);
}

/// Smallest, median and largest.
fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    let last = times.len().saturating_sub(1);
    format!(
        "min {:.1?}, median {:.1?}, max {:.1?}",
        at(0),
        at(last / 2),
        at(last)
    )
}
