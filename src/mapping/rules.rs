//! All rules: loaded and checked once, then looked up by a topic's first level.
//!
//! The project's own files are compiled in; an operator's file adds rules and streams and changes streams.

use std::collections::HashMap;
use std::sync::Arc;

use super::capture::Captures;
use super::check::check;
use super::rule::Rule;
use super::settings::Settings;
use super::source::{Fault, Source};
use super::streams::{Declared, Stream};
use super::subject;
use crate::device::{Address, DeviceId, Direction};
use crate::message::Subject;

const OWN_RULES: Source<'static> = Source {
    name: "subjects/rules.toml",
    text: include_str!("../../subjects/rules.toml"),
};
const OWN_STREAMS: Source<'static> = Source {
    name: "subjects/streams.toml",
    text: include_str!("../../subjects/streams.toml"),
};

/// The mapping between MQTT topics and NATS subjects, and the streams that hold those.
#[derive(Debug)]
pub struct Mapping {
    /// The streams that must exist; each stands behind those that it sources.
    pub streams: Vec<Stream>,
    /// Where the live copies of all downlinks of this gateway's protocol arrive.
    pub live_downlinks: Subject,
    pub(super) rules: Vec<Rule>,
    /// Indices into `rules`.
    by_first_level: HashMap<String, Vec<usize>>,
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
        let extra = extra.map(|(name, text)| Source { name, text });
        for source in [OWN_RULES, OWN_STREAMS].into_iter().chain(extra) {
            source.entries(
                &["rule", "stream"],
                &mut faults,
                |kind, mut entry| match kind {
                    "rule" => rules.extend(Rule::read(&mut entry, settings)),
                    _ => streams.read(&mut entry),
                },
            );
        }
        let filed = streams.finish(&mut faults);
        check(&rules, &filed, settings, &mut faults);
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
            live_downlinks: subject::live_downlinks(&settings.protocol),
            rules,
            by_first_level,
        })
    }

    /// What a topic name or filter addresses; none if it has no rule's shape.
    ///
    /// In a filter, `+` may stand only where the type is (of an rpc topic: the id). Shared subscriptions and filters that
    /// match topics of more than one device have no rule's shape. Names are not checked beyond that.
    #[must_use]
    pub fn address<'a>(&'a self, topic_or_filter: &'a str) -> Option<Address<'a>> {
        let (rule, captures) = self.find(topic_or_filter)?;
        Some(Address {
            direction: rule.direction,
            handle: &rule.handle.value,
            kind: captures.kind,
            product: captures.product,
            name: captures.name,
        })
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
            .filter(|rule| rule.direction == Direction::Up);
        let mut names: Vec<_> = up.map(|rule| rule.stream.value.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rule of a topic or filter. No two match the same one: `check` saw to that.
    pub(super) fn find<'t>(&self, topic: &'t str) -> Option<(&Rule, Captures<'t>)> {
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
