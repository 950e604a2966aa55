//! Tests as lines: steps such as `recv 1 q2; saved; stored 1`, and what has to come out.
//!
//! A crash begins a new connection with what was last known to be written, `crash late` with what was being written, and
//! `reconnect` with what the session was in the end. `stream b` replaces the delivery stream, `crash stream b` both.

use super::*;

/// Feeds steps into a session that ends with its connection, and compares everything that came out.
pub(super) fn check(version: Version, steps: &str, expected: &str) {
    run(version, Kind::default(), steps, expected);
}

/// The same with a session that is stored.
pub(super) fn check_stored(version: Version, steps: &str, expected: &str) {
    let kind = Kind {
        stored: true,
        ..Kind::default()
    };
    run(version, kind, steps, expected);
}

/// With a session that publishes at PUBREL, whether it is stored or not.
pub(super) fn check_held(version: Version, steps: &str, expected: &str) {
    for stored in [false, true] {
        let kind = Kind {
            stored,
            at_release: true,
        };
        run(version, kind, steps, expected);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    stored: bool,
    at_release: bool,
}

fn run(version: Version, kind: Kind, steps: &str, expected: &str) {
    let mut rig = Rig::new(version, kind);
    for step in steps.split(';').map(str::trim) {
        let result = rig.step(step);
        rig.drain();
        if let Err(reason) = result {
            rig.seen.push(format!("error {:#04x}", reason as u8));
        }
    }
    let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = expected.trim_end_matches(';');
    assert_eq!(rig.seen.join("; "), expected, "{version} {kind:?} {steps}");
}

struct Rig {
    version: Version,
    kind: Kind,
    /// Names the delivery stream.
    stream: Arc<str>,
    now: Instant,
    session: Session,
    /// What is written, and what is being written.
    written: Option<Record>,
    writing: Option<Record>,
    /// Whether the CONNACK is of interest.
    seen: Vec<String>,
}

impl Rig {
    fn new(version: Version, kind: Kind) -> Self {
        let now = Instant::now();
        let mut rig = Self {
            version,
            kind,
            stream: Arc::default(),
            now,
            session: connected(version, kind, start(None, kind.stored), now),
            written: None,
            writing: None,
            seen: Vec::new(),
        };
        rig.drain();
        rig.seen.clear();
        rig
    }

    fn drain(&mut self) {
        while let Some(output) = self.session.poll_output() {
            self.seen.push(word(&output));
            if let Output::Save(record) = output {
                assert_eq!(self.writing, None, "one write at a time");
                // What is written is read back from JSON.
                let json = serde_json::to_string(&record).unwrap();
                let read: Record = serde_json::from_str(&json).unwrap();
                assert_eq!(read, record, "{json}");
                self.writing = Some(read);
            }
        }
    }

    fn connect(&mut self, record: Option<Record>) {
        self.writing = None;
        self.written.clone_from(&record);
        let start = Start {
            stream: Arc::clone(&self.stream),
            ..start(record, self.kind.stored)
        };
        self.session = connected(self.version, self.kind, start, self.now);
    }

    fn step(&mut self, step: &str) -> Result<(), ReasonCode> {
        let words: Vec<&str> = step.split(' ').collect();
        match words.as_slice() {
            ["recv", id, qos] => {
                let publish = publish(qos_of(qos), id.parse().unwrap());
                return self.packet(Packet::Publish(publish));
            }
            ["puback", rest @ ..] => return self.packet(Packet::Puback(ack(rest))),
            ["pubrec", rest @ ..] => return self.packet(Packet::Pubrec(ack(rest))),
            ["pubrel", rest @ ..] => return self.packet(Packet::Pubrel(ack(rest))),
            ["pubcomp", rest @ ..] => return self.packet(Packet::Pubcomp(ack(rest))),
            ["unsub", filter] => {
                return self.packet(Packet::Unsubscribe(Unsubscribe {
                    packet_id: PacketId::new(4).unwrap(),
                    filters: vec![filter_of(filter)],
                    user: UserProperties::default(),
                }));
            }
            ["sub", filter, qos, options @ ..] => self.subscribe(filter, qos, options),
            ["retained", filter, publishes @ ..] => {
                let publishes = publishes.iter().map(|qos| retained(filter, qos)).collect();
                match self.session.handle_retained(&filter_of(filter), publishes) {
                    0 => {}
                    refused => self.seen.push(format!("{refused} refused")),
                }
            }
            ["stored", count] => self.session.handle_stored(count.parse().unwrap()),
            ["refused"] => self.session.handle_not_stored(FULL),
            ["nothing", id] => self.session.handle_nothing_held(id_of(id)),
            ["denied"] => self.session.handle_denied(DENIED),
            ["saved"] => {
                self.written = Some(self.writing.take().expect("a write is under way"));
                self.session.handle_saved();
            }
            ["save"] => self.session.save_progress(),
            ["crash"] => self.connect(self.written.clone()),
            ["crash", "late"] => self.connect(self.writing.clone()),
            ["crash", "stream", name] => {
                self.stream = (*name).into();
                return self.step("crash");
            }
            ["stream", name] => self.replace_stream(name),
            ["reconnect"] => self.connect(Some(self.session.record())),
            ["room"] => self.seen.push(match self.session.has_room() {
                true => "room".to_owned(),
                false => "full".to_owned(),
            }),
            ["owed"] => {
                let owed = self.session.to_resend();
                let ids = owed.iter().map(|(packet_id, _)| packet_id.to_string());
                let ids: Vec<_> = std::iter::once("owed".to_owned()).chain(ids).collect();
                self.seen.push(ids.join(" "));
            }
            ["resend", id, options @ ..] => {
                let mut again = downlink(QoS::AtMostOnce, 0).publish;
                again.retain = options.contains(&"retain");
                self.session.handle_resend(id_of(id), Some(again));
            }
            ["gone", id] => self.session.handle_resend(id_of(id), None),
            [kind, sequence, rest @ ..] => {
                let incoming = incoming(kind, sequence.parse().unwrap(), rest);
                match self.session.handle_downlink(incoming) {
                    Delivered::Sent(_) => {}
                    other => self.seen.push(format!("{other:?}")),
                }
            }
            other => panic!("unknown step {other:?}"),
        }
        Ok(())
    }

    fn packet(&mut self, packet: Packet) -> Result<(), ReasonCode> {
        self.session.handle_packet(self.now, packet)
    }

    fn replace_stream(&mut self, name: &str) {
        let known = std::mem::replace(&mut self.stream, name.into());
        let is_another = self.session.begin_stream(Arc::clone(&self.stream));
        assert_eq!(is_another, known != self.stream);
    }

    /// The position of the delivery stream is 0 unless `@n` says more.
    fn subscribe(&mut self, filter: &str, qos: &str, options: &[&str]) {
        let mut asked = subscribe(filter, qos_of(qos));
        let mut since = 0;
        for option in options {
            let subscription = &mut asked.filters[0];
            match *option {
                "no-local" => subscription.no_local = true,
                "rap" => subscription.retain_as_published = true,
                "rh1" => subscription.retain_handling = 1,
                "rh2" => subscription.retain_handling = 2,
                at => since = at.strip_prefix('@').unwrap().parse().unwrap(),
            }
        }
        self.session.handle_authorized(asked, |_| Ok(since));
    }
}

fn connected(version: Version, kind: Kind, start: Start, now: Instant) -> Session {
    let config = Config {
        shared_subscriptions: true,
        publishes_at_release: kind.at_release,
        retained_max: 3,
        ..config()
    };
    Session::new(
        agree(&connect(version), &config).unwrap(),
        &Arc::new(config),
        start,
        now,
    )
}

fn qos_of(text: &str) -> QoS {
    let qos = text.strip_prefix('q').unwrap();
    QoS::try_from(qos.parse::<u8>().unwrap()).unwrap()
}

fn id_of(text: &str) -> PacketId {
    PacketId::new(text.parse().unwrap()).unwrap()
}

fn filter_of(text: &str) -> TopicFilter {
    TopicFilter::try_from(ByteString::from(text)).unwrap()
}

/// `1` or `1 0x97`.
fn ack(words: &[&str]) -> Ack {
    let code = words.get(1).map_or(0, |code| {
        u8::from_str_radix(code.strip_prefix("0x").unwrap(), 16).unwrap()
    });
    Ack::new(id_of(words[0]), ReasonCode::from_value(code).unwrap())
}

fn retained(topic: &str, qos: &str) -> Publish {
    let mut publish = publish(qos_of(qos), 0);
    publish.topic = topic.into();
    publish.retain = true;
    publish
}

/// `live 7 q1`, `backlog 7 q1` or `share 7 q1`, and behind it `own`, `retain` or another topic than `down`.
fn incoming(kind: &str, sequence: u64, words: &[&str]) -> Incoming {
    let mut incoming = downlink(qos_of(words[0]), sequence);
    incoming.source = match kind {
        "live" => Source::Stream(sequence),
        "backlog" => Source::Backlog(sequence),
        "share" => Source::Shared {
            sequence,
            filter: "$share/g/down".into(),
        },
        other => panic!("unknown step {other}"),
    };
    for word in &words[1..] {
        match *word {
            "own" => incoming.own = true,
            "retain" => incoming.publish.retain = true,
            topic => incoming.publish.topic = topic.into(),
        }
    }
    incoming
}

/// A few words a thing to do, so that a test reads as a line.
pub(super) fn word(output: &Output) -> String {
    match output {
        Output::Send(packet) => packet_word(packet),
        Output::Publish {
            publish,
            message_id,
        } => {
            let id = publish.packet_id.map_or(0, PacketId::get);
            match message_id {
                Some(message_id) => format!("store {id} as {message_id}"),
                None => format!("store {id}"),
            }
        }
        Output::Hold { publish, packet_id } => {
            assert_eq!(publish.packet_id, Some(*packet_id));
            format!("hold {packet_id}")
        }
        Output::Release(packet_id) => format!("release {packet_id}"),
        Output::Authorize(_) => "authorize".to_owned(),
        Output::Detach(filter) => format!("detach {}", filter.as_str()),
        Output::FetchRetained(filters) => {
            let filters: Vec<_> = filters.iter().map(TopicFilter::as_str).collect();
            format!("fetch {}", filters.join(" "))
        }
        Output::Save(_) => "save".to_owned(),
        Output::Settled { source, outcome } => {
            let source = match source {
                Source::Stream(sequence) => sequence.to_string(),
                Source::Backlog(_) => panic!("inflight it is of the stream"),
                Source::Shared { sequence, .. } => format!("share {sequence}"),
                Source::Retained(topic) => format!("retained {topic}"),
                Source::Gone => "gone".to_owned(),
            };
            match outcome {
                Ok(()) => format!("done {source}"),
                Err(reason) => format!("failed {source} {:#04x}", *reason as u8),
            }
        }
        Output::Close(reason) => format!("close {}", reason.as_str()),
    }
}

fn packet_word(packet: &Packet) -> String {
    let codes = |reasons: &[ReasonCode]| {
        let codes = reasons.iter().map(|code| format!("{:#04x}", *code as u8));
        codes.collect::<Vec<_>>().join(" ")
    };
    let ack =
        |name: &str, ack: &Ack| format!("{name} {} {:#04x}", ack.packet_id.get(), ack.reason as u8);
    match packet {
        Packet::Connack(connack) => match connack.session_present {
            true => "CONNACK present".to_owned(),
            false => "CONNACK".to_owned(),
        },
        Packet::Puback(puback) => ack("PUBACK", puback),
        Packet::Pubrec(pubrec) => ack("PUBREC", pubrec),
        Packet::Pubrel(pubrel) => ack("PUBREL", pubrel),
        Packet::Pubcomp(pubcomp) => ack("PUBCOMP", pubcomp),
        Packet::Suback(suback) => format!("SUBACK {}", codes(&suback.reasons)),
        Packet::Unsuback(unsuback) => format!("UNSUBACK {}", codes(&unsuback.reasons)),
        Packet::Publish(publish) => {
            let id = publish.packet_id.map_or(0, PacketId::get);
            let dup = if publish.dup { " dup" } else { "" };
            let retain = if publish.retain { " retain" } else { "" };
            format!(
                "PUBLISH {} q{} #{id}{dup}{retain}",
                publish.topic, publish.qos as u8
            )
        }
        Packet::Pingresp => "PINGRESP".to_owned(),
        other => format!("{other:?}"),
    }
}
