//! A client that keeps its session state as the specification says, whatever happens to its connections.
//!
//! It writes down what it does and sees; only what is wrong by itself, without the other clients, is judged here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use jetway::mqtt::{
    Packet, PacketId, Publish, QoS, Subscribe, Subscription, TopicFilter, Unsubscribe,
};
use tokio::time::Instant;

use super::connection::{Connection, Over};
use super::journal::{Entry, Event, Moment};
use super::schedule::{Act, Character, Life};
use super::world::World;

/// Own messages that may wait for their acknowledgement.
const WINDOW: usize = 16;
/// How long an answer may take, with servers dying meanwhile.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A client.
pub(crate) struct Client {
    pub(crate) character: Character,
    pub(crate) journal: Vec<Entry>,
    pub(crate) world: Arc<World>,
    /// Its own QoS 1 and 2 messages, in order.
    pub(crate) unacknowledged: Vec<Unacknowledged>,
    /// QoS 2 messages whose PUBREL has not come, by packet identifier.
    pub(crate) received: HashMap<u16, String>,
    /// Whether its state is gone, and the gateway has not said that it knows.
    pub(crate) begins_anew: bool,
    packet_id: u16,
    messages: u64,
    /// Of this connection.
    pub(crate) link: Link,
}

/// One of a client's own messages.
pub(crate) struct Unacknowledged {
    pub(crate) packet_id: PacketId,
    pub(crate) text: String,
    pub(crate) publish: Publish,
    /// Whether PUBREC has come.
    pub(crate) released: bool,
}

/// What a client knows of its connection.
#[derive(Default)]
pub(crate) struct Link {
    /// SUBSCRIBE and UNSUBSCRIBE without an answer.
    pub(crate) asked: HashMap<u16, Asked>,
    /// Messages without the last answer, and how many there may be.
    pub(crate) unanswered: usize,
    pub(crate) receive_maximum: Option<u16>,
    /// Answers that are held back, if they are.
    pub(crate) mute: Option<Vec<Packet>>,
    /// The reason of the gateway's DISCONNECT.
    pub(crate) goodbye: Option<String>,
}

/// A SUBSCRIBE or an UNSUBSCRIBE, with the numbers of wishes.
pub(crate) enum Asked {
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
            begins_anew: false,
            packet_id: 0,
            messages: 0,
            link: Link::default(),
        }
    }

    pub(crate) fn note(&mut self, event: Event) -> Moment {
        let moment = self.world.clock.now();
        self.journal.push(Entry { moment, event });
        moment
    }

    pub(crate) fn wrong(&mut self, what: impl Into<String>) {
        self.note(Event::Wrong(what.into()));
    }

    /// Lives one life after the other until then.
    pub(crate) async fn live(&mut self, until: Instant) {
        let mut left: Option<Connection> = None;
        for number in 0.. {
            if Instant::now() >= until {
                break;
            }
            let mut life = Life::new(self.world.seed, &self.character, number);
            if let Some(mut connection) = self.connect(number, &mut life).await {
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

    pub(crate) fn send(&mut self, connection: &mut Connection, text: &str, publish: Publish) {
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

    /// Whether this message has come over the connection.
    pub(crate) fn has(&self, text: &str) -> bool {
        let events = self.journal.iter().rev().map(|entry| &entry.event);
        events
            .take_while(|event| !matches!(event, Event::Connected { .. }))
            .any(
                |event| matches!(event, Event::Received { text: received, .. } if received == text),
            )
    }

    /// The text of the message that was published last.
    pub(crate) fn last_text(&self) -> String {
        format!("c{}.{}", self.character.index, self.messages)
    }

    /// Whether no handshake is under way, in either direction.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unacknowledged.is_empty() && self.received.is_empty() && self.link.unanswered == 0
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
}

fn filter(text: &str) -> TopicFilter {
    TopicFilter::try_from(ByteString::from(text)).unwrap()
}
