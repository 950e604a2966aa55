//! The streams on three nats-servers: a server dies, stands still or hands over the lead, under load.
//!
//! A replicated stream has a state that a single server has not: the leader has a message, and no other server does yet.
//! Such a message is lost with the leader, so it must not be PUBACKed.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::time::timeout;

use super::fleet::{Fleet, Journal};
use super::rig::{DEVICES, PAYLOAD_BYTES, Publishing, add_devices, database_url};
use super::support::{
    DemoDevice, Gateway, NatsCluster, Random, RunOptions, SERVERS, eventually, goes_on, lasting,
};
use super::verdict::Verdict;

const STREAM: &str = "DEVICE_UP";
/// Longer than any answer takes, and short for a test.
const ACK_TIMEOUT: Duration = Duration::from_millis(500);
/// Between two faults.
const PUBACKS_BETWEEN: u64 = 2_000;

struct Rig {
    nats: NatsCluster,
    gateway: Gateway,
    devices: Vec<DemoDevice>,
    _state: TempDir,
}

impl Rig {
    /// Every stream has three replicas, by the operator's own file.
    async fn start(publishing: Publishing) -> Self {
        let nats = NatsCluster::start().await;
        let state = tempfile::tempdir().unwrap();
        let rules = state.path().join("rules.toml");
        let replicas = [
            STREAM,
            "DEVICE_DOWN",
            "DEVICE_STATUS",
            "APPLICATION",
            "GPS",
            "DLQ",
        ]
        .map(|name| format!("[[stream]]\nname = \"{name}\"\nnum_replicas = {SERVERS}\n"));
        std::fs::write(&rules, replicas.concat() + publishing.rules()).unwrap();
        let database_url = database_url(&state);
        let devices = add_devices(&database_url, DEVICES);
        let options = RunOptions {
            nats_url: nats.url(),
            database_url,
            environment: vec![
                ("JETWAY_RULES_FILE".to_owned(), rules.display().to_string()),
                (
                    "JETWAY_PUBLISHER_ACK_TIMEOUT_MS".to_owned(),
                    ACK_TIMEOUT.as_millis().to_string(),
                ),
            ],
            ..RunOptions::default()
        };
        let gateway = Gateway::run(options).await;
        Self {
            nats,
            gateway,
            devices,
            _state: state,
        }
    }

    async fn fleet(&self) -> Fleet {
        Fleet::start(self.gateway.mqtt(), &self.devices, PAYLOAD_BYTES).await
    }

    async fn judge(&self, fleet: Fleet) -> (Verdict, Vec<Journal>) {
        let journals = fleet.finish().await;
        let guarded = "jetway_uplink_stream_guarded_total";
        assert_eq!(self.gateway.metric(guarded).await, 0.0, "all had ids");
        // It is read from any of the three.
        self.nats.whole(STREAM).await;
        let verdict = Verdict::of(&self.nats.backend(0).await, &journals).await;
        (verdict, journals)
    }

    async fn retries(&self) -> f64 {
        self.gateway
            .metric("jetway_uplink_stream_retries_total")
            .await
    }

    /// Whether so many batches were sent again since there were `before`.
    async fn sent_again(&self, times: f64, before: f64) -> Result<(), String> {
        match self.retries().await - before {
            again if again >= times => Ok(()),
            again => Err(format!("sent again: {again}")),
        }
    }
}

#[tokio::test]
async fn a_message_that_only_the_leader_has_is_not_acknowledged() {
    const TEST: &str = "followers killed, then the leader";
    let mut rig = Rig::start(Publishing::Fast).await;
    let fleet = rig.fleet().await;
    let (started, mut rounds) = (Instant::now(), 0);
    let mut early = 0;
    while goes_on(started, rounds, 1) {
        let leader = rig.nats.server_of("jetway").await;
        rig.nats.whole(STREAM).await;
        rig.nats.lead(STREAM, leader).await;
        fleet.pubacks_more(PUBACKS_BETWEEN).await;
        let followers = [(leader + 1) % SERVERS, (leader + 2) % SERVERS];
        for follower in followers {
            rig.nats.kill9(follower).await;
        }
        // What the followers had answered before is committed, and may be PUBACKed: of an open batch only once it is sent again,
        // after the ack timeout.
        let (mut pubacks, mut retries) = (fleet.pubacks(), rig.retries().await);
        eventually("nothing is PUBACKed any more", async || {
            if fleet.pubacks() > pubacks {
                (pubacks, retries) = (fleet.pubacks(), rig.retries().await);
            }
            rig.sent_again(4.0, retries).await
        })
        .await;
        lasting(4 * ACK_TIMEOUT).await;
        eventually("it is sent to the leader twice more", async || {
            rig.sent_again(6.0, retries).await
        })
        .await;
        early += fleet.pubacks() - pubacks;
        rig.nats.kill9(leader).await;
        for follower in followers {
            rig.nats.restart(follower).await;
        }
        // Two servers are enough, but do not always find a leader before the third is back.
        let by_two = timeout(Duration::from_secs(15), fleet.every_device_goes_on()).await;
        rig.nats.restart(leader).await;
        fleet.every_device_goes_on().await;
        println!("{TEST}: two servers were enough: {}", by_two.is_ok());
        rounds += 1;
    }
    let (verdict, _) = rig.judge(fleet).await;
    println!("{TEST}: {rounds} times; {early} PUBACKs while only the leader had what was sent");
    verdict.hold(TEST);
    assert_eq!(early, 0, "no PUBACK before a second server has the message");
    assert_eq!(verdict.published, verdict.pubacked, "all is answered");
}

each_protocol!(servers_of_a_replicated_stream_fail_in_turn);

async fn servers_of_a_replicated_stream_fail_in_turn(publishing: Publishing) {
    let test = &format!("cluster, {publishing:?}");
    let mut random = Random::new(test);
    let mut rig = Rig::start(publishing).await;
    let fleet = rig.fleet().await;
    let (started, mut rounds) = (Instant::now(), 0);
    while goes_on(started, rounds, FAULTS.len() - 1) {
        fleet
            .pubacks_more(PUBACKS_BETWEEN / 2 + random.below(PUBACKS_BETWEEN))
            .await;
        rig.nats.whole(STREAM).await;
        let fault = FAULTS[rounds % FAULTS.len()];
        let leader = rig.nats.leader(STREAM, 0).await;
        let begun = Instant::now();
        match fault {
            Fault::StepDown => {
                let next = (leader + 1) % SERVERS;
                rig.nats.lead(STREAM, next).await;
            }
            Fault::LeaderKilled => {
                rig.nats.kill9(leader).await;
                rig.nats.restart(leader).await;
            }
            Fault::GatewaysServerKilled => {
                // Of one of its publishers.
                let server = rig.nats.server_of("jetway publisher").await;
                rig.nats.kill9(server).await;
                rig.nats.restart(server).await;
            }
            Fault::LeaderPaused => {
                rig.nats.pause(leader);
                lasting(3 * ACK_TIMEOUT).await;
                rig.nats.resume(leader);
            }
            Fault::LeaderPausedThenKilled => {
                rig.nats.pause(leader);
                lasting(3 * ACK_TIMEOUT).await;
                rig.nats.resume(leader);
                // What came meanwhile, first and again, is being handled.
                lasting(Duration::from_millis(random.below(20))).await;
                rig.nats.kill9(leader).await;
                rig.nats.restart(leader).await;
            }
        }
        fleet.every_device_goes_on().await;
        println!(
            "{test}: {fault:?}: every device goes on after {:.1?}",
            begun.elapsed()
        );
        rounds += 1;
    }
    let (verdict, _) = rig.judge(fleet).await;
    println!(
        "{test}: {rounds} faults, {} batches sent again",
        rig.retries().await
    );
    verdict.hold(test);
    assert_eq!(
        verdict.connections_lost, 0,
        "devices keep their connections"
    );
    assert_eq!(verdict.published, verdict.pubacked, "all is answered");
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    StepDown,
    LeaderKilled,
    GatewaysServerKilled,
    LeaderPaused,
    LeaderPausedThenKilled,
}

/// In turn; the fast form leaves the last one to the one before it.
const FAULTS: [Fault; 5] = [
    Fault::StepDown,
    Fault::LeaderPaused,
    Fault::GatewaysServerKilled,
    Fault::LeaderPausedThenKilled,
    Fault::LeaderKilled,
];
