//! Compares what the stream holds and what the clients received with the model.

use std::collections::{BTreeMap, HashMap, HashSet};

use jetway::mqtt::QoS;

use super::model::{Model, Receipt, Sent, Session, Window};
use super::schedule::Character;

/// A message of the stream.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) sequence: u64,
    pub(crate) topic: String,
    pub(crate) text: String,
}

/// What is wrong, and with which client.
pub(crate) struct Verdict<'a> {
    model: &'a Model,
    characters: &'a [Character],
    /// The sequences of each text, rising.
    copies: HashMap<&'a str, Vec<u64>>,
    /// What is stored: text, first sequence; in the order in which it was sent.
    stored: Vec<(&'a str, u64, &'a Sent)>,
    pub(crate) faults: Vec<(usize, String)>,
}

/// How often each thing was checked: a run that checks nothing proves nothing.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) stored: usize,
    pub(crate) receipts: usize,
    pub(crate) required: usize,
    pub(crate) exactly_once: usize,
    pub(crate) sessions: usize,
    pub(crate) wills: usize,
}

impl<'a> Verdict<'a> {
    pub(crate) fn new(model: &'a Model, characters: &'a [Character], stream: &'a [Stored]) -> Self {
        let mut copies: HashMap<&str, Vec<u64>> = HashMap::new();
        for stored in stream.iter().filter(|stored| !stored.text.is_empty()) {
            copies
                .entry(&stored.text)
                .or_default()
                .push(stored.sequence);
        }
        let stored = copies.iter().filter_map(|(text, copies)| {
            let sent = model.sent.get(*text)?;
            Some((*text, copies[0], sent))
        });
        let mut stored: Vec<_> = stored.collect();
        stored.sort_unstable_by_key(|(_, _, sent)| sent.first);
        Self {
            model,
            characters,
            copies,
            stored,
            faults: model.faults.clone(),
        }
    }

    fn copies(&self, text: &str) -> &[u64] {
        self.copies.get(text).map_or(&[], Vec::as_slice)
    }

    fn fault(&mut self, client: usize, text: String) {
        self.faults.push((client, text));
    }

    /// All of it.
    pub(crate) fn judge(&mut self, stream: &[Stored]) -> Checked {
        let mut checked = Checked::default();
        self.store(stream, &mut checked);
        self.order_in_store();
        self.wills(&mut checked);
        for client in 0..self.model.sessions.len() {
            for session in &self.model.sessions[client] {
                self.session(client, session, &mut checked);
                checked.sessions += 1;
            }
        }
        checked
    }

    /// G-STORE, G-ONCE: what is acknowledged is stored; QoS 2 once.
    fn store(&mut self, stream: &[Stored], checked: &mut Checked) {
        for stored in stream.iter().filter(|stored| !stored.text.is_empty()) {
            match self.model.sent.get(&stored.text) {
                None => self.fault(0, format!("{stored:?} was never sent")),
                Some(sent) if sent.topic != stored.topic => {
                    self.fault(
                        sent.publisher,
                        format!("{stored:?} was sent on {}", sent.topic),
                    );
                }
                Some(_) => {}
            }
        }
        for (text, sent) in &self.model.sent {
            if sent.is_will || sent.empty {
                continue;
            }
            checked.stored += 1;
            let copies = self.copies(text).len();
            let most = match sent.qos {
                QoS::AtLeastOnce => sent.connections.len(),
                _ => 1,
            };
            let least = usize::from(sent.qos > QoS::AtMostOnce && sent.acknowledged.is_some());
            if copies < least || copies > most {
                let text = format!("{text} is stored {copies} times, expected {least} to {most}");
                self.fault(sent.publisher, text);
            }
        }
    }

    /// G-ORDER: what one client sent on one connection, and what of all its connections was acknowledged, is stored first in
    /// the order in which it was sent first; QoS 2 messages for themselves, whose time is the PUBREL [MQTT-4.6.0-3].
    fn order_in_store(&mut self) {
        let mut last: HashMap<(usize, bool), (&str, u64)> = HashMap::new();
        let mut of_connection: HashMap<(usize, bool, usize), (&str, u64)> = HashMap::new();
        let mut faults = Vec::new();
        for (text, sequence, sent) in self.stored.iter().filter(|it| !it.2.is_will) {
            let class = (sent.publisher, sent.qos == QoS::ExactlyOnce);
            let connection = (class.0, class.1, sent.connections[0]);
            let here = (*text, *sequence);
            let mut before: Vec<_> = of_connection.insert(connection, here).into_iter().collect();
            if sent.acknowledged.is_some() {
                before.extend(last.insert(class, here));
            }
            for (other, at) in before.into_iter().filter(|(_, at)| at > sequence) {
                let text =
                    format!("{text} is stored as {sequence}, {other}, sent before it, as {at}");
                faults.push((sent.publisher, text));
            }
        }
        self.faults.extend(faults);
    }

    /// G10.
    fn wills(&mut self, checked: &mut Checked) {
        for will in &self.model.wills {
            checked.wills += 1;
            let copies = self.copies(&will.text).len();
            if copies < will.at_least || copies > will.at_most {
                let (least, most) = (will.at_least, will.at_most);
                self.fault(
                    will.client,
                    format!(
                        "will {} is stored {copies} times, expected {least} to {most}",
                        will.text
                    ),
                );
            }
        }
    }

    fn session(&mut self, client: usize, session: &Session, checked: &mut Checked) {
        let character = &self.characters[client];
        let is_live = |receipt: &&Receipt| !receipt.retain || character.retain_as_published;
        let mut received: HashMap<&str, Vec<&Receipt>> = HashMap::new();
        // By the stream's order: each first receipt with the sequence that it has at least.
        let mut last = (0, "nothing");
        let mut at: Vec<(u64, u64)> = Vec::new();
        for receipt in &session.receipts {
            checked.receipts += 1;
            self.receipt(client, session, receipt);
            if receipt.text.is_empty() {
                continue;
            }
            if !is_live(&receipt) {
                if !self
                    .model
                    .sent
                    .get(&receipt.text)
                    .is_some_and(|sent| sent.retain)
                {
                    self.fault(client, format!("{receipt:?} is not retained"));
                }
                continue;
            }
            let times = received.entry(&receipt.text).or_default();
            times.push(receipt);
            if times.len() > 1 {
                let times = times.clone();
                self.repeated(client, &times);
                continue;
            }
            match self
                .copies(&receipt.text)
                .iter()
                .find(|copy| **copy > last.0)
            {
                Some(sequence) => {
                    last = (*sequence, &receipt.text);
                    at.push((receipt.tick, *sequence));
                }
                None => {
                    let text = format!(
                        "{receipt:?}, stored as {:?}, came behind {} ({})",
                        self.copies(&receipt.text),
                        last.1,
                        last.0
                    );
                    self.fault(client, text);
                }
            }
        }
        for window in &session.windows {
            self.required(client, session, window, &received, &at, checked);
        }
    }

    /// One message that came: to whom it may concern, with the right QoS.
    fn receipt(&mut self, client: usize, session: &Session, receipt: &Receipt) {
        let character = &self.characters[client];
        if receipt.dup && receipt.connection == session.first_connection {
            self.fault(client, format!("{receipt:?} is no duplicate"));
        }
        let sent = self.model.sent.get(&receipt.text);
        if sent.is_none() && !receipt.text.is_empty() {
            return self.fault(client, format!("{receipt:?} was never sent"));
        }
        // One without a text is sent again whatever became of the subscription [MQTT-3.10.4-3].
        let unknown = if receipt.dup { 0 } else { receipt.tick };
        let first = sent.map_or(unknown, |sent| sent.first);
        let is_own = sent.is_some_and(|sent| sent.publisher == client);
        let (mut highest, mut lowest) = (None, QoS::AtMostOnce);
        for window in &session.windows {
            let wish = &character.wishes[window.wish];
            let selects = window.asked < receipt.tick
                && window
                    .left
                    .is_none_or(|left| first < left || receipt.retain)
                && matches(&wish.filter, &receipt.topic)
                && !(is_own && wish.no_local && !receipt.retain);
            if selects {
                highest = highest.max(Some(wish.qos));
            }
            let is_certain = window.granted.is_some_and(|granted| granted < first)
                && window.leaving.is_none_or(|leaving| leaving > receipt.tick);
            if selects && is_certain {
                lowest = lowest.max(wish.qos);
            }
        }
        let published = sent.map_or(QoS::ExactlyOnce, |sent| sent.qos);
        match highest {
            None => self.fault(client, format!("{receipt:?} matches no subscription")),
            // A retained one that is sent again is the one of then, which may be another.
            Some(_) if receipt.retain && receipt.dup => {}
            Some(highest) if receipt.qos > highest.min(published) => {
                self.fault(client, format!("{receipt:?} has a QoS above {highest:?}"));
            }
            Some(_) if sent.is_some() && receipt.qos < lowest.min(published) && !receipt.retain => {
                self.fault(client, format!("{receipt:?} has a QoS below {lowest:?}"));
            }
            Some(_) => {}
        }
    }

    /// The same text came again: `times` ends with it.
    fn repeated(&mut self, client: usize, times: &[&Receipt]) {
        let [first, .., last] = times else { return };
        let copies = self.copies(&last.text).len();
        let on_connection = |receipt: &&&Receipt| receipt.connection == last.connection;
        let here = times.iter().filter(on_connection).count();
        let is_once =
            copies == 1 && (last.qos != QoS::AtLeastOnce || first.qos != QoS::AtLeastOnce);
        if is_once || here > copies {
            self.fault(
                client,
                format!("{last:?} came before: {first:?}; it is stored {copies} times"),
            );
        }
    }

    /// What must have come for a subscription: everything until the end, or until the last that came while it was in force.
    fn required(
        &mut self,
        client: usize,
        session: &Session,
        window: &Window,
        received: &HashMap<&str, Vec<&Receipt>>,
        at: &[(u64, u64)],
        checked: &mut Checked,
    ) {
        let Some(granted) = window.granted else {
            return;
        };
        let wish = &self.characters[client].wishes[window.wish];
        let up_to = match window.leaving {
            None if session.drained => u64::MAX,
            leaving => {
                let end = leaving.unwrap_or(u64::MAX);
                let before = at.iter().filter(|(tick, _)| *tick < end);
                before.map(|(_, sequence)| *sequence).max().unwrap_or(0)
            }
        };
        let mut missing = Vec::new();
        let begin = self
            .stored
            .partition_point(|(_, _, sent)| sent.first <= granted);
        let end = window.leaving.unwrap_or(u64::MAX);
        let sent = self.stored[begin..].iter();
        for (text, sequence, sent) in sent.take_while(|(_, _, sent)| sent.first < end) {
            let qos = sent.qos.min(wish.qos);
            let concerns = *sequence < up_to
                && qos > QoS::AtMostOnce
                && matches(&wish.filter, &sent.topic)
                && !(wish.no_local && sent.publisher == client);
            if !concerns {
                continue;
            }
            checked.required += 1;
            checked.exactly_once += usize::from(qos == QoS::ExactlyOnce);
            if !received.contains_key(text) {
                missing.push((*sequence, *text));
            }
        }
        missing.sort_unstable();
        for (sequence, text) in missing {
            self.fault(
                client,
                format!("{text} (stored as {sequence}) has not come for {wish:?}, {window:?}, up to {up_to}"),
            );
        }
    }

    /// Retained messages at the end: of each topic the last acknowledged one, or one that was sent behind it. Or the last one
    /// stored: what was sent with QoS 1 before it may have been sent once more behind it.
    pub(crate) fn retained(&mut self, found: &HashMap<String, String>, stream: &[Stored]) {
        let by_topic = stream.iter().map(|stored| (stored.topic.as_str(), stored));
        let newest: HashMap<&str, &Stored> = by_topic.collect();
        let mut by_topic: BTreeMap<&str, Vec<(u64, &str, &Sent)>> = BTreeMap::new();
        for (text, sent) in self.model.sent.iter().filter(|(_, sent)| sent.retain) {
            let all = by_topic.entry(&sent.topic).or_default();
            all.push((sent.first, text, sent));
        }
        let known: HashSet<&str> = by_topic.keys().copied().collect();
        for topic in found.keys().filter(|topic| !known.contains(topic.as_str())) {
            self.faults
                .push((0, format!("{topic} has a retained message")));
        }
        for (topic, mut all) in by_topic {
            all.sort_unstable_by_key(|(tick, ..)| *tick);
            let client = all[0].2.publisher;
            let last = all
                .iter()
                .rposition(|(_, _, sent)| sent.acknowledged.is_some());
            let value = |sent: &Sent, text: &str| match sent.empty {
                true => None,
                false => Some(text.to_owned()),
            };
            let mut allowed: Vec<Option<String>> = all[last.unwrap_or(0)..]
                .iter()
                .map(|(_, text, sent)| value(sent, text))
                .collect();
            if last.is_none() {
                allowed.push(None);
            }
            let newest = newest.get(topic).map(|stored| stored.text.clone());
            allowed.extend(newest.map(|text| (!text.is_empty()).then_some(text)));
            let is = found.get(topic).cloned();
            if !allowed.contains(&is) {
                self.fault(
                    client,
                    format!("retained on {topic}: {is:?}, expected one of {allowed:?}"),
                );
            }
        }
    }
}

/// Whether a topic filter matches a topic name (§4.7), as the specification says it, not as the gateway does it.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    let mut topic = topic.split('/');
    for level in filter.split('/') {
        match (level, topic.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (level, Some(name)) if level == name => {}
            _ => return false,
        }
    }
    topic.next().is_none()
}
