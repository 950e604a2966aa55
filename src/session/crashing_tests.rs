//! A device, a store and a session that crashes at any step, by chance from a seed: what is exactly once stays so.
//!
//! The device keeps its own state across connections, as the specification demands. Packets on their way are lost with the
//! connection; a write or a message that was under way is done or not. Sequences are far apart so that packet identifiers collide.
//! The device subscribes anew when it has nothing half received, and the delivery stream is replaced by another one when all that
//! was sent is written: what a crash hides from both cannot be told from a new message.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const STEPS: u64 = 400;
const SEEDS: u64 = 300;

/// A xorshift generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What the device keeps, and what it saw.
#[derive(Default)]
struct Device {
    /// Its messages by packet identifier, in order: whether PUBREC came.
    sending: Vec<(u16, String, bool)>,
    published: u32,
    unreleased: BTreeSet<u16>,
    received: Vec<u32>,
    /// Whether SUBACK came, and no UNSUBSCRIBE was sent since.
    subscribed: bool,
}

/// What the gateway has on its way to the stream.
enum Storing {
    Publish {
        id: String,
        payload: String,
    },
    Hold {
        packet_id: PacketId,
        id: String,
        payload: String,
    },
    Release(PacketId),
}

struct World {
    chance: Chance,
    version: Version,
    /// Whether messages are published at their PUBREL.
    at_release: bool,
    now: Instant,
    session: Session,
    device: Device,
    to_device: VecDeque<Packet>,
    to_gateway: VecDeque<Packet>,
    written: Record,
    writing: Option<Record>,
    /// Messages that the stream has not confirmed, in order, and those that it stored, by id.
    publishing: VecDeque<Storing>,
    stored: BTreeMap<String, String>,
    /// What is held under each packet identifier: ids and payloads in order; and what of it is to be removed.
    held: BTreeMap<PacketId, Vec<(String, String)>>,
    removing: VecDeque<(PacketId, String)>,
    /// Messages held so far.
    holds: u32,
    /// The delivery stream: the number of each message, and its QoS.
    name: Arc<str>,
    stream: BTreeMap<u64, (u32, QoS)>,
    /// The last sequence there, and the last that any session was given.
    last: u64,
    given: u64,
    /// All messages that there ever were in a delivery stream, and those that the device is to get.
    numbers: Vec<QoS>,
    owed: BTreeSet<u32>,
}

fn connected(
    version: Version,
    at_release: bool,
    record: Record,
    stream: &Arc<str>,
    now: Instant,
) -> Session {
    let config = Config {
        publishes_at_release: at_release,
        ..config()
    };
    let agreement = agree(&connect(version), &config).unwrap();
    let start = Start {
        stream: Arc::clone(stream),
        ..start(Some(record), true)
    };
    Session::new(agreement, &Arc::new(config), start, now)
}

fn message((number, qos): (u32, QoS)) -> Publish {
    let mut publish = downlink(qos, 0).publish;
    publish.payload = Bytes::from(number.to_string());
    publish
}

/// With QoS 2 and without retained messages.
fn subscription() -> Subscribe {
    let mut asked = subscribe("down", QoS::ExactlyOnce);
    asked.filters[0].retain_handling = 2;
    asked
}

impl World {
    fn new(version: Version, at_release: bool, seed: u64) -> Self {
        let now = Instant::now();
        let name = Arc::default();
        let mut session = connected(version, at_release, Record::default(), &name, now);
        session.handle_authorized(subscription(), |_| Ok(0));
        let written = session.record();
        Self {
            chance: Chance(seed * 2 + 1),
            version,
            at_release,
            now,
            session: connected(version, at_release, written.clone(), &name, now),
            device: Device {
                subscribed: true,
                ..Device::default()
            },
            to_device: VecDeque::new(),
            to_gateway: VecDeque::new(),
            written,
            writing: None,
            publishing: VecDeque::new(),
            stored: BTreeMap::new(),
            held: BTreeMap::new(),
            removing: VecDeque::new(),
            holds: 0,
            name,
            stream: BTreeMap::new(),
            last: 0,
            given: 0,
            numbers: Vec::new(),
            owed: BTreeSet::new(),
        }
    }

    /// One thing happens; true: something did.
    fn step(&mut self, kind: u64) -> bool {
        let happened = match kind {
            0 | 1 => self.to_gateway.pop_front().is_some_and(|packet| {
                let handled = self.session.handle_packet(self.now, packet);
                handled.expect("the device keeps to the protocol");
                true
            }),
            2 | 3 => self.to_device.pop_front().is_some_and(|packet| {
                self.device_handles(packet);
                true
            }),
            4 => self.writing.take().is_some_and(|record| {
                self.written = record;
                self.session.handle_saved();
                true
            }),
            5 => self.publishing.pop_front().is_some_and(|storing| {
                match self.arrive(storing) {
                    None => self.session.handle_stored(1),
                    Some(packet_id) => self.session.handle_nothing_held(packet_id),
                }
                true
            }),
            6 => self.remove(),
            _ => self.deliver(),
        };
        self.drain();
        happened
    }

    /// The stream has it; gives the packet identifier if there is nothing to release.
    fn arrive(&mut self, storing: Storing) -> Option<PacketId> {
        match storing {
            Storing::Publish { id, payload } => {
                self.stored.entry(id).or_insert(payload);
            }
            Storing::Hold {
                packet_id,
                id,
                payload,
            } => self.held.entry(packet_id).or_default().push((id, payload)),
            Storing::Release(packet_id) => {
                let held = self.held.get(&packet_id).and_then(|held| held.last());
                let Some((id, payload)) = held.cloned() else {
                    return Some(packet_id);
                };
                self.removing.push_back((packet_id, id.clone()));
                self.stored.entry(id).or_insert(payload);
            }
        }
        None
    }

    /// What is released is removed, and what was held under its packet identifier before.
    fn remove(&mut self) -> bool {
        self.removing.pop_front().is_some_and(|(packet_id, id)| {
            let held = self.held.get_mut(&packet_id).unwrap();
            if let Some(last) = held.iter().position(|(held, _)| *held == id) {
                held.drain(..=last);
            }
            true
        })
    }

    fn deliver(&mut self) -> bool {
        let next = self.stream.range(self.session.taken() + 1..).next();
        let Some((&sequence, &message_of)) = next.filter(|_| self.session.has_room()) else {
            return false;
        };
        let (_, qos) = message_of;
        let mut incoming = downlink(qos, sequence);
        incoming.publish = message(message_of);
        let delivered = self.session.handle_downlink(incoming);
        self.given = self.given.max(sequence);
        if self.device.subscribed {
            assert_eq!(delivered, Delivered::Sent(qos));
        }
        true
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(packet) => self.to_device.push_back(packet),
                Output::Save(record) => {
                    assert_eq!(self.writing, None, "one write at a time");
                    self.writing = Some(record);
                }
                Output::Publish {
                    publish,
                    message_id,
                } => {
                    let payload = String::from_utf8(publish.payload.to_vec()).unwrap();
                    let id = message_id.expect("QoS 2 of a stored session").into();
                    self.publishing.push_back(Storing::Publish { id, payload });
                }
                Output::Hold { publish, packet_id } => {
                    self.holds += 1;
                    self.publishing.push_back(Storing::Hold {
                        packet_id,
                        id: self.holds.to_string(),
                        payload: String::from_utf8(publish.payload.to_vec()).unwrap(),
                    });
                }
                Output::Release(packet_id) => {
                    let mut sending = self.device.sending.iter();
                    let released =
                        sending.any(|(id, _, received)| *id == packet_id.get() && *received);
                    assert!(released, "published before its PUBREL");
                    self.publishing.push_back(Storing::Release(packet_id));
                }
                Output::Settled { outcome, .. } => assert_eq!(outcome, Ok(())),
                Output::Authorize(asked) => {
                    let position = self.last;
                    self.session.handle_authorized(asked, |_| Ok(position));
                }
                Output::Detach(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn device_publishes(&mut self) {
        let is_free = |id: &u16| self.device.sending.iter().all(|(used, ..)| used != id);
        let Some(packet_id) = (1..=3).find(is_free) else {
            return;
        };
        self.device.published += 1;
        let payload = self.device.published.to_string();
        self.to_gateway
            .push_back(uplink(packet_id, &payload, false));
        self.device.sending.push((packet_id, payload, false));
    }

    fn device_handles(&mut self, packet: Packet) {
        let success = |packet_id| Ack::new(packet_id, ReasonCode::Success);
        let device = &mut self.device;
        let answer = match packet {
            Packet::Publish(publish) => {
                let packet_id = publish.packet_id.expect("QoS 1 or 2");
                let is_again =
                    publish.qos == QoS::ExactlyOnce && !device.unreleased.insert(packet_id.get());
                if !is_again {
                    let payload = String::from_utf8(publish.payload.to_vec()).unwrap();
                    device.received.push(payload.parse().unwrap());
                }
                match publish.qos {
                    QoS::ExactlyOnce => Packet::Pubrec(success(packet_id)),
                    _ => Packet::Puback(success(packet_id)),
                }
            }
            Packet::Pubrel(ack) => {
                device.unreleased.remove(&ack.packet_id.get());
                Packet::Pubcomp(success(ack.packet_id))
            }
            Packet::Pubrec(ack) => {
                let mut sending = device.sending.iter_mut();
                let known = sending.find(|(id, ..)| *id == ack.packet_id.get());
                known.expect("an answer to what was sent").2 = true;
                Packet::Pubrel(success(ack.packet_id))
            }
            Packet::Pubcomp(ack) => {
                let id = ack.packet_id.get();
                device.sending.retain(|(used, ..)| *used != id);
                return;
            }
            Packet::Connack(connack) => {
                assert!(connack.session_present);
                return;
            }
            Packet::Unsuback(_) => Packet::Subscribe(subscription()),
            Packet::Suback(_) => {
                device.subscribed = true;
                return;
            }
            other => panic!("{other:?}"),
        };
        self.to_gateway.push_back(answer);
    }

    fn store(&mut self) {
        // Three packet identifiers for all of them.
        self.last += 16_384 * (1 + self.chance.below(4));
        let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce];
        let qos = qos[usize::from(self.chance.below(3) > 0)];
        let number = u32::try_from(self.numbers.len()).unwrap();
        self.numbers.push(qos);
        self.stream.insert(self.last, (number, qos));
        if self.device.subscribed {
            self.owed.insert(number);
        }
    }

    /// What did not arrive yet need not any more.
    fn forget(&mut self) {
        let received = &self.device.received;
        self.owed.retain(|number| received.contains(number));
    }

    fn resubscribe(&mut self) {
        if self.device.subscribed && self.device.unreleased.is_empty() {
            self.forget();
            self.device.subscribed = false;
            self.to_gateway.push_back(Packet::Unsubscribe(Unsubscribe {
                packet_id: PacketId::new(4).unwrap(),
                filters: vec![subscription().filters.remove(0).filter],
                user: UserProperties::default(),
            }));
        }
    }

    /// Another delivery stream takes the place of this one; with a crash or without.
    fn replace(&mut self) {
        if self.written.stream != self.name || self.written.taken < self.given {
            return;
        }
        self.forget();
        self.name = format!("{}+", self.name).into();
        self.stream.clear();
        (self.last, self.given) = (0, 0);
        if self.chance.below(2) == 0 {
            self.crash();
        } else {
            self.session.begin_stream(Arc::clone(&self.name));
        }
    }

    /// The gateway is gone, and another one takes the device.
    fn crash(&mut self) {
        self.to_device.clear();
        self.to_gateway.clear();
        if let Some(record) = self.writing.take().filter(|_| self.chance.below(2) == 0) {
            self.written = record;
        }
        let arrived = self.chance.below(self.publishing.len() as u64 + 1);
        let arrived = usize::try_from(arrived).unwrap();
        for storing in std::mem::take(&mut self.publishing)
            .into_iter()
            .take(arrived)
        {
            self.arrive(storing);
        }
        let removed = self.chance.below(self.removing.len() as u64 + 1);
        for _ in 0..removed {
            self.remove();
        }
        self.removing.clear();
        let written = self.written.clone();
        self.session = connected(self.version, self.at_release, written, &self.name, self.now);
        for (packet_id, source) in self.session.to_resend() {
            let Source::Stream(sequence) = source else {
                panic!("{source:?}");
            };
            let publish = message(self.stream[&sequence]);
            self.session.handle_resend(packet_id, Some(publish));
        }
        if !self.device.subscribed {
            self.to_gateway.push_back(Packet::Subscribe(subscription()));
        }
        for (packet_id, payload, received) in &self.device.sending {
            self.to_gateway.push_back(match received {
                true => Packet::Pubrel(Ack::new(
                    PacketId::new(*packet_id).unwrap(),
                    ReasonCode::Success,
                )),
                false => uplink(*packet_id, payload, true),
            });
        }
        self.drain();
    }
}

fn uplink(packet_id: u16, payload: &str, dup: bool) -> Packet {
    let mut publish = publish(QoS::ExactlyOnce, packet_id);
    publish.dup = dup;
    publish.payload = Bytes::from(payload.to_owned());
    Packet::Publish(publish)
}

fn run(version: Version, at_release: bool, seed: u64) {
    let mut world = World::new(version, at_release, seed);
    world.drain();
    for _ in 0..STEPS {
        match world.chance.below(50) {
            0..6 => world.device_publishes(),
            6..12 => world.store(),
            12..14 => world.session.save_progress(),
            14..16 => world.crash(),
            16 => world.resubscribe(),
            17 => world.replace(),
            _ => {
                let kind = world.chance.below(8);
                world.step(kind);
            }
        }
        world.drain();
    }
    // Then nothing crashes, until nothing happens any more.
    while (0..8).any(|kind| world.step(kind)) {}

    let published = (1..=world.device.published).map(|number| number.to_string());
    let mut stored: Vec<_> = world.stored.into_values().collect();
    stored.sort_by_key(|payload| payload.parse::<u32>().unwrap());
    assert_eq!(
        stored,
        published.collect::<Vec<_>>(),
        "seed {seed}: stored once each"
    );
    let device = &world.device;
    assert!(device.subscribed, "seed {seed}");
    let is_once = |number: &&u32| world.numbers[**number as usize] == QoS::ExactlyOnce;
    let once: Vec<_> = device.received.iter().filter(is_once).collect();
    assert!(
        once.is_sorted_by(|a, b| a < b),
        "seed {seed}: once, in order {once:?}"
    );
    let mut seen = BTreeSet::new();
    let first = device
        .received
        .iter()
        .filter(|number| seen.insert(**number));
    assert!(first.is_sorted(), "seed {seed}: in order");
    let lost: Vec<_> = world.owed.difference(&seen).collect();
    assert!(lost.is_empty(), "seed {seed}: lost {lost:?}");
    assert_eq!(world.session.unacknowledged_downlinks(), 0, "seed {seed}");
    assert!(world.session.is_settled(), "seed {seed}");
}

#[test]
fn what_is_exactly_once_stays_so_whenever_the_gateway_crashes() {
    // G-ONCE, G-DOWN. [MQTT-4.3.3-10], [MQTT-4.4.0-1]
    for seed in 0..SEEDS {
        for version in [Version::V3_1_1, Version::V5] {
            for at_release in [false, true] {
                run(version, at_release, seed);
            }
        }
    }
}
