//! What each client does and when servers die, made of a seed alone.
//!
//! A life is one connection. It is drawn from the seed, the client and its number, never from what happened before, so a
//! seed gives the same lives again although a fault may cut one short at another moment.

use jetway::mqtt::{QoS, Version};

/// How many clients there are.
pub(crate) const CLIENTS: usize = 12;
/// How many gateways there are.
pub(crate) const NODES: usize = 2;
/// A session expiry that no run lives to see.
pub(crate) const LONG_S: u32 = 3_600;

const QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Numbers from a seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one thing: `parts` name it.
    pub(crate) fn of(seed: u64, parts: &[u64]) -> Self {
        let mut random = Self(seed);
        for part in parts {
            random.0 = random.next() ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next() % below
    }

    /// True so many times in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `from..to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// What a client is for the whole run.
#[derive(Debug, Clone)]
pub(crate) struct Character {
    /// Its number, from 0.
    pub(crate) index: usize,
    /// The protocol version that it speaks.
    pub(crate) version: Version,
    /// Whether it wants the retain flag as published; such a client asks for no retained messages.
    pub(crate) retain_as_published: bool,
    /// What it may subscribe to.
    pub(crate) wishes: Vec<Wish>,
}

/// A topic filter with options, always the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The topic filter.
    pub(crate) filter: String,
    /// The QoS asked for.
    pub(crate) qos: QoS,
    /// Whether the client wants nothing of its own.
    pub(crate) no_local: bool,
}

impl Wish {
    fn new(filter: &str, qos: QoS) -> Self {
        Self {
            filter: filter.to_owned(),
            qos,
            no_local: false,
        }
    }
}

impl Character {
    /// The client with this number.
    pub(crate) fn new(seed: u64, index: usize) -> Self {
        let random = &mut Random::of(seed, &[index as u64]);
        let version = [Version::V5, Version::V3_1_1][index % 2];
        let is_v5 = version == Version::V5;
        let mut wishes: Vec<Wish> = Vec::new();
        while wishes.len() < 5 {
            let filter = filter(random);
            if wishes.iter().all(|wish| wish.filter != filter) {
                wishes.push(Wish {
                    filter,
                    qos: random.pick(&[QOS[0], QOS[1], QOS[1], QOS[2], QOS[2]]),
                    no_local: is_v5 && random.chance(25),
                });
            }
        }
        wishes.push(Wish::new(&format!("end/{index}"), QoS::AtLeastOnce));
        Self {
            index,
            version,
            retain_as_published: is_v5 && index.is_multiple_of(3),
            wishes,
        }
    }

    /// One more client, for what is done when all others have lived.
    pub(crate) fn last() -> Self {
        Self {
            index: CLIENTS,
            version: Version::V5,
            retain_as_published: false,
            wishes: vec![
                Wish::new("r/#", QoS::AtLeastOnce),
                Wish::new("end/#", QoS::AtLeastOnce),
            ],
        }
    }

    /// The number of the wish that ends a run: the last message of all comes for it.
    pub(crate) fn last_wish(&self) -> usize {
        self.wishes.len() - 1
    }

    /// The client identifier.
    pub(crate) fn client_id(&self) -> String {
        format!("soak-{}", self.index)
    }
}

fn filter(random: &mut Random) -> String {
    let (a, b) = (random.below(4), random.below(4));
    match random.below(12) {
        0..3 => format!("t/{a}/{b}"),
        3..5 => format!("t/{a}/+"),
        5..7 => format!("t/+/{b}"),
        7 => format!("t/{a}/#"),
        8 => "t/#".to_owned(),
        9 => "r/#".to_owned(),
        10 => format!("+/+/{b}"),
        _ => "w/#".to_owned(),
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Life {
    /// The gateway that is tried first.
    pub(crate) node: usize,
    /// Clean Session, or Clean Start.
    pub(crate) clean: bool,
    /// Session Expiry Interval in seconds; with 3.1.1 what follows from Clean Session.
    pub(crate) expiry_s: u32,
    /// Receive Maximum (MQTT 5).
    pub(crate) receive_maximum: Option<u16>,
    /// The Will.
    pub(crate) will: Option<WillPlan>,
    /// When it dies of itself.
    pub(crate) death: Option<Death>,
    /// What it does meanwhile.
    pub(crate) acts: Vec<Act>,
    /// How it ends, if it comes so far.
    pub(crate) end: End,
    /// How long the client is away then, in milliseconds.
    pub(crate) away_ms: u64,
}

/// A Will; its topic and text follow from client and life.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WillPlan {
    /// Will QoS.
    pub(crate) qos: QoS,
    /// Will Delay Interval in seconds.
    pub(crate) delay_s: u32,
}

/// The process of the client dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Death {
    /// With so many bytes sent, wherever in a packet that is.
    Sent(usize),
    /// With so many packets read, the last one not handled.
    Read(usize),
    /// With so many packets read, and the last one handled, but not answered.
    Handled(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Sends messages without waiting for answers, as far as the window allows.
    Publish {
        topic: String,
        qos: Vec<QoS>,
        retain: bool,
        /// Sends an empty retained message behind them.
        clear: bool,
        padding: usize,
    },
    /// Subscribes to some of its wishes, by their numbers.
    Subscribe(Vec<usize>),
    /// Unsubscribes from one of its wishes.
    Unsubscribe(usize),
    /// Waits for all answers.
    Settle,
    /// Does nothing but answer for so many milliseconds.
    Listen(u64),
    /// Reads nothing for so many milliseconds.
    Deaf(u64),
    /// Reads for so many milliseconds, and answers later.
    Mute(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// DISCONNECT.
    Disconnect,
    /// DISCONNECT with Will Message (MQTT 5; 3.1.1 drops the connection).
    DisconnectWithWill,
    /// The connection is dropped.
    Drop,
    /// It stays, and the next one takes over.
    Stay,
}

impl Life {
    /// Makes it one with a clean start.
    pub(crate) fn begin_anew(&mut self, version: Version) {
        self.clean = true;
        if version != Version::V5 {
            self.expiry_s = 0;
        }
    }

    /// A client's life with this number.
    pub(crate) fn new(seed: u64, character: &Character, number: u64) -> Self {
        let random = &mut Random::of(seed, &[character.index as u64, number, 1]);
        let is_v5 = character.version == Version::V5;
        let clean = random.chance(7);
        let expiry_s = match (is_v5, clean) {
            (true, _) => random.pick(&[0, 3, LONG_S, LONG_S, LONG_S, LONG_S, LONG_S, LONG_S]),
            (false, true) => 0,
            (false, false) => LONG_S,
        };
        let will = random.chance(40).then(|| WillPlan {
            qos: random.pick(&QOS),
            delay_s: if is_v5 { random.pick(&[0, 0, 2]) } else { 0 },
        });
        let death = random.chance(30).then(|| match random.below(3) {
            0 => Death::Sent(usize::try_from(random.between(20, 3_000)).unwrap()),
            1 => Death::Read(usize::try_from(random.between(1, 120)).unwrap()),
            _ => Death::Handled(usize::try_from(random.between(1, 120)).unwrap()),
        });
        let mut acts = Vec::new();
        if number == 0 || clean || random.chance(20) {
            acts.push(Act::Subscribe(vec![0, 1, 2]));
        }
        for _ in 0..random.between(2, 9) {
            acts.push(act(random, character));
        }
        if random.chance(50) {
            acts.push(Act::Settle);
        }
        Self {
            node: usize::try_from(random.below(NODES as u64)).unwrap(),
            clean,
            expiry_s,
            receive_maximum: (is_v5 && random.chance(30)).then(|| random.pick(&[1, 2, 7])),
            will,
            death,
            acts,
            end: random.pick(&[
                End::Disconnect,
                End::Disconnect,
                End::DisconnectWithWill,
                End::Drop,
                End::Drop,
                End::Stay,
                End::Stay,
            ]),
            away_ms: match random.below(4) {
                0 => random.between(300, 2_500),
                1 => random.between(10, 200),
                _ => 0,
            },
        }
    }

    /// The life behind all others: takes up the session, to be kept for long.
    pub(crate) fn last(character: &Character) -> Self {
        Self {
            node: character.index % NODES,
            clean: false,
            expiry_s: LONG_S,
            receive_maximum: None,
            will: None,
            death: None,
            acts: Vec::new(),
            end: End::Stay,
            away_ms: 0,
        }
    }
}

fn act(random: &mut Random, character: &Character) -> Act {
    match random.below(20) {
        0..9 => publish(random, character),
        9 | 10 => Act::Subscribe(vec![wish(random, character), wish(random, character)]),
        11 => match random.chance(40) {
            true => Act::Unsubscribe(wish(random, character)),
            false => Act::Subscribe(vec![wish(random, character)]),
        },
        12..14 => Act::Settle,
        14..18 => Act::Listen(random.between(1, 250)),
        18 => Act::Deaf(random.between(50, 600)),
        _ => Act::Mute(random.between(50, 300)),
    }
}

fn publish(random: &mut Random, character: &Character) -> Act {
    let retain = random.chance(20);
    let (a, b) = (random.below(4), random.below(4));
    Act::Publish {
        // A topic with a retained message has one publisher, so that it is known which one is last.
        topic: match retain {
            true => format!("r/{}/{b}", character.index),
            false => format!("t/{a}/{b}"),
        },
        qos: (0..random.between(1, 9))
            .map(|_| match retain {
                true => random.pick(&QOS[1..]),
                false => random.pick(&QOS),
            })
            .collect(),
        retain,
        clear: retain && random.chance(25),
        padding: match random.below(12) {
            0 => usize::try_from(random.between(1_000, 20_000)).unwrap(),
            _ => usize::try_from(random.below(60)).unwrap(),
        },
    }
}

fn wish(random: &mut Random, character: &Character) -> usize {
    usize::try_from(random.below(character.wishes.len() as u64)).unwrap()
}

/// A server that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// A gateway.
    Node(usize),
    /// nats-server.
    Nats,
}

/// `kill -9` and start again.
#[derive(Debug)]
pub(crate) struct Fault {
    /// How long nothing happens before, in milliseconds.
    pub(crate) after_ms: u64,
    /// Who is killed, in this order.
    pub(crate) victims: Vec<Victim>,
    /// How long they are gone at least, in milliseconds.
    pub(crate) gone_ms: u64,
}

impl Fault {
    /// The fault with this number.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let random = &mut Random::of(seed, &[u64::MAX, number]);
        let node = Victim::Node(usize::try_from(random.below(NODES as u64)).unwrap());
        Self {
            after_ms: random.between(800, 4_000),
            victims: match random.below(8) {
                0..3 => vec![Victim::Nats],
                3..7 => vec![node],
                _ => vec![Victim::Nats, node],
            },
            gone_ms: random.below(1_500),
        }
    }
}
