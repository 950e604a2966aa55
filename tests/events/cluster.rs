//! The streams on three servers, under load: who leads them changes, by order and by death.

use std::time::Duration;

use crate::load::{Load, assert_exactly_once};
use crate::site::Site;
use crate::support::{NatsCluster, Random, SERVERS, lasting};

/// For how long there is load before each fault.
const BETWEEN: Duration = Duration::from_millis(1_500);
const STREAMS: [&str; 3] = ["APPLICATION", "DEVICE_UP", "DLQ"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g25_leaders_change_and_every_message_has_its_events_once() {
    let mut random = Random::new("events cluster");
    let mut nats = NatsCluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    let replicated = STREAMS.iter().chain(&["KV_jetway_nodes"]);
    let replicas =
        replicated.map(|name| format!("[[stream]]\nname = \"{name}\"\nnum_replicas = {SERVERS}\n"));
    std::fs::write(&rules, replicas.collect::<String>()).unwrap();
    let environment = ("JETWAY_RULES_FILE".to_owned(), rules.display().to_string());
    let site = Site::at(nats.url(), vec![environment]).await;
    let _workers = [site.worker().await, site.worker().await];
    let load = Load::start(&site, &mut random).await;
    for round in 0..4 {
        lasting(BETWEEN).await;
        let stream = STREAMS[round % 2];
        nats.whole(stream).await;
        let leader = nats.leader(stream, 0).await;
        match round {
            0 | 1 => nats.lead(stream, (leader + 1) % SERVERS).await,
            _ => {
                nats.kill9(leader).await;
                nats.restart(leader).await;
            }
        }
    }
    lasting(BETWEEN).await;
    load.stop().await;
    for stream in STREAMS {
        nats.whole(stream).await;
    }
    site.wait_until_passed().await;
    let count = assert_exactly_once(&site).await;
    println!("{count} events");
}
