//! What the journals of all clients say must be true: messages, sessions with what they subscribed to, Wills.
//!
//! Where an answer was lost, both outcomes are allowed; everything else is known exactly.

use std::collections::HashMap;

use jetway::mqtt::QoS;

use super::journal::Entry;
use super::schedule::Character;
use super::walk::Walk;
use super::world::Outage;

/// A message.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) publisher: usize,
    pub(crate) topic: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) empty: bool,
    pub(crate) is_will: bool,
    /// Before the first time; of a Will, before its CONNECT.
    pub(crate) first: u64,
    /// The connection of each time.
    pub(crate) connections: Vec<usize>,
    /// After its PUBACK or PUBCOMP.
    pub(crate) acknowledged: Option<u64>,
    pub(crate) refused: bool,
}

/// One session from its beginning to its end.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) windows: Vec<Window>,
    pub(crate) receipts: Vec<Receipt>,
    /// The number of its first connection.
    pub(crate) first_connection: usize,
    /// Whether all that is owed has come, because the run is over.
    pub(crate) drained: bool,
}

/// A subscription in time: in ticks.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) wish: usize,
    /// Before SUBSCRIBE.
    pub(crate) asked: u64,
    /// After SUBACK.
    pub(crate) granted: Option<u64>,
    /// Before UNSUBSCRIBE, or what may have ended the session.
    pub(crate) leaving: Option<u64>,
    /// After UNSUBACK, or the known end of the session.
    pub(crate) left: Option<u64>,
}

/// A message that a client received.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) tick: u64,
    pub(crate) text: String,
    pub(crate) topic: String,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) connection: usize,
}

/// How often a Will is to be published.
#[derive(Debug)]
pub(crate) struct WillOwed {
    pub(crate) client: usize,
    pub(crate) text: String,
    pub(crate) at_least: usize,
    pub(crate) at_most: usize,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sent: HashMap<String, Sent>,
    /// By client.
    pub(crate) sessions: Vec<Vec<Session>>,
    pub(crate) wills: Vec<WillOwed>,
    /// Client and what is wrong.
    pub(crate) faults: Vec<(usize, String)>,
}

impl Model {
    /// Reads all journals.
    pub(crate) fn read(clients: &[(Character, Vec<Entry>)], outages: &[Outage]) -> Self {
        let mut model = Self::default();
        for (character, journal) in clients {
            let mut walk = Walk::new(&mut model, outages, character.index);
            for entry in journal {
                walk.step(entry);
            }
            let sessions = walk.finish();
            model.sessions.push(sessions);
        }
        model
    }
}
