//! The servers: two gateways that share nothing but one nats-server, and what kills them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::journal::{Clock, Moment};
use super::schedule::{Fault, NODES, Victim};
use super::support::{Gateway, NatsServer, RunOptions};

/// What the clients see of it.
pub(crate) struct World {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// Numbers everything.
    pub(crate) clock: Clock,
    /// Where the gateways listen, whether they run or not.
    pub(crate) nodes: Vec<SocketAddr>,
}

/// The processes.
pub(crate) struct Servers {
    pub(crate) nats: NatsServer,
    nodes: Vec<Gateway>,
    /// What those wrote that were killed.
    logs: Vec<String>,
}

/// A time in which a server was not all right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    /// Who.
    pub(crate) victim: Victim,
    /// Before it was killed.
    pub(crate) from: Moment,
    /// When it was ready again.
    pub(crate) to: Moment,
}

impl Servers {
    /// Starts all.
    pub(crate) async fn start(seed: u64) -> (Arc<World>, Self) {
        let nats = NatsServer::start().await;
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Gateway::run(options(&nats, None)).await);
        }
        let world = World {
            seed,
            clock: Clock::new(),
            nodes: nodes.iter().map(Gateway::mqtt).collect(),
        };
        let logs = vec![String::new(); NODES];
        (Arc::new(world), Self { nats, nodes, logs })
    }

    /// Kills as the schedule says until then; gives what was out of order, and leaves all running.
    pub(crate) async fn suffer(&mut self, world: &World, until: Instant) -> Vec<Outage> {
        let mut outages = Vec::new();
        for number in 0.. {
            let fault = Fault::new(world.seed, number);
            let at = Instant::now() + Duration::from_millis(fault.after_ms);
            sleep_until(at.min(until)).await;
            if Instant::now() >= until {
                break;
            }
            outages.extend(self.inflict(world, &fault).await);
        }
        outages
    }

    /// What each gateway wrote, in all its lives.
    pub(crate) fn logs(&self) -> Vec<String> {
        let nodes = self.logs.iter().zip(&self.nodes);
        nodes
            .map(|(before, node)| before.clone() + &node.log())
            .collect()
    }

    async fn inflict(&mut self, world: &World, fault: &Fault) -> Vec<Outage> {
        let from = world.clock.now();
        println!("{:>9.3}s {fault:?}", from.at.as_secs_f64());
        for victim in &fault.victims {
            match victim {
                Victim::Node(node) => {
                    self.nodes[*node].kill9().await;
                    self.logs[*node] += &self.nodes[*node].log();
                }
                Victim::Nats => self.nats.kill9().await,
            }
        }
        sleep_until(Instant::now() + Duration::from_millis(fault.gone_ms)).await;
        let mut outages = Vec::new();
        for victim in &fault.victims {
            match victim {
                Victim::Node(node) => {
                    let options = options(&self.nats, Some(world.nodes[*node]));
                    self.nodes[*node] = Gateway::run(options).await;
                }
                Victim::Nats => self.nats.restart().await,
            }
            let to = world.clock.now();
            outages.push(Outage {
                victim: *victim,
                from,
                to,
            });
        }
        outages
    }
}

fn options(nats: &NatsServer, mqtt_listen: Option<SocketAddr>) -> RunOptions {
    let environment = [
        ("JETWAY_PROFILE", "open"),
        // Clients are cut off as often as chance has it.
        ("JETWAY_PROTECTION_FLAPPING", "{ connects_max = 0 }"),
        ("JETWAY_LOG_FILTER", "debug,async_nats=warn"),
    ];
    RunOptions {
        nats_url: nats.url(),
        database_url: "sqlite::memory:".to_owned(),
        mqtt_listen,
        environment: environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..RunOptions::default()
    }
}
