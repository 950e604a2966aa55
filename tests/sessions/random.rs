//! Gateways and nats-server die and stand still at random moments, under clients that go from node to node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jetway::mqtt::QoS;
use tokio::task::JoinSet;

use crate::client::{Application, Hello};
use crate::random_clients::{Course, Publisher, Subscriber};
use crate::site::{BOTH, Event, Site, assert_in_order};
use crate::support::{Gateway, Random, eventually, goes_on, lasting, within};

const PUBLISHERS: usize = 4;
/// Messages of each publisher between two faults.
const BETWEEN: u64 = 10;
const FAULTS: usize = 6;

struct Crowd {
    course: Arc<Course>,
    /// Each gives its number, its messages and its connections.
    publishers: JoinSet<(usize, u64, u64)>,
    progress: Vec<Arc<AtomicU64>>,
    subscribers: JoinSet<(QoS, Application)>,
}

impl Crowd {
    async fn start(nodes: &[SocketAddr], random: &mut Random) -> Self {
        let course = Arc::<Course>::default();
        let mut subscribers = JoinSet::new();
        for (number, qos) in [
            QoS::AtLeastOnce,
            QoS::ExactlyOnce,
            QoS::AtLeastOnce,
            QoS::ExactlyOnce,
        ]
        .into_iter()
        .enumerate()
        {
            let hello = Hello::new(BOTH[number / 2], &format!("subscriber-{number}"));
            let subscriber = Subscriber::new(hello, "random/+", qos, nodes, random.fork());
            let is_subscribed = Arc::clone(&subscriber.is_subscribed);
            subscribers.spawn(async move { (qos, subscriber.run().await) });
            eventually("it is subscribed", async || {
                let is_subscribed = is_subscribed.load(Ordering::Relaxed);
                is_subscribed
                    .then_some(())
                    .ok_or_else(|| "not yet".to_owned())
            })
            .await;
        }
        let (mut publishers, mut progress) = (JoinSet::new(), Vec::new());
        for number in 0..PUBLISHERS {
            let hello = Hello::new(BOTH[number % 2], &format!("publisher-{number}"));
            let topic = format!("random/{number}");
            let publisher = Publisher::new(hello, &topic, nodes, &course, random.fork());
            progress.push(Arc::clone(&publisher.finished));
            publishers.spawn(async move {
                let (messages, connections) = publisher.run().await;
                (number, messages, connections)
            });
        }
        Self {
            course,
            publishers,
            progress,
            subscribers,
        }
    }

    /// Waits until each publisher has finished so many more.
    async fn goes_on(&self, more: u64) {
        let load = |progress: &Arc<AtomicU64>| progress.load(Ordering::Relaxed);
        let goals: Vec<u64> = self.progress.iter().map(|one| load(one) + more).collect();
        eventually("every publisher goes on", async || {
            let now: Vec<u64> = self.progress.iter().map(load).collect();
            match now.iter().zip(&goals).all(|(now, goal)| now >= goal) {
                true => Ok(()),
                false => Err(format!("{now:?} of {goals:?}")),
            }
        })
        .await;
    }

    /// Lets the publishers end and judges who was given what.
    async fn judge(self, site: &Site, test: &str) {
        self.course.is_over.store(true, Ordering::Relaxed);
        let (mut counts, mut connections) = ([0; PUBLISHERS], 0);
        for (number, count, own) in within("the last messages", self.publishers.join_all()).await {
            counts[number] = count;
            connections += own;
        }
        let mut stored = Vec::new();
        for message in site.backend.messages("MQTT", "mqtt.random.>").await {
            stored.push(message.text().to_owned());
        }
        for (number, count) in counts.iter().enumerate() {
            let prefix = format!("random/{number} ");
            let own: Vec<_> = stored
                .iter()
                .filter(|text| text.starts_with(&prefix))
                .collect();
            let expected: Vec<_> = (0..*count)
                .map(|count| format!("{prefix}{count}"))
                .collect();
            assert_eq!(
                own,
                expected.iter().collect::<Vec<_>>(),
                "each once, in order"
            );
        }
        site.send("random/end", QoS::ExactlyOnce, "end").await;
        stored.push("end".to_owned());
        let mut repeated = 0;
        for (qos, application) in within("all is given", self.subscribers.join_all()).await {
            assert_eq!(application.first_times(), stored, "in order, none lost");
            match qos {
                QoS::ExactlyOnce => assert_eq!(application.given.len(), stored.len(), "once"),
                _ => repeated += application.given.len() - stored.len(),
            }
        }
        println!(
            "{test}: {} messages, {connections} connections of publishers; repeated with QoS 1: {repeated}",
            stored.len()
        );
        in_order(site).await;
    }
}

/// The status events of each client are those of one connection after the other.
async fn in_order(site: &Site) {
    let mut of_clients: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in site.events().await {
        of_clients
            .entry(event.client_id.clone())
            .or_default()
            .push(event);
    }
    let count: usize = of_clients.values().map(Vec::len).sum();
    for events in of_clients.values() {
        assert_in_order(events);
    }
    println!(
        "{count} status events of {} clients, in order",
        of_clients.len()
    );
}

#[tokio::test]
async fn gateways_and_nats_server_fail_at_random_moments() {
    const TEST: &str = "random faults";
    let mut random = Random::new(TEST);
    let mut site = Site::start().await;
    let mut nodes = [site.node().await, site.node().await];
    let addresses: Vec<SocketAddr> = nodes.iter().map(Gateway::mqtt).collect();
    let crowd = Crowd::start(&addresses, &mut random).await;
    let (started, mut rounds) = (Instant::now(), 0);
    while goes_on(started, rounds, FAULTS) {
        crowd.goes_on(1 + random.below(BETWEEN)).await;
        let node = usize::try_from(random.below(2)).unwrap();
        let moment = Duration::from_millis(random.below(4_000));
        match random.below(6) {
            0..3 => {
                nodes[node].kill9().await;
                nodes[node] = site.node_at(addresses[node]).await;
            }
            3 => {
                nodes[node].pause().await;
                lasting(moment).await;
                nodes[node].resume();
            }
            4 => {
                site.nats.kill9().await;
                site.nats.restart().await;
            }
            _ => {
                site.nats.pause().await;
                lasting(moment).await;
                site.nats.resume();
            }
        }
        rounds += 1;
    }
    crowd.goes_on(1).await;
    println!("{TEST}: {rounds} faults in {:?}", started.elapsed());
    crowd.judge(&site, TEST).await;
}
