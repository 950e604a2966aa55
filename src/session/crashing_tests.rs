//! A device, a store and a session that crashes at any step, by chance from a seed: what is exactly once stays so.
//!
//! The device keeps its own state across connections, as the specification demands. Packets on their way are lost with the
//! connection; a write or a message that was under way is done or not. Sequences are far apart so that packet identifiers collide.

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
    received: Vec<String>,
}

struct World {
    chance: Chance,
    version: Version,
    now: Instant,
    session: Session,
    device: Device,
    to_device: VecDeque<Packet>,
    to_gateway: VecDeque<Packet>,
    written: Record,
    writing: Option<Record>,
    /// Messages that the stream has not confirmed, in order, and those that it stored, by id.
    publishing: VecDeque<(String, String)>,
    stored: BTreeMap<String, String>,
    /// The delivery stream: sequence and QoS.
    stream: BTreeMap<u64, QoS>,
}

fn connected(version: Version, record: Record, now: Instant) -> Session {
    let agreement = agree(&connect(version), &config()).unwrap();
    Session::new(agreement, &config(), start(Some(record), true), now)
}

fn message(sequence: u64, qos: QoS) -> Publish {
    let mut publish = downlink(qos, sequence).publish;
    publish.payload = Bytes::from(sequence.to_string());
    publish
}

impl World {
    fn new(version: Version, seed: u64) -> Self {
        let now = Instant::now();
        let mut session = connected(version, Record::default(), now);
        let mut asked = subscribe("down", QoS::ExactlyOnce);
        asked.filters[0].retain_handling = 2;
        session.handle_authorized(asked, |_| Ok(0));
        let written = session.record();
        Self {
            chance: Chance(seed * 2 + 1),
            version,
            now,
            session: connected(version, written.clone(), now),
            device: Device::default(),
            to_device: VecDeque::new(),
            to_gateway: VecDeque::new(),
            written,
            writing: None,
            publishing: VecDeque::new(),
            stored: BTreeMap::new(),
            stream: BTreeMap::new(),
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
            5 => self.publishing.pop_front().is_some_and(|(id, payload)| {
                self.stored.entry(id).or_insert(payload);
                self.session.handle_stored(1);
                true
            }),
            _ => self.deliver(),
        };
        self.drain();
        happened
    }

    fn deliver(&mut self) -> bool {
        let next = self.stream.range(self.session.taken() + 1..).next();
        let Some((&sequence, &qos)) = next.filter(|_| self.session.has_room()) else {
            return false;
        };
        let mut incoming = downlink(qos, sequence);
        incoming.publish = message(sequence, qos);
        let delivered = self.session.handle_downlink(incoming);
        assert_eq!(delivered, Delivered::Sent(qos));
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
                    let id = message_id.expect("QoS 2 of a stored session");
                    self.publishing.push_back((id.into(), payload));
                }
                Output::Settled { outcome, .. } => assert_eq!(outcome, Ok(())),
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
                    device.received.push(payload);
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
            other => panic!("{other:?}"),
        };
        self.to_gateway.push_back(answer);
    }

    /// The gateway is gone, and another one takes the device.
    fn crash(&mut self) {
        self.to_device.clear();
        self.to_gateway.clear();
        if let Some(record) = self.writing.take().filter(|_| self.chance.below(2) == 0) {
            self.written = record;
        }
        let arrived = self.chance.below(self.publishing.len() as u64 + 1);
        for (id, payload) in self
            .publishing
            .drain(..)
            .take(usize::try_from(arrived).unwrap())
        {
            self.stored.entry(id).or_insert(payload);
        }
        self.session = connected(self.version, self.written.clone(), self.now);
        for (packet_id, source) in self.session.to_resend() {
            let Source::Stream(sequence) = source else {
                panic!("{source:?}");
            };
            let publish = message(sequence, self.stream[&sequence]);
            self.session.handle_resend(packet_id, Some(publish));
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

fn run(version: Version, seed: u64) {
    let mut world = World::new(version, seed);
    world.drain();
    let mut sequence = 0;
    for _ in 0..STEPS {
        match world.chance.below(24) {
            0..3 => world.device_publishes(),
            3..6 => {
                // Three packet identifiers for all of them.
                sequence += 16_384 * (1 + world.chance.below(4));
                let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce];
                let qos = qos[usize::from(world.chance.below(3) > 0)];
                world.stream.insert(sequence, qos);
            }
            6 => world.session.save_progress(),
            7 => world.crash(),
            _ => {
                let kind = world.chance.below(7);
                world.step(kind);
            }
        }
        world.drain();
    }
    // Then nothing crashes, until nothing happens any more.
    while (0..7).any(|kind| world.step(kind)) {}

    let published = (1..=world.device.published).map(|number| number.to_string());
    let mut stored: Vec<_> = world.stored.into_values().collect();
    stored.sort_by_key(|payload| payload.parse::<u32>().unwrap());
    assert_eq!(
        stored,
        published.collect::<Vec<_>>(),
        "seed {seed}: stored once each"
    );
    let of_stream = |wanted: &dyn Fn(QoS) -> bool| {
        let selected = world.stream.iter().filter(|(_, qos)| wanted(**qos));
        selected
            .map(|(sequence, _)| sequence.to_string())
            .collect::<Vec<_>>()
    };
    let received = &world.device.received;
    let exactly_once = of_stream(&|qos| qos == QoS::ExactlyOnce);
    let found: Vec<_> = received
        .iter()
        .filter(|payload| exactly_once.contains(payload))
        .collect();
    assert_eq!(
        found,
        exactly_once.iter().collect::<Vec<_>>(),
        "seed {seed}: once, in order"
    );
    let mut seen = BTreeSet::new();
    let mut first: Vec<_> = received
        .iter()
        .filter(|payload| seen.insert(*payload))
        .collect();
    assert_eq!(
        first,
        of_stream(&|_| true).iter().collect::<Vec<_>>(),
        "seed {seed}: in order"
    );
    first.clear();
    assert_eq!(world.session.unacknowledged_downlinks(), 0, "seed {seed}");
    assert!(world.session.is_settled(), "seed {seed}");
}

#[test]
fn what_is_exactly_once_stays_so_whenever_the_gateway_crashes() {
    // G-ONCE, G-DOWN. [MQTT-4.3.3-10], [MQTT-4.4.0-1]
    for seed in 0..SEEDS {
        for version in [Version::V3_1_1, Version::V5] {
            run(version, seed);
        }
    }
}
