//! Clients that come back whenever their connection ends, anywhere, and go on where they were.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use std::time::Duration;

use jetway::mqtt::{Packet, QoS};

use crate::client::{Application, Client, Hello, Step};
use crate::support::{Random, lasting, within};

/// After so many messages a client goes elsewhere without a word.
const MOVES_EVERY: u64 = 25;
const ID: u16 = 1;
/// What clients wait for before they ask again.
const BACK_OFF: Duration = Duration::from_millis(20);

/// What the test and its clients know of each other.
#[derive(Default)]
pub(crate) struct Course {
    /// No message begins any more.
    pub(crate) is_over: AtomicBool,
}

/// Connects to one of the nodes, again and again; Session Present is true but for the first time.
async fn come_back(
    hello: &Hello,
    nodes: &[SocketAddr],
    random: &mut Random,
    is_known: &mut bool,
) -> Client {
    let asking = async {
        loop {
            let node = usize::try_from(random.below(nodes.len() as u64)).unwrap();
            match Client::try_connect(nodes[node], hello).await {
                Some(connected) => return connected,
                None => lasting(BACK_OFF).await,
            }
        }
    };
    let (client, present) = within("somebody to let the client in", asking).await;
    assert!(
        present || !*is_known,
        "G02: {} is forgotten",
        hello.client_id
    );
    *is_known = true;
    client
}

/// Where a publisher is in the handshake of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Published,
    Released,
}

/// Publishes numbers with QoS 2, one after the other.
pub(crate) struct Publisher {
    pub(crate) topic: String,
    hello: Hello,
    nodes: Vec<SocketAddr>,
    course: Arc<Course>,
    /// Messages finished.
    pub(crate) finished: Arc<AtomicU64>,
    random: Random,
}

impl Publisher {
    pub(crate) fn new(
        hello: Hello,
        topic: &str,
        nodes: &[SocketAddr],
        course: &Arc<Course>,
        random: Random,
    ) -> Self {
        Self {
            topic: topic.to_owned(),
            hello,
            nodes: nodes.to_vec(),
            course: Arc::clone(course),
            finished: Arc::default(),
            random,
        }
    }

    /// Until the course is over and the last message finished; gives how many there were and the connections.
    pub(crate) async fn run(mut self) -> (u64, u64) {
        let (mut phase, mut is_known, mut connections) = (Phase::New, false, 0);
        loop {
            let mut client =
                come_back(&self.hello, &self.nodes, &mut self.random, &mut is_known).await;
            connections += 1;
            if self.go_on(&mut client, &mut phase).await {
                return (self.finished.load(Ordering::Relaxed), connections);
            }
        }
    }

    /// Whether all is done; else the connection is over.
    async fn go_on(&self, client: &mut Client, phase: &mut Phase) -> bool {
        let mut begun = 0;
        loop {
            let number = self.finished.load(Ordering::Relaxed);
            let text = format!("{} {number}", self.topic);
            match phase {
                Phase::New if self.course.is_over.load(Ordering::Relaxed) => return true,
                Phase::New if begun > MOVES_EVERY => return false,
                Phase::New => {
                    client
                        .publish(&self.topic, QoS::ExactlyOnce, ID, &text)
                        .await;
                    begun += 1;
                }
                Phase::Published if begun == 0 => {
                    client
                        .publish_again(&self.topic, QoS::ExactlyOnce, ID, &text)
                        .await;
                    begun += 1;
                }
                Phase::Published => {}
                Phase::Released => client.step(Step::Pubrel, ID).await,
            }
            if *phase == Phase::New {
                *phase = Phase::Published;
            }
            let Some(answer) = client.poll().await else {
                return false;
            };
            *phase = match (*phase, &answer) {
                (Phase::Published, Packet::Pubrec(ack)) if !ack.reason.is_error() => {
                    Phase::Released
                }
                (Phase::Released, Packet::Pubcomp(_)) => {
                    self.finished.fetch_add(1, Ordering::Relaxed);
                    Phase::New
                }
                // Taken over by itself, or the node stops.
                (_, Packet::Disconnect(_)) => return false,
                other => panic!("{} {other:?}", self.hello.client_id),
            };
        }
    }
}

/// Takes all it is given.
pub(crate) struct Subscriber {
    hello: Hello,
    filter: String,
    qos: QoS,
    nodes: Vec<SocketAddr>,
    random: Random,
    /// Whether the subscription is made.
    pub(crate) is_subscribed: Arc<AtomicBool>,
    /// Messages given.
    pub(crate) given: Arc<AtomicU64>,
}

impl Subscriber {
    pub(crate) fn new(
        hello: Hello,
        filter: &str,
        qos: QoS,
        nodes: &[SocketAddr],
        random: Random,
    ) -> Self {
        Self {
            hello,
            filter: filter.to_owned(),
            qos,
            nodes: nodes.to_vec(),
            random,
            is_subscribed: Arc::default(),
            given: Arc::default(),
        }
    }

    /// Until it was given the last message, `end`; gives all.
    pub(crate) async fn run(mut self) -> Application {
        let mut application = Application::default();
        let mut is_known = false;
        loop {
            let mut client =
                come_back(&self.hello, &self.nodes, &mut self.random, &mut is_known).await;
            if !self.is_subscribed.load(Ordering::Relaxed) {
                client.subscribe(&self.filter, self.qos).await;
                self.is_subscribed.store(true, Ordering::Relaxed);
            }
            let mut taken = 0;
            while taken < 2 * MOVES_EVERY {
                let Some(packet) = client.poll().await else {
                    break;
                };
                taken += 1;
                if let Some((step, packet_id)) = application.take(&packet) {
                    client.step(step, packet_id).await;
                }
                let given = application.given.len() as u64;
                self.given.store(given, Ordering::Relaxed);
                if application.is_done("end") {
                    return application;
                }
            }
        }
    }
}
