//! `subjects/streams.toml`: the durable consumers of backend services, as configuration objects of the JetStream API.
//!
//! Each has its ladder of retries and ends in a dead letter, and each also selects `replay.<durable>.>`, which its stream takes
//! too: what is published there reaches this durable alone. Creating and comparing consumers is not done here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::settings::{Settings, Tree};
use super::source::{At, Entry, Fault};
use super::streams::{Filed, Key, Kind, read_keys, read_name};
use super::subject::{intersect, replay_filter};

/// A durable consumer that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// Its stream.
    pub stream: String,
    /// Its name, unique in all streams.
    pub name: String,
    /// The `config` object of `$JS.API.CONSUMER.CREATE`, durations in nanoseconds.
    pub config: Value,
    /// Whether what it gives up becomes a dead letter.
    pub dead_letters: bool,
}

const KEYS: [Key; 10] = [
    ("description", false, Kind::Text),
    ("filters", true, Kind::Filters),
    ("filters_handle_tree", false, Kind::Filters),
    ("backoff", false, Kind::Durations),
    ("ack_wait", false, Kind::Duration),
    ("max_deliver", false, Kind::Count(1, false)),
    ("max_ack_pending", false, Kind::Count(1, true)),
    ("deliver_policy", false, Kind::OneOf(&["all", "new"])),
    ("dead_letters", false, Kind::Switch),
    ("sample_percent", false, Kind::Count(0, false)),
];

/// The ladder of one that names none: 10 s, 1 min, 5 min.
const BACKOFF_NS: [i64; 3] = [10_000_000_000, 60_000_000_000, 300_000_000_000];
const MAX_ACK_PENDING: i64 = 1_000;
/// Of how many acknowledgements in a hundred the server tells: enough for rates and times, little beside the messages.
const SAMPLE_PERCENT: i64 = 10;

/// The durables of all files while they are read: a later file's durable of the same name changes the keys that it has.
pub(super) struct Declared<'s> {
    settings: &'s Settings,
    list: Vec<Declaration>,
}

struct Declaration {
    name: String,
    stream: Option<At<String>>,
    /// File and line of its first key.
    place: String,
    keys: BTreeMap<String, At<Value>>,
}

impl<'s> Declared<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        Self {
            settings,
            list: Vec::new(),
        }
    }

    /// Reads a `[[durable]]`.
    pub(super) fn read(&mut self, entry: &mut Entry<'_, '_>) {
        let keys = read_keys(entry, &["name", "stream"], &KEYS, self.settings);
        let stream = entry.text("stream");
        let Some(name) = read_name(entry) else {
            return;
        };
        match self.list.iter_mut().find(|own| own.name == name.value) {
            Some(own) => {
                own.stream = stream.or_else(|| own.stream.take());
                own.keys.extend(keys);
            }
            None => self.list.push(Declaration {
                name: name.value,
                stream,
                place: entry.place().to_owned(),
                keys,
            }),
        }
    }

    /// Checks them with the streams, and lets each stream take what is replayed to its durables.
    pub(super) fn finish(self, streams: &mut Filed, faults: &mut Vec<Fault>) -> Vec<Durable> {
        let mut durables = Vec::new();
        for mut declared in self.list {
            declared.choose_filters(self.settings.tree);
            let before = faults.len();
            declared.check(streams, faults);
            if faults.len() == before {
                let durable = declared.into_durable();
                streams.take(&durable.stream, &replay_filter(&durable.name));
                durables.push(durable);
            }
        }
        durables
    }
}

impl Declaration {
    fn choose_filters(&mut self, tree: Tree) {
        if let Some(filters) = self.keys.remove("filters_handle_tree")
            && tree == Tree::Handle
        {
            self.keys.insert("filters".to_owned(), filters);
        }
    }

    fn check(&self, streams: &Filed, faults: &mut Vec<Fault>) {
        let mut fault = |place: &str, message: String| {
            faults.push(Fault {
                place: place.to_owned(),
                message: format!("durable {}: {message}", self.name),
            });
        };
        for (key, _, kind) in KEYS.iter().filter(|(_, required, _)| *required) {
            if !self.keys.contains_key(*key) {
                let message = format!("key `{key}`: missing, expected {}", kind.expected());
                fault(&self.place, message);
            }
        }
        let Some(stream) = &self.stream else {
            let message = "key `stream`: missing, expected the name of a stream".to_owned();
            return fault(&self.place, message);
        };
        if !streams.has(&stream.value) {
            let found = &stream.value;
            let message =
                format!("key `stream`: found {found:?}, expected the name of a [[stream]]");
            return fault(&stream.place, message);
        }
        let filters: Vec<(&str, &str)> = self.filters().collect();
        for (at, (filter, place)) in filters.iter().enumerate() {
            if !streams.stores_all(&stream.value, filter) {
                let message = format!(
                    "key `filters`: stream {} does not store all of {filter}",
                    stream.value
                );
                fault(place, message);
            }
            for (earlier, _) in filters
                .iter()
                .take(at)
                .filter(|(own, _)| intersect(own, filter))
            {
                let message = format!("key `filters`: {filter} overlaps {earlier}");
                fault(place, message);
            }
        }
        if let (Some(wait), true) = (self.keys.get("ack_wait"), self.keys.contains_key("backoff")) {
            let message = "key `ack_wait`: expected it or `backoff`, whose first step it is";
            fault(&wait.place, message.to_owned());
        }
        let (steps, tries) = (self.backoff().len(), self.number("max_deliver"));
        if let Some(tries) = tries.filter(|tries| usize::try_from(*tries).is_ok_and(|n| n < steps))
        {
            let message = format!(
                "key `max_deliver`: found {tries}, expected at least the {steps} steps of `backoff`"
            );
            fault(&self.place, message);
        }
    }

    fn filters(&self) -> impl Iterator<Item = (&str, &str)> {
        let filters = self.keys.get("filters").into_iter();
        filters.flat_map(|at| {
            let texts = at.value.as_array().into_iter().flatten();
            texts.filter_map(|filter| Some((filter.as_str()?, &*at.place)))
        })
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.keys.get(key)?.value.as_i64()
    }

    /// The waits between deliveries in nanoseconds; none where `ack_wait` is the same each time.
    fn backoff(&self) -> Vec<i64> {
        match (self.keys.get("backoff"), self.keys.get("ack_wait")) {
            (Some(backoff), _) => {
                let steps = backoff.value.as_array().into_iter().flatten();
                steps.filter_map(Value::as_i64).collect()
            }
            (None, Some(_)) => Vec::new(),
            (None, None) => BACKOFF_NS.to_vec(),
        }
    }

    fn into_durable(self) -> Durable {
        let backoff = self.backoff();
        let waits = match backoff.len() {
            0 => BACKOFF_NS.len(),
            waits => waits,
        };
        let tries = i64::try_from(waits + 1).unwrap_or(i64::MAX);
        let value = |key: &str| self.keys.get(key).map(|at| at.value.clone());
        let replay = replay_filter(&self.name);
        let mut filters: Vec<&str> = self.filters().map(|(filter, _)| filter).collect();
        filters.push(&replay);
        let mut config = json!({
            "durable_name": self.name,
            "description": value("description").unwrap_or_default(),
            "deliver_policy": value("deliver_policy").unwrap_or_else(|| "all".into()),
            "ack_policy": "explicit",
            "replay_policy": "instant",
            "max_deliver": self.number("max_deliver").unwrap_or(tries),
            "max_ack_pending": self.number("max_ack_pending").unwrap_or(MAX_ACK_PENDING),
            "filter_subjects": filters,
            "sample_freq": self.number("sample_percent").unwrap_or(SAMPLE_PERCENT).to_string(),
        });
        let wait = match value("ack_wait") {
            Some(wait) => ("ack_wait", wait),
            None => ("backoff", backoff.into()),
        };
        if let Value::Object(config) = &mut config {
            config.insert(wait.0.to_owned(), wait.1);
        }
        Durable {
            config,
            dead_letters: value("dead_letters") != Some(Value::Bool(false)),
            stream: self.stream.map(|at| at.value).unwrap_or_default(),
            name: self.name,
        }
    }
}

#[cfg(test)]
#[path = "durables_tests.rs"]
mod tests;
