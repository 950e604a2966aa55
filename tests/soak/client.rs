//! A client that keeps its session state as the specification says, whatever happens to its connections.
//!
//! It writes down what it does and sees; only what is wrong by itself, without the other clients, is judged here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jetway::mqtt::{
    Ack, Connack, Connect, ConnectProperties, Disconnect, Packet, PacketId, Publish, QoS,
    ReasonCode, Subscribe, Subscription, TopicFilter, TopicName, Unsubscribe, Version, Will,
};
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Over};
use super::journal::{Ended, Entry, Event, Moment};
use super::schedule::{Act, Character, Death, End, LONG_S, Life};
use super::world::World;

/// Own messages that may wait for their acknowledgement.
const WINDOW: usize = 16;
/// How long an answer may take, with servers dying meanwhile.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A client.
pub(crate) struct Client {
    pub(crate) character: Character,
    pub(crate) journal: Vec<Entry>,
    world: Arc<World>,
    /// Its own QoS 1 and 2 messages, in order.
    unacknowledged: Vec<Unacknowledged>,
    /// QoS 2 messages whose PUBREL has not come, by packet identifier.
    received: HashMap<u16, String>,
    packet_id: u16,
    messages: u64,
    /// Of this connection.
    link: Link,
}

struct Unacknowledged {
    packet_id: PacketId,
    text: String,
    publish: Publish,
    released: bool,
}

/// What a client knows of its connection.
#[derive(Default)]
struct Link {
    /// SUBSCRIBE and UNSUBSCRIBE without an answer.
    asked: HashMap<u16, Asked>,
    /// Messages without the last answer, and how many there may be.
    unanswered: usize,
    receive_maximum: Option<u16>,
    /// Answers that are held back, if they are.
    mute: Option<Vec<Packet>>,
    goodbye: Option<String>,
}

enum Asked {
    Subscribe(Vec<usize>),
    Unsubscribe(usize),
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, character: Character) -> Self {
        Self {
            character,
            journal: Vec::new(),
            world: Arc::clone(world),
            unacknowledged: Vec::new(),
            received: HashMap::new(),
            packet_id: 0,
            messages: 0,
            link: Link::default(),
        }
    }

    fn note(&mut self, event: Event) -> Moment {
        let moment = self.world.clock.now();
        self.journal.push(Entry { moment, event });
        moment
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.note(Event::Wrong(what.into()));
    }

    /// Lives one life after the other until then.
    pub(crate) async fn live(&mut self, until: Instant) {
        let mut left: Option<Connection> = None;
        for number in 0.. {
            if Instant::now() >= until {
                break;
            }
            let life = Life::new(self.world.seed, &self.character, number);
            if let Some(mut connection) = self.connect(number, &life).await {
                // Whoever was left is closed by now; it must not look as if this one had done it.
                drop(left.take());
                let over = self.act(&life, &mut connection).await;
                left = self.end(over, life.end, connection).await;
            }
            let away = Instant::now() + Duration::from_millis(life.away_ms);
            tokio::time::sleep_until(away.min(until)).await;
        }
        drop(left);
    }

    async fn act(&mut self, life: &Life, connection: &mut Connection) -> Result<(), Over> {
        for act in &life.acts {
            self.perform(act, connection).await?;
        }
        Ok(())
    }

    /// Connects to the gateway of this life, or to another one.
    pub(crate) async fn connect(&mut self, number: u64, life: &Life) -> Option<Connection> {
        let nodes = &self.world.nodes;
        let version = self.character.version;
        let mut node = life.node;
        let mut opened = Connection::open(nodes[node], version, life.death).await;
        if opened.is_err() {
            node = (node + 1) % nodes.len();
            opened = Connection::open(nodes[node], version, life.death).await;
        }
        let mut connection = opened.ok()?;
        if life.clean {
            self.forget();
        }
        self.link = Link {
            receive_maximum: life.receive_maximum,
            ..Link::default()
        };
        let will = life.will.map(|will| (will.qos, will.delay_s));
        self.note(Event::Connecting {
            life: number,
            node,
            clean: life.clean,
            expiry_s: life.expiry_s,
            will,
        });
        connection.send(&self.connect_packet(number, life));
        match self.connack(&mut connection).await {
            Ok(Some(connack)) if connack.reason == ReasonCode::Success => {
                let present = connack.session_present;
                self.note(Event::Connected { present });
                if !present {
                    self.forget();
                }
                self.resend(&mut connection);
                if connection.dies_handled() {
                    self.over(Over::Died);
                    return None;
                }
                Some(connection)
            }
            Ok(Some(connack)) => {
                let reason = format!("{:?}", connack.reason);
                self.note(Event::Refused { reason });
                None
            }
            Ok(None) => {
                self.wrong("no CONNACK");
                self.over(Over::Died);
                None
            }
            Err(over) => {
                self.over(over);
                None
            }
        }
    }

    async fn connack(&mut self, connection: &mut Connection) -> Result<Option<Connack>, Over> {
        match connection.next(true, Instant::now() + ANSWER_MAX).await? {
            Some(Packet::Connack(connack)) => Ok(Some(connack)),
            Some(packet) => {
                self.wrong(format!("instead of a CONNACK: {packet:?}"));
                Err(Over::Died)
            }
            None => Ok(None),
        }
    }

    fn connect_packet(&self, number: u64, life: &Life) -> Packet {
        let is_v5 = self.character.version == Version::V5;
        let index = self.character.index;
        let will = life.will.map(|will| Will {
            topic: TopicName::try_from(bytestring::ByteString::from(format!("w/{index}"))).unwrap(),
            payload: Bytes::from(will_text(index, number)),
            qos: will.qos,
            retain: false,
            delay_interval: will.delay_s,
            properties: Default::default(),
        });
        let properties = match is_v5 {
            true => ConnectProperties {
                session_expiry_interval: (life.expiry_s > 0).then_some(life.expiry_s),
                receive_maximum: life.receive_maximum.and_then(|max| max.try_into().ok()),
                ..ConnectProperties::default()
            },
            false => ConnectProperties::default(),
        };
        Packet::Connect(Box::new(Connect {
            version: self.character.version,
            clean_start: life.clean,
            keep_alive: 60,
            client_id: self.character.client_id().into(),
            username: None,
            password: None,
            will,
            properties,
        }))
    }

    fn forget(&mut self) {
        self.unacknowledged.clear();
        self.received.clear();
    }

    /// [MQTT-4.4.0-1]
    fn resend(&mut self, connection: &mut Connection) {
        for at in 0..self.unacknowledged.len() {
            let waiting = &mut self.unacknowledged[at];
            if waiting.released {
                let ack = Ack::new(waiting.packet_id, ReasonCode::Success);
                connection.send(&Packet::Pubrel(ack));
            } else {
                waiting.publish.dup = true;
                let (text, publish) = (waiting.text.clone(), waiting.publish.clone());
                self.send(connection, &text, publish);
            }
        }
    }

    fn send(&mut self, connection: &mut Connection, text: &str, publish: Publish) {
        self.note(Event::Publish {
            text: text.to_owned(),
            topic: publish.topic.to_string(),
            qos: publish.qos,
            retain: publish.retain,
            empty: publish.payload.is_empty(),
            packet_id: publish.packet_id.map_or(0, PacketId::get),
            dup: publish.dup,
        });
        connection.send(&Packet::Publish(publish));
    }

    fn next_packet_id(&mut self) -> PacketId {
        loop {
            self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
            let id = self.packet_id;
            let used = self
                .unacknowledged
                .iter()
                .any(|waiting| waiting.packet_id.get() == id);
            if !used && !self.link.asked.contains_key(&id) {
                return PacketId::new(id).unwrap();
            }
        }
    }

    async fn perform(&mut self, act: &Act, connection: &mut Connection) -> Result<(), Over> {
        match act {
            Act::Publish {
                topic,
                qos,
                retain,
                clear,
                padding,
            } => {
                for qos in qos {
                    self.publish(connection, topic, *qos, *retain, Some(*padding))
                        .await?;
                }
                if *clear {
                    self.publish(connection, topic, QoS::AtLeastOnce, true, None)
                        .await?;
                }
                self.listen(connection, Duration::ZERO).await
            }
            Act::Subscribe(wishes) => {
                let mut wishes = wishes.clone();
                wishes.dedup();
                self.subscribe(connection, wishes);
                Ok(())
            }
            Act::Unsubscribe(wish) => {
                let packet_id = self.next_packet_id();
                let filter = filter(&self.character.wishes[*wish].filter);
                self.note(Event::Unsubscribing { wish: *wish });
                let asked = Asked::Unsubscribe(*wish);
                self.link.asked.insert(packet_id.get(), asked);
                connection.send(&Packet::Unsubscribe(Unsubscribe {
                    packet_id,
                    filters: vec![filter],
                    user: Default::default(),
                }));
                Ok(())
            }
            Act::Settle => self.settle(connection).await,
            Act::Listen(ms) => self.listen(connection, Duration::from_millis(*ms)).await,
            Act::Deaf(ms) => {
                let deadline = Instant::now() + Duration::from_millis(*ms);
                connection.next(false, deadline).await.map(|_| ())
            }
            Act::Mute(ms) => {
                self.link.mute = Some(Vec::new());
                self.listen(connection, Duration::from_millis(*ms)).await?;
                for answer in self.link.mute.take().unwrap_or_default() {
                    self.answer(connection, answer);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn subscribe(&mut self, connection: &mut Connection, wishes: Vec<usize>) {
        let packet_id = self.next_packet_id();
        let retain_as_published = self.character.retain_as_published;
        let subscription = |number: &usize| {
            let wish = &self.character.wishes[*number];
            Subscription {
                filter: filter(&wish.filter),
                qos: wish.qos,
                no_local: wish.no_local,
                retain_as_published,
                retain_handling: if retain_as_published { 2 } else { 0 },
            }
        };
        let packet = Packet::Subscribe(Subscribe {
            packet_id,
            identifier: None,
            filters: wishes.iter().map(subscription).collect(),
            user: Default::default(),
        });
        self.note(Event::Subscribing {
            wishes: wishes.clone(),
        });
        let asked = Asked::Subscribe(wishes);
        self.link.asked.insert(packet_id.get(), asked);
        connection.send(&packet);
    }

    /// Publishes one message, with a text of its own or empty.
    pub(crate) async fn publish(
        &mut self,
        connection: &mut Connection,
        topic: &str,
        qos: QoS,
        retain: bool,
        padding: Option<usize>,
    ) -> Result<(), Over> {
        self.exchange(connection, ANSWER_MAX, |client| {
            client.unacknowledged.len() < WINDOW
        })
        .await?;
        if self.unacknowledged.len() >= WINDOW {
            self.wrong("no acknowledgement");
            return Err(Over::Died);
        }
        self.messages += 1;
        let text = format!("c{}.{}", self.character.index, self.messages);
        let payload = padding.map_or_else(String::new, |length| {
            format!("{text} {}", "x".repeat(length))
        });
        let packet_id = (qos > QoS::AtMostOnce).then(|| self.next_packet_id());
        let publish = Publish {
            dup: false,
            qos,
            retain,
            topic: topic.into(),
            packet_id,
            properties: Default::default(),
            payload: payload.into(),
        };
        if let Some(packet_id) = packet_id {
            self.unacknowledged.push(Unacknowledged {
                packet_id,
                text: text.clone(),
                publish: publish.clone(),
                released: false,
            });
        }
        self.send(connection, &text, publish);
        Ok(())
    }

    /// Waits until everything of this client is answered.
    pub(crate) async fn settle(&mut self, connection: &mut Connection) -> Result<(), Over> {
        let settled =
            |client: &Self| client.unacknowledged.is_empty() && client.link.asked.is_empty();
        self.exchange(connection, ANSWER_MAX, settled).await?;
        if !settled(self) {
            self.wrong("no answer");
            return Err(Over::Died);
        }
        Ok(())
    }

    async fn listen(&mut self, connection: &mut Connection, limit: Duration) -> Result<(), Over> {
        self.exchange(connection, limit, |_| false).await
    }

    /// Handles packets until it is done or the time is over.
    pub(crate) async fn exchange(
        &mut self,
        connection: &mut Connection,
        limit: Duration,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), Over> {
        let deadline = Instant::now() + limit;
        while !done(self)
            && let Some(packet) = connection.next(true, deadline).await?
        {
            self.handle(connection, packet);
            if connection.dies_handled() {
                return Err(Over::Died);
            }
        }
        Ok(())
    }

    /// Whether a message has come that begins like this.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.journal.iter().rev().any(|entry| match &entry.event {
            Event::Received { text: received, .. } => received == text,
            _ => false,
        })
    }

    /// The text of the message that was published last.
    pub(crate) fn last_text(&self) -> String {
        format!("c{}.{}", self.character.index, self.messages)
    }

    /// Whether no handshake is under way, in either direction.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unacknowledged.is_empty() && self.received.is_empty() && self.link.unanswered == 0
    }

    fn handle(&mut self, connection: &mut Connection, packet: Packet) {
        match packet {
            Packet::Publish(publish) => self.handle_publish(connection, &publish),
            Packet::Pubrel(ack) => {
                self.received.remove(&ack.packet_id.get());
                let ack = Ack::new(ack.packet_id, ReasonCode::Success);
                self.answer(connection, Packet::Pubcomp(ack));
            }
            Packet::Puback(ack) => self.handle_acknowledged(&ack, QoS::AtLeastOnce),
            Packet::Pubrec(ack) => {
                self.handle_acknowledged(&ack, QoS::ExactlyOnce);
                if !ack.reason.is_error() {
                    let ack = Ack::new(ack.packet_id, ReasonCode::Success);
                    connection.send(&Packet::Pubrel(ack));
                }
            }
            Packet::Pubcomp(ack) => {
                let before = self.unacknowledged.len();
                self.unacknowledged
                    .retain(|waiting| waiting.packet_id != ack.packet_id || !waiting.released);
                if self.unacknowledged.len() == before || ack.reason.is_error() {
                    self.wrong(format!("{ack:?} (PUBCOMP) unasked for"));
                }
            }
            Packet::Suback(suback) => match self.link.asked.remove(&suback.packet_id.get()) {
                Some(Asked::Subscribe(wishes)) => {
                    let granted = |number: &usize| match self.character.wishes[*number].qos {
                        QoS::AtMostOnce => ReasonCode::Success,
                        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
                        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
                    };
                    let expected: Vec<_> = wishes.iter().map(granted).collect();
                    let error = suback.reasons != expected;
                    self.note(Event::Subscribed { wishes, error });
                }
                _ => self.wrong(format!("{suback:?} unasked for")),
            },
            Packet::Unsuback(unsuback) => match self.link.asked.remove(&unsuback.packet_id.get()) {
                Some(Asked::Unsubscribe(wish)) => drop(self.note(Event::Unsubscribed { wish })),
                _ => self.wrong(format!("{unsuback:?} unasked for")),
            },
            Packet::Disconnect(disconnect) => {
                self.link.goodbye = Some(format!("{:?}", disconnect.reason));
            }
            packet => self.wrong(format!("{packet:?}")),
        }
    }

    fn handle_publish(&mut self, connection: &mut Connection, publish: &Publish) {
        let payload = std::str::from_utf8(&publish.payload).unwrap();
        let text = payload.split(' ').next().unwrap_or_default().to_owned();
        let packet_id = publish.packet_id.map_or(0, PacketId::get);
        let known = self.received.get(&packet_id);
        let again = publish.qos == QoS::ExactlyOnce
            && known.is_some_and(|known| *known == text || publish.retain && publish.dup);
        // A retained one that is sent again is the one of then, which may be another.
        let other = known.filter(|known| **known != text && !(publish.retain && publish.dup));
        let other = other.cloned();
        self.note(Event::Received {
            text: text.clone(),
            topic: publish.topic.to_string(),
            qos: publish.qos,
            retain: publish.retain,
            packet_id,
            dup: publish.dup,
            again,
        });
        if let Some(other) = other {
            self.wrong(format!(
                "packet identifier {packet_id} of {text} waits for the PUBREL of {other}"
            ));
        }
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        self.link.unanswered += 1;
        let maximum = self.link.receive_maximum.map_or(65_535, usize::from);
        if self.link.unanswered > maximum {
            self.wrong(format!("more than Receive Maximum {maximum}"));
        }
        let ack = Ack::new(packet_id, ReasonCode::Success);
        match publish.qos {
            QoS::ExactlyOnce => {
                self.received.insert(packet_id.get(), text);
                self.answer(connection, Packet::Pubrec(ack));
            }
            _ => self.answer(connection, Packet::Puback(ack)),
        }
    }

    fn handle_acknowledged(&mut self, ack: &Ack, qos: QoS) {
        let position = self
            .unacknowledged
            .iter()
            .position(|waiting| waiting.packet_id == ack.packet_id && waiting.publish.qos == qos);
        let Some(position) = position else {
            return self.wrong(format!("{ack:?} unasked for"));
        };
        let error = ack.reason.is_error();
        let waiting = &mut self.unacknowledged[position];
        let first = !std::mem::replace(&mut waiting.released, true);
        let text = waiting.text.clone();
        if qos == QoS::AtLeastOnce || error {
            self.unacknowledged.remove(position);
        }
        if first {
            self.note(Event::Acknowledged { text, error });
        }
    }

    fn answer(&mut self, connection: &mut Connection, packet: Packet) {
        if let Some(held) = &mut self.link.mute {
            return held.push(packet);
        }
        if matches!(packet, Packet::Puback(_) | Packet::Pubcomp(_)) {
            self.link.unanswered = self.link.unanswered.saturating_sub(1);
        }
        connection.send(&packet);
    }

    fn over(&mut self, over: Over) {
        let how = match over {
            Over::Lost => Ended::Lost(self.link.goodbye.take()),
            Over::Died => Ended::Dropped,
        };
        self.note(Event::Ended { how });
    }

    /// Ends a connection; gives it back if it is left to the next one.
    pub(crate) async fn end(
        &mut self,
        over: Result<(), Over>,
        end: End,
        mut connection: Connection,
    ) -> Option<Connection> {
        if let Err(over) = over {
            self.over(over);
            return None;
        }
        connection.survive();
        let is_v5 = self.character.version == Version::V5;
        match end {
            End::Stay => {
                self.note(Event::Ended { how: Ended::Left });
                return Some(connection);
            }
            End::DisconnectWithWill if is_v5 => self.disconnect(connection, true).await,
            End::Disconnect => self.disconnect(connection, false).await,
            End::Drop | End::DisconnectWithWill => self.over(Over::Died),
        }
        None
    }

    async fn disconnect(&mut self, mut connection: Connection, will: bool) {
        self.note(Event::Disconnecting { will });
        connection.send(&Packet::Disconnect(Disconnect::new(match will {
            true => ReasonCode::DisconnectWithWillMessage,
            false => ReasonCode::Success,
        })));
        let deadline = Instant::now() + ANSWER_MAX;
        // What comes now is not handled any more.
        while let Ok(Some(_)) = connection.next(true, deadline).await {}
        match (connection.is_flushed(), Instant::now() < deadline) {
            (true, true) => drop(self.note(Event::Ended { how: Ended::Closed })),
            (false, true) => self.over(Over::Lost),
            (_, false) => self.wrong("not closed after DISCONNECT"),
        }
    }

    /// The last life: takes up its session and waits until `sentinel` has come, the last message of all for it.
    pub(crate) fn last_life(&self) -> Life {
        Life {
            node: self.character.index % self.world.nodes.len(),
            clean: false,
            expiry_s: LONG_S,
            receive_maximum: None,
            will: None,
            death: None::<Death>,
            acts: Vec::new(),
            end: End::Stay,
            away_ms: 0,
        }
    }

    /// Waits for the sentinel and for the end of all handshakes.
    pub(crate) async fn drain(&mut self, connection: &mut Connection, sentinel: &str) {
        let drained = |client: &Self| client.has(sentinel) && client.is_quiet();
        let exchanged = self.exchange(connection, ANSWER_MAX, drained).await;
        match exchanged {
            Ok(()) if drained(self) => drop(self.note(Event::Drained)),
            Ok(()) => self.wrong(format!("{sentinel} has not come")),
            Err(over) => self.over(over),
        }
    }

    /// Keeps reading until told to stop.
    pub(crate) async fn idle(&mut self, connection: &mut Connection, limit: Duration) {
        if let Ok(Err(over)) = timeout(limit, self.listen(connection, limit)).await {
            self.over(over);
        }
    }
}

/// The text of a Will.
pub(crate) fn will_text(client: usize, life: u64) -> String {
    format!("w{client}.{life}")
}

fn filter(text: &str) -> TopicFilter {
    TopicFilter::try_from(bytestring::ByteString::from(text)).unwrap()
}
