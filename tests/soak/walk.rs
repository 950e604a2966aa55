//! Reads the journal of one client, and knows at each place in it what the servers know of its session.

use std::collections::HashMap;
use std::time::Duration;

use jetway::mqtt::QoS;

use super::connecting::will_text;
use super::journal::{Ended, Entry, Event, Moment};
use super::model::{Model, Receipt, Sent, Session, WillOwed, Window};
use super::schedule::{LONG_S, Victim};
use super::world::Outage;

/// What clocks and tasks may be late.
const SLACK: Duration = Duration::from_millis(1_000);
/// How long a gateway may take to notice that another one is dead.
const LEASE: Duration = Duration::from_secs(12);

/// What is known of the session that the servers have for a client.
#[derive(Debug, Clone, Copy)]
enum Stored {
    No,
    Unknown,
    Yes {
        expiry_s: u32,
        ended: Option<Moment>,
    },
}

#[derive(Debug, Clone)]
struct Life {
    number: u64,
    node: usize,
    connecting: Moment,
    clean: bool,
    expiry_s: u32,
    will: Option<(QoS, u32)>,
    is_connected: bool,
    disconnecting: Option<bool>,
}

/// A Will whose connection is over, and whose delay may not be.
struct Pending {
    text: String,
    delay: Duration,
    ended: Moment,
    how: Ended,
    /// Whether a CONNECT without an answer came since.
    is_disturbed: bool,
}

/// One client's journal, read from its beginning.
pub(crate) struct Walk<'a> {
    model: &'a mut Model,
    outages: &'a [Outage],
    client: usize,
    sessions: Vec<Session>,
    stored: Stored,
    /// When its last connection began, and the last sign of it.
    begun: Moment,
    alive: Moment,
    life: Option<Life>,
    connection: usize,
    pending: Option<Pending>,
    again: HashMap<u16, usize>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(model: &'a mut Model, outages: &'a [Outage], client: usize) -> Self {
        let start = Moment {
            tick: 0,
            at: Duration::ZERO,
        };
        Self {
            model,
            outages,
            client,
            sessions: Vec::new(),
            stored: Stored::No,
            begun: start,
            alive: start,
            life: None,
            connection: 0,
            pending: None,
            again: HashMap::new(),
        }
    }

    fn fault(&mut self, text: impl Into<String>) {
        self.model.faults.push((self.client, text.into()));
    }

    /// Reads one entry.
    pub(crate) fn step(&mut self, entry: &Entry) {
        let (moment, tick) = (entry.moment, entry.moment.tick);
        let before = self.alive;
        if self.life.as_ref().is_some_and(|life| life.is_connected) {
            self.alive = moment;
        }
        match &entry.event {
            Event::Connecting { .. } => self.connecting(moment, &entry.event),
            Event::Connected { present } => self.connected(moment, *present),
            Event::Refused { .. } => self.unanswered(),
            Event::Publish { .. } => self.published(tick, &entry.event),
            Event::Acknowledged { text, error } => {
                let sent = self.model.sent.get_mut(text).expect("it was sent");
                sent.refused |= *error;
                if !error && sent.qos == QoS::AtLeastOnce {
                    sent.acknowledged = Some(tick);
                }
            }
            // Until then the gateway has a QoS 2 message, and the session ends with it.
            Event::Completed { text } => {
                let sent = self.model.sent.get_mut(text).expect("it was sent");
                sent.acknowledged = Some(tick);
            }
            Event::Subscribing { wishes } => self.subscribing(tick, wishes),
            Event::Subscribed { wishes, error } => {
                if *error {
                    self.fault(format!("SUBACK refuses {wishes:?}"));
                }
                for wish in wishes {
                    self.windows(Some(*wish), |window| {
                        if window.leaving.is_none() {
                            window.granted.get_or_insert(tick);
                        }
                    });
                }
            }
            Event::Unsubscribing { wish } => self.windows(Some(*wish), |window| {
                window.leaving.get_or_insert(tick);
            }),
            // Only what UNSUBSCRIBE found: it may be asked for again behind it.
            Event::Unsubscribed { wish } => self.windows(Some(*wish), |window| {
                if window.leaving.is_some() {
                    window.left.get_or_insert(tick);
                }
            }),
            Event::Received { .. } => self.received(tick, &entry.event),
            Event::Disconnecting { will } => {
                if let Some(life) = &mut self.life {
                    life.disconnecting = Some(*will);
                }
            }
            Event::Ended { how } => self.ended(moment, before, how),
            Event::Wrong(what) => self.fault(format!("{:.3}s: {what}", moment.at.as_secs_f64())),
            Event::Drained => self.sessions.last_mut().expect("one").drained = true,
        }
    }

    fn connecting(&mut self, moment: Moment, event: &Event) {
        if let Event::Connecting {
            life,
            node,
            clean,
            expiry_s,
            will,
        } = event
        {
            self.connection += 1;
            self.life = Some(Life {
                number: *life,
                node: *node,
                connecting: moment,
                clean: *clean,
                expiry_s: *expiry_s,
                will: *will,
                is_connected: false,
                disconnecting: None,
            });
            if let Some((qos, _)) = will {
                self.will_sent(*life, *qos, moment.tick);
            }
        }
    }

    /// Asked for once more, a subscription goes on as it is: its options are always the same.
    fn subscribing(&mut self, tick: u64, wishes: &[usize]) {
        let session = self.sessions.last_mut().expect("it is connected");
        for wish in wishes {
            let mut windows = session.windows.iter();
            if !windows.any(|window| window.wish == *wish && window.leaving.is_none()) {
                session.windows.push(Window {
                    wish: *wish,
                    asked: tick,
                    granted: None,
                    leaving: None,
                    left: None,
                });
            }
        }
    }

    fn windows(&mut self, wish: Option<usize>, change: impl Fn(&mut Window)) {
        if let Some(session) = self.sessions.last_mut() {
            let all = session.windows.iter_mut();
            all.filter(|window| wish.is_none_or(|wish| window.wish == wish))
                .for_each(change);
        }
    }

    fn will_sent(&mut self, life: u64, qos: QoS, tick: u64) {
        let sent = Sent {
            publisher: self.client,
            topic: format!("w/{}", self.client),
            qos,
            retain: false,
            empty: false,
            is_will: true,
            first: tick,
            connections: Vec::new(),
            acknowledged: None,
            refused: false,
        };
        self.model.sent.insert(will_text(self.client, life), sent);
    }

    fn published(&mut self, tick: u64, event: &Event) {
        if let Event::Publish {
            text,
            topic,
            qos,
            retain,
            empty,
            ..
        } = event
        {
            let sent = self.model.sent.entry(text.clone()).or_insert_with(|| Sent {
                publisher: self.client,
                topic: topic.clone(),
                qos: *qos,
                retain: *retain,
                empty: *empty,
                is_will: false,
                first: tick,
                connections: Vec::new(),
                acknowledged: None,
                refused: false,
            });
            sent.connections.push(self.connection);
        }
    }

    fn received(&mut self, tick: u64, event: &Event) {
        if let Event::Received {
            text,
            topic,
            qos,
            retain,
            packet_id,
            dup,
            again,
        } = event
        {
            let before = self.again.insert(*packet_id, self.connection);
            if *again {
                if before == Some(self.connection) {
                    self.fault(format!("{text} sent again on a live connection"));
                }
                return;
            }
            let connection = self.connection;
            let session = self.sessions.last_mut().expect("it is connected");
            session.receipts.push(Receipt {
                tick,
                text: text.clone(),
                topic: topic.clone(),
                qos: *qos,
                retain: *retain,
                dup: *dup,
                connection,
            });
        }
    }

    /// What CONNACK must say; none: nobody knows.
    fn expects_present(&self, life: &Life, now: Moment) -> Option<bool> {
        match self.stored {
            _ if life.clean => Some(false),
            Stored::No => Some(false),
            Stored::Unknown => None,
            Stored::Yes { expiry_s, .. } if expiry_s == LONG_S => Some(true),
            Stored::Yes { expiry_s, ended } => {
                let expiry = Duration::from_secs(expiry_s.into());
                // A gateway that could not be heard was taken for dead, and the time began then.
                if self.disturbed(self.begun, now) {
                    return None;
                }
                if now.at < self.alive.at + expiry.saturating_sub(SLACK) {
                    return Some(true);
                }
                let noticed = ended?;
                let over = life.connecting.at > noticed.at + expiry + SLACK * 2;
                over.then_some(false)
            }
        }
    }

    /// Whether a server was out of order around that time.
    fn disturbed(&self, from: Moment, to: Moment) -> bool {
        self.outages
            .iter()
            .any(|outage| outage.from.at < to.at + SLACK && from.at < outage.to.at + SLACK * 3)
    }

    fn node_died(&self, node: usize, from: Moment, to: Moment) -> bool {
        self.outages.iter().any(|outage| {
            outage.victim == Victim::Node(node)
                && outage.from.at < to.at + SLACK
                && from.at < outage.to.at
        })
    }

    fn connected(&mut self, now: Moment, present: bool) {
        let life = self.life.clone().expect("CONNECT came before");
        if let Some(expected) = self.expects_present(&life, now)
            && expected != present
        {
            self.fault(format!(
                "life {} at {:.3}s: session present {present}, expected {expected}",
                life.number,
                now.at.as_secs_f64()
            ));
        }
        self.settle_will(&life, now, present);
        if !present || self.sessions.is_empty() {
            self.windows(None, |window| {
                window.leaving.get_or_insert(life.connecting.tick);
                window.left.get_or_insert(now.tick);
            });
            self.again.clear();
            self.sessions.push(Session {
                first_connection: self.connection,
                ..Session::default()
            });
        }
        (self.begun, self.alive) = (now, now);
        self.stored = match life.expiry_s {
            0 => Stored::No,
            expiry_s => Stored::Yes {
                expiry_s,
                ended: None,
            },
        };
        self.life = Some(Life {
            is_connected: true,
            ..life
        });
    }

    /// The last CONNECT may have done its work, or not.
    fn unanswered(&mut self) {
        let Some(life) = self.life.take() else { return };
        let goes_on = !life.clean
            && life.expiry_s == LONG_S
            && matches!(self.stored, Stored::Yes { expiry_s, .. } if expiry_s == LONG_S);
        if !goes_on {
            self.stored = Stored::Unknown;
            self.windows(None, |window| {
                window.leaving.get_or_insert(life.connecting.tick);
            });
        }
        if let Some(pending) = &mut self.pending {
            pending.is_disturbed = true;
        }
        if life.will.is_some() {
            self.will(will_text(self.client, life.number), 0, 1);
        }
    }

    fn ended(&mut self, now: Moment, alive: Moment, how: &Ended) {
        let Some(life) = self.life.clone() else {
            return;
        };
        if !life.is_connected {
            return self.unanswered();
        }
        self.life = None;
        if let (Ended::Lost(reason), None) = (how, life.disconnecting)
            && !self.disturbed(alive, now)
        {
            self.fault(format!(
                "life {} at {:.3}s: closed by the gateway: {reason:?}",
                life.number,
                now.at.as_secs_f64()
            ));
        }
        if life.expiry_s == 0 {
            self.windows(None, |window| {
                window.leaving.get_or_insert(now.tick);
            });
        } else if let Stored::Yes { ended, .. } = &mut self.stored {
            *ended = (*how != Ended::Left).then_some(now);
        }
        self.owe_will(&life, now, how);
    }

    fn owe_will(&mut self, life: &Life, now: Moment, how: &Ended) {
        let Some((_, delay_s)) = life.will else {
            return;
        };
        let text = will_text(self.client, life.number);
        if life.disconnecting == Some(false) {
            // No connection survives its node, however late its client reads on.
            let read = *how == Ended::Closed && !self.node_died(life.node, self.begun, now);
            return self.will(text, 0, usize::from(!read));
        }
        match delay_s.min(life.expiry_s) {
            0 => self.will(text, 1, 1),
            delay_s => {
                self.pending = Some(Pending {
                    text,
                    delay: Duration::from_secs(delay_s.into()),
                    ended: now,
                    how: how.clone(),
                    is_disturbed: false,
                });
            }
        }
    }

    /// A delayed Will is given up by whoever goes on with the session in time, and by nobody else.
    fn settle_will(&mut self, life: &Life, now: Moment, present: bool) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let Pending {
            text,
            delay,
            ended,
            how,
            is_disturbed,
        } = pending;
        let in_time = now.at < ended.at + delay.saturating_sub(SLACK / 2);
        let too_late = life.connecting.at > ended.at + delay + SLACK + LEASE && how != Ended::Left;
        match (present, is_disturbed) {
            (_, true) => self.will(text, 0, 1),
            (false, false) => self.will(text, 1, 1),
            (true, false) if in_time => self.will(text, 0, 0),
            (true, false) if too_late => self.will(text, 1, 1),
            (true, false) => self.will(text, 0, 1),
        }
    }

    fn will(&mut self, text: String, at_least: usize, at_most: usize) {
        self.model.wills.push(WillOwed {
            client: self.client,
            text,
            at_least,
            at_most,
        });
    }

    /// The client's sessions.
    pub(crate) fn finish(mut self) -> Vec<Session> {
        if let Some(pending) = self.pending.take() {
            self.will(pending.text, 0, 1);
        }
        // Still connected: nothing is due.
        if let Some(life) = self.life.take()
            && life.will.is_some()
        {
            self.will(will_text(self.client, life.number), 0, 0);
        }
        self.sessions
    }
}
