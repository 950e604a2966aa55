//! All rules: loaded and checked once, then looked up by a topic's first level.
//!
//! The project's own files, of the profile, are compiled in; an operator's file adds rules and streams and changes streams.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;

use super::capture::Captures;
use super::check::check;
use super::durables::{self, Durable};
use super::levels;
use super::percent::take;
use super::rule::Rule;
use super::settings::{Profile, Settings};
use super::source::{Fault, Source};
use super::streams::{Declared, Stream};
use super::subject::{self, SUBJECT_BYTES_MAX};
use super::template::Named;
use crate::device::{Address, DeviceId, Direction};
use crate::message::{Subject, covers};

const RULES: Source<'static> = Source {
    name: "subjects/rules.toml",
    text: include_str!("../../subjects/rules.toml"),
};
const STREAMS: Source<'static> = Source {
    name: "subjects/streams.toml",
    text: include_str!("../../subjects/streams.toml"),
};
const OPEN: Source<'static> = Source {
    name: "subjects/open.toml",
    text: include_str!("../../subjects/open.toml"),
};
/// Of every profile.
const GATEWAY: Source<'static> = Source {
    name: "subjects/gateway.toml",
    text: include_str!("../../subjects/gateway.toml"),
};

/// The mapping between MQTT topics and NATS subjects, and the streams that hold those.
#[derive(Debug)]
pub struct Mapping {
    /// The streams that must exist; each stands behind those that it sources.
    pub streams: Vec<Stream>,
    /// The durable consumers of services that must exist.
    pub durables: Vec<Durable>,
    /// What devices get, from which a node reads all that its sessions subscribe to.
    pub delivery: Delivery,
    pub(super) rules: Vec<Arc<Rule>>,
    /// Indices into `rules`.
    by_first_level: HashMap<String, Vec<usize>>,
}

/// The stored messages that devices get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The one stream that has them all, in their order.
    pub stream: Arc<str>,
    /// The filters that select them in it; they overlap nowhere.
    pub filters: Vec<Subject>,
}

impl Delivery {
    fn of(rules: &[Rule]) -> Self {
        let delivered = || rules.iter().filter(|rule| rule.is_delivered());
        let mut filters: Vec<Subject> = Vec::new();
        for rule in delivered() {
            let filter = rule.subject.value.filter_of_all_handles();
            if !filters.iter().any(|known| covers(known, &filter)) {
                filters.retain(|known| !covers(&filter, known));
                filters.push(filter.into());
            }
        }
        let stream = delivered().next().map(|rule| rule.stream.value.clone());
        Self {
            stream: stream.unwrap_or_default(),
            filters,
        }
    }
}

impl Mapping {
    /// Reads the project's rules and streams, and an operator's: the file's name for faults, and its text.
    ///
    /// # Errors
    /// Every fault of every file and of the settings, never only the first.
    pub fn load(settings: &Settings, extra: Option<(&str, &str)>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut rules = Vec::new();
        let mut streams = Declared::new(settings);
        let mut durables = durables::Declared::new(settings);
        let own: &[Source<'_>] = match settings.profile {
            Profile::Device => &[RULES, STREAMS, GATEWAY],
            Profile::Open => &[OPEN, GATEWAY],
        };
        let extra = extra.map(|(name, text)| Source { name, text });
        for source in own.iter().copied().chain(extra) {
            source.entries(
                &["rule", "stream", "durable"],
                &mut faults,
                |kind, mut entry| match kind {
                    "rule" => rules.extend(Rule::read(&mut entry, settings)),
                    "durable" => durables.read(&mut entry),
                    _ => streams.read(&mut entry),
                },
            );
        }
        let mut filed = streams.finish(&mut faults);
        check(&rules, &filed, settings, &mut faults);
        let durables = durables.finish(&mut filed, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut by_first_level: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            let first = rule.pattern.value.first().to_owned();
            by_first_level.entry(first).or_default().push(at);
        }
        Ok(Self {
            streams: filed.into_streams(),
            durables,
            delivery: Delivery::of(&rules),
            rules: rules.into_iter().map(Arc::new).collect(),
            by_first_level,
        })
    }

    /// What a topic name or filter addresses; none if it has no rule's shape.
    ///
    /// In a filter, `+` may stand only where the type is (of an rpc topic: the id). Shared subscriptions and filters that
    /// match topics of more than one device have no rule's shape. Names are not checked beyond that. In the open profile
    /// everything has the one rule's shape.
    #[must_use]
    pub fn address<'a>(&'a self, topic_or_filter: &'a str) -> Option<Address<'a>> {
        let (rule, captures) = self.find(topic_or_filter)?;
        Some(Address {
            topic: topic_or_filter,
            direction: rule.direction,
            handle: &rule.handle.value,
            kind: captures.kind,
            product: captures.product,
            name: captures.name,
        })
    }

    /// The subject filters that select all that a topic filter matches in [`Self::delivery`], and maybe more: whoever gets
    /// a message compares its topic. A shared subscription's filter is the one behind `$share/<group>/`.
    ///
    /// None if nothing that is delivered can match it.
    #[must_use]
    pub fn subscription(&self, filter: &str) -> Option<Vec<Subject>> {
        let (rule, captures) = self.find(filter).filter(|(rule, _)| rule.is_delivered())?;
        let template = &rule.subject.value;
        if template.has_levels() {
            let all = template.filter();
            return levels::filters(all.trim_end_matches(".>"), filter);
        }
        let id = DeviceId::new(captures.product, captures.name).ok()?;
        let mut out = BytesMut::new();
        template.write(&id, filter, &mut out);
        Some(vec![take(&mut out)])
            .filter(|filters| filters.iter().all(|f| f.len() <= SUBJECT_BYTES_MAX))
    }

    /// The one device that a message of [`Self::delivery`] on this subject is for; none if it is for whoever subscribes.
    #[must_use]
    pub fn receiver(&self, subject: &str) -> Option<DeviceId> {
        let mut delivered = self.rules.iter().filter(|rule| rule.is_delivered());
        delivered.find_map(|rule| match rule.subject.value.read(subject)? {
            Named::Device(id) => Some(id),
            Named::Topic(_) => None,
        })
    }

    /// All subjects of [`Self::delivery`] that are a device's alone; none where messages are for whoever subscribes.
    #[must_use]
    pub fn downlink_subjects(&self, id: &DeviceId) -> Vec<Subject> {
        let delivered = self.rules.iter().filter(|rule| rule.is_delivered());
        let own = delivered.filter(|rule| !rule.subject.value.has_levels());
        let subject = |rule: &Arc<Rule>| {
            let mut out = BytesMut::new();
            rule.subject.value.write(id, "", &mut out);
            take(&mut out)
        };
        own.map(subject).collect()
    }

    /// Whether a message of [`Self::delivery`] is for one device alone; otherwise for whoever subscribes.
    #[must_use]
    pub fn has_one_receiver(&self) -> bool {
        self.rules
            .iter()
            .all(|rule| rule.direction != Direction::Both)
    }

    /// `P.D`, encoded: the key of the table of live connections.
    #[must_use]
    pub fn device_tokens(id: &DeviceId) -> String {
        subject::device_tokens(id).to_string()
    }

    /// The streams that uplinks are stored in, each once.
    pub fn uplink_streams(&self) -> Vec<Arc<str>> {
        let up = self
            .rules
            .iter()
            .filter(|rule| rule.direction != Direction::Down);
        let mut names: Vec<_> = up.map(|rule| rule.stream.value.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rule of a topic or filter. No two match the same one: `check` saw to that.
    pub(super) fn find<'t>(&self, topic: &'t str) -> Option<(&Arc<Rule>, Captures<'t>)> {
        if let [rule] = &*self.rules
            && rule.pattern.value.is_any()
        {
            return Some((rule, Captures::default()));
        }
        let first = topic.split('/').next()?;
        self.by_first_level.get(first)?.iter().find_map(|at| {
            let rule = self.rules.get(*at)?;
            Some((rule, rule.pattern.value.read(topic)?))
        })
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "open_tests.rs"]
mod open_tests;
