//! What the devices remember against what lies in the stream: nothing lost, nothing twice, nothing out of order.

use std::collections::HashMap;
use std::fmt;

use super::fleet::{Journal, Transmission};
use super::support::{Backend, Stored};

/// The counts of one run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// PUBLISH packets that devices handed to their sockets, re-sends included.
    pub(crate) published: usize,
    /// Of those, answered with a PUBACK below 0x80.
    pub(crate) pubacked: usize,
    /// Of those, answered with a PUBACK of 0x80 or above.
    pub(crate) refused: usize,
    /// Messages in the stream.
    pub(crate) stored: usize,
    /// PUBACKed and not in the stream.
    pub(crate) lost: usize,
    /// The same PUBLISH more than once in the stream.
    pub(crate) duplicates: usize,
    /// Behind a later PUBLISH of the same connection.
    pub(crate) reorderings: usize,
    /// A device's own re-sends of what was stored already, but not PUBACKed.
    pub(crate) stored_again_by_devices: usize,
    /// Connections that ended before their device ended them.
    pub(crate) connections_lost: usize,
    /// What went wrong, the first few.
    pub(crate) findings: Vec<String>,
}

impl Verdict {
    /// Reads the stream and compares; messages of devices without a journal are left out.
    pub(crate) async fn of(backend: &Backend, journals: &[Journal]) -> Self {
        let mut stored = HashMap::<String, Vec<Transmission>>::new();
        for message in backend.messages("DEVICE_UP", ">").await {
            let (name, transmission) = parse(&message);
            stored.entry(name).or_default().push(transmission);
        }
        let mut verdict = Self::default();
        for journal in journals {
            let stored = stored.remove(&journal.name).unwrap_or_default();
            verdict.add(journal, &stored);
        }
        verdict
    }

    fn add(&mut self, journal: &Journal, stored: &[Transmission]) {
        self.published += journal.sent.len();
        self.pubacked += journal.pubacked.len();
        self.refused += journal.refused.len();
        self.stored += stored.len();
        self.connections_lost += journal.lost.len();
        let mut places = HashMap::<Transmission, usize>::new();
        let mut numbers = HashMap::<u64, usize>::new();
        let mut last = HashMap::<u64, u64>::new();
        for (place, transmission) in stored.iter().enumerate() {
            if let Some(first) = places.insert(*transmission, place) {
                self.duplicates += 1;
                self.found(journal, "twice", *transmission, &[first, place]);
                continue;
            }
            *numbers.entry(transmission.number).or_default() += 1;
            let before = last.insert(transmission.connection, transmission.number);
            if before.is_some_and(|before| before > transmission.number) {
                self.reorderings += 1;
                self.found(journal, "behind a later one", *transmission, &[place]);
            }
        }
        self.stored_again_by_devices += numbers.values().map(|times| times - 1).sum::<usize>();
        for transmission in &journal.pubacked {
            if !places.contains_key(transmission) {
                self.lost += 1;
                self.found(journal, "PUBACKed and lost", *transmission, &[]);
            }
        }
        // A device that kept its connection has everything PUBACKed, so this says: complete, once, in order.
        if journal.lost.is_empty() && journal.refused.is_empty() && stored != journal.sent {
            self.findings.push(format!(
                "{}: sent {}, stored {}, not the same",
                journal.name,
                journal.sent.len(),
                stored.len()
            ));
        }
    }

    fn found(&mut self, journal: &Journal, what: &str, which: Transmission, places: &[usize]) {
        if self.findings.len() < 20 {
            let finding = format!("{}: {what}: {which:?} at {places:?}", journal.name);
            self.findings.push(finding);
        }
    }

    /// Prints the counts; panics when a promise was broken.
    pub(crate) fn hold(&self, test: &str) {
        println!("{test}: {self}");
        let broken = self.lost + self.duplicates + self.reorderings;
        assert!(
            broken == 0 && self.findings.is_empty(),
            "{test}: {self}\n{:#?}",
            self.findings
        );
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "published {}, PUBACKed {}, refused {}, stored {}, lost {}, duplicates {}, reorderings {}, \
             stored again by devices {}, connections lost {}",
            self.published,
            self.pubacked,
            self.refused,
            self.stored,
            self.lost,
            self.duplicates,
            self.reorderings,
            self.stored_again_by_devices,
            self.connections_lost
        )
    }
}

/// Who sent it, and as which transmission.
fn parse(message: &Stored) -> (String, Transmission) {
    let mut words = message.text().split(' ');
    let mut next = || words.next().unwrap_or_else(|| panic!("{message:?}"));
    let name = next().to_owned();
    let connection = next().parse().unwrap();
    let number = next().parse().unwrap();
    (name, Transmission { connection, number })
}
