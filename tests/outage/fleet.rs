//! Devices that publish without a pause, each with a window of QoS 1, and remember what they sent and what was PUBACKed.
//!
//! A payload says who sent it, over which of its connections, and its number there. A device that loses its connection
//! connects again with a clean session and sends what was not PUBACKed as new PUBLISH packets, ahead of anything new.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::rig::topic;
use super::support::{
    Closed, Connect, DEADLINE, DemoDevice, Device, Protocol, Publish, eventually, lasting, soak,
    within,
};

/// QoS 1 that a device has in flight.
pub(crate) const WINDOW: usize = 20;

/// One PUBLISH: which connection of its device carried it, and what. A re-send has the same number on a later connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Transmission {
    pub(crate) connection: u64,
    pub(crate) number: u64,
}

/// What a device knows at its end.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) name: String,
    pub(crate) sent: Vec<Transmission>,
    pub(crate) pubacked: Vec<Transmission>,
    /// PUBACK of 0x80 and above.
    pub(crate) refused: Vec<Transmission>,
    /// How each connection was lost.
    pub(crate) lost: Vec<Closed>,
}

/// Devices at work.
pub(crate) struct Fleet {
    tasks: JoinSet<Journal>,
    stop: CancellationToken,
    pubacks: Vec<Arc<AtomicU64>>,
}

impl Fleet {
    /// Connects them, the even ones with 3.1.1 and the odd ones with 5, and lets them publish payloads of so many bytes.
    pub(crate) async fn start(
        address: SocketAddr,
        devices: &[DemoDevice],
        payload_bytes: usize,
    ) -> Self {
        let mut fleet = Self {
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
            pubacks: Vec::new(),
        };
        for (index, device) in devices.iter().enumerate() {
            let pubacks = Arc::<AtomicU64>::default();
            fleet.pubacks.push(Arc::clone(&pubacks));
            let member = Member {
                connect: Connect {
                    patience: DEADLINE + soak().unwrap_or_default(),
                    ..Connect::new(
                        [Protocol::V311, Protocol::V5][index % 2],
                        address,
                        &device.credentials,
                    )
                },
                topic: topic(device),
                payload_bytes,
                pubacks,
                stop: fleet.stop.clone(),
                journal: Journal {
                    name: device.name.clone(),
                    sent: Vec::new(),
                    pubacked: Vec::new(),
                    refused: Vec::new(),
                    lost: Vec::new(),
                },
            };
            fleet.tasks.spawn(member.run());
        }
        fleet.every_device_goes_on().await;
        fleet
    }

    /// PUBACKs so far.
    pub(crate) fn pubacks(&self) -> u64 {
        self.each().iter().sum()
    }

    fn each(&self) -> Vec<u64> {
        let pubacks = self.pubacks.iter();
        pubacks.map(|one| one.load(Ordering::Relaxed)).collect()
    }

    /// Waits until there are so many PUBACKs more than now.
    pub(crate) async fn pubacks_more(&self, more: u64) {
        let before = self.pubacks();
        eventually(&format!("{more} more PUBACKs"), async || {
            match self.pubacks() - before {
                seen if seen >= more => Ok(()),
                seen => Err(format!("{seen}")),
            }
        })
        .await;
    }

    /// Waits until every device has got a PUBACK more than now.
    pub(crate) async fn every_device_goes_on(&self) {
        let before = self.each();
        eventually("every device has another PUBACK", async || {
            match waiting(&self.each(), &before) {
                0 => Ok(()),
                waiting => Err(format!("{waiting} devices wait")),
            }
        })
        .await;
    }

    /// Counts the PUBACKs of all in each tenth of a second since `start`, for at least so long, until every device has got one
    /// more than now; gives them, and when that was.
    pub(crate) async fn goes_on(&self, start: Instant, at_least: Duration) -> (Vec<u64>, Duration) {
        let (before, mut tenths, mut seen) = (self.each(), Vec::new(), 0);
        let mut all = None;
        eventually("every device has another PUBACK", async || {
            let now = self.each();
            let total = now.iter().sum::<u64>() - before.iter().sum::<u64>();
            let elapsed = start.elapsed();
            let tenth = usize::try_from(elapsed.as_millis() / 100).unwrap();
            tenths.resize(tenths.len().max(tenth + 1), 0);
            tenths[tenth] += total - seen;
            seen = total;
            let waiting = waiting(&now, &before);
            if waiting == 0 {
                all.get_or_insert(elapsed);
            }
            match all.filter(|_| elapsed > at_least) {
                Some(_) => Ok(()),
                None => Err(format!("{waiting} devices wait")),
            }
        })
        .await;
        (tenths, all.unwrap())
    }

    /// Sends nothing new, waits until all is answered, and gives what the devices remember.
    pub(crate) async fn finish(mut self) -> Vec<Journal> {
        self.stop.cancel();
        let mut journals = Vec::new();
        while let Some(journal) = self.tasks.join_next().await {
            journals.push(journal.unwrap());
        }
        journals
    }
}

/// How many devices have no more PUBACKs now than before.
fn waiting(now: &[u64], before: &[u64]) -> usize {
    let both = now.iter().zip(before);
    both.filter(|(now, before)| now <= before).count()
}

struct Member {
    connect: Connect,
    topic: String,
    payload_bytes: usize,
    pubacks: Arc<AtomicU64>,
    stop: CancellationToken,
    journal: Journal,
}

impl Member {
    async fn run(mut self) -> Journal {
        let mut unanswered = VecDeque::new();
        let mut next = 0;
        for connection in 0.. {
            let connected = Box::pin(self.connect());
            let mut device = within("the gateway to let the device in", connected).await;
            for number in &unanswered {
                self.send(&mut device, connection, *number);
            }
            let lost = loop {
                while unanswered.len() < WINDOW && !self.stop.is_cancelled() {
                    self.send(&mut device, connection, next);
                    unanswered.push_back(next);
                    next += 1;
                }
                let Some(&number) = unanswered.front() else {
                    device.disconnect().await;
                    return self.journal;
                };
                let acked = match device.acked().await {
                    Ok(acked) => acked,
                    Err(lost) => break lost,
                };
                // PUBACKs come in PUBLISH order [MQTT-4.6.0-2]: this one is for the oldest.
                let sent = self.journal.sent.len() - unanswered.len();
                let first = self
                    .journal
                    .sent
                    .partition_point(|one| one.connection < connection);
                assert_eq!(acked.publish, (sent - first) as u64, "PUBACK out of order");
                let transmission = Transmission { connection, number };
                match acked.reason {
                    0..0x80 => self.journal.pubacked.push(transmission),
                    _ => self.journal.refused.push(transmission),
                }
                unanswered.pop_front();
                self.pubacks.fetch_add(1, Ordering::Relaxed);
            };
            self.journal.lost.push(lost);
        }
        unreachable!("a device has fewer connections than numbers for them")
    }

    /// Tries until the gateway is there.
    async fn connect(&self) -> Device {
        loop {
            if let Ok(device) = Device::connect_with(self.connect.clone()).await {
                return device;
            }
            lasting(Duration::from_millis(10)).await;
        }
    }

    fn send(&mut self, device: &mut Device, connection: u64, number: u64) {
        let name = &self.journal.name;
        let text = format!("{name} {connection} {number} ");
        let payload = format!("{text:.<width$}", width = self.payload_bytes);
        device.publish(Publish::new(&self.topic, payload));
        let transmission = Transmission { connection, number };
        self.journal.sent.push(transmission);
    }
}
