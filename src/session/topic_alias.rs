//! Topic aliases of one connection, each way its own (MQTT 5 §3.3.2.3.4): numbers that stand for topic names.
//!
//! They end with the connection [MQTT-3.3.2-7]: whatever outlives it knows whole topic names only. Nothing is allocated until a
//! first alias is set, and what is kept has a limit in number and in bytes.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use bytestring::ByteString;

use crate::mqtt::{Publish, ReasonCode};

/// What an alias may keep on average, in bytes: all of one direction keep no more than this times their maximum.
const TOPIC_BYTES: usize = 1024;
/// What an alias takes in a PUBLISH, in bytes.
const PROPERTY_BYTES: usize = 3;

/// The aliases that the device has set.
#[derive(Debug)]
pub(super) struct UplinkAliases {
    /// The Topic Alias Maximum of CONNACK.
    maximum: u16,
    /// None: none is set.
    topics: Option<Box<Set>>,
}

#[derive(Debug, Default)]
struct Set(BTreeMap<NonZeroU16, ByteString>);

impl UplinkAliases {
    pub(super) fn new(maximum: u16) -> Self {
        Self {
            maximum,
            topics: None,
        }
    }

    /// Puts the topic name in the place of an alias; one that comes with a topic name stands for that from now on.
    ///
    /// The alias is gone then, so doing it again changes nothing. Zero is not seen here: the codec refuses it.
    ///
    /// # Errors
    /// An alias above the maximum, one that was never set, or more bytes of topic names than are kept.
    pub(super) fn resolve(&mut self, publish: &mut Publish) -> Result<(), ReasonCode> {
        let Some(alias) = publish.properties.topic_alias.take() else {
            return Ok(());
        };
        if alias.get() > self.maximum {
            return Err(ReasonCode::TopicAliasInvalid); // [MQTT-3.3.2-9]
        }
        let topics = self.topics.as_deref().map(|Set(topics)| topics);
        let known = topics.and_then(|topics| topics.get(&alias));
        if publish.topic.is_empty() {
            let known = known.ok_or(ReasonCode::ProtocolError)?;
            publish.topic = known.clone(); // [MQTT-3.3.2-12]
            return Ok(());
        }
        // Some devices send both each time.
        if known == Some(&publish.topic) {
            return Ok(());
        }
        let replaced = known.map_or(0, |topic| topic.len());
        let all = topics.map_or(0, |topics| bytes(topics.values()));
        if all - replaced + publish.topic.len() > bytes_max(self.maximum) {
            return Err(ReasonCode::QuotaExceeded);
        }
        // A copy, because the topic name is a part of the whole packet's buffer.
        let Set(topics) = &mut **self.topics.get_or_insert_default();
        topics.insert(alias, ByteString::from(&*publish.topic));
        Ok(())
    }
}

/// The aliases that the device was given: of the first topics that it is sent, as many as it takes.
#[derive(Debug)]
pub(super) struct DownlinkAliases {
    maximum: u16,
    /// The first has alias 1.
    topics: Vec<ByteString>,
}

impl DownlinkAliases {
    /// `maximum` is no more than the Topic Alias Maximum of CONNECT. // [MQTT-3.1.2-26], [MQTT-3.1.2-27]
    pub(super) fn new(maximum: u16) -> Self {
        Self {
            maximum,
            topics: Vec::new(),
        }
    }

    /// Puts an alias in the place of a topic name that has one, or gives it one if a second PUBLISH would make up for that.
    pub(super) fn apply(&mut self, publish: &mut Publish) {
        let known = self.topics.iter().position(|topic| *topic == publish.topic);
        let Some(alias) = self.alias(known.unwrap_or(self.topics.len())) else {
            return;
        };
        if known.is_some() {
            publish.topic = ByteString::new();
        } else {
            let all_bytes = bytes(self.topics.iter()) + publish.topic.len();
            if publish.topic.len() <= 2 * PROPERTY_BYTES || all_bytes > bytes_max(self.maximum) {
                return;
            }
            self.topics.push(publish.topic.clone());
        }
        publish.properties.topic_alias = Some(alias);
    }

    /// The alias of the topic in this place, if the device takes so many. // [MQTT-3.3.2-11]
    fn alias(&self, place: usize) -> Option<NonZeroU16> {
        let alias = u16::try_from(place + 1).ok()?;
        NonZeroU16::new(alias).filter(|alias| alias.get() <= self.maximum)
    }

    /// Takes the alias back that the last PUBLISH was to set; `false` if it was to set none.
    pub(super) fn withdraw(&mut self, publish: &mut Publish) -> bool {
        let sets = !publish.topic.is_empty() && publish.properties.topic_alias.is_some();
        if sets {
            publish.properties.topic_alias = None;
            self.topics.pop();
        }
        sets
    }
}

fn bytes<'a>(topics: impl Iterator<Item = &'a ByteString>) -> usize {
    topics.map(|topic| topic.len()).sum()
}

fn bytes_max(maximum: u16) -> usize {
    usize::from(maximum) * TOPIC_BYTES
}

#[cfg(test)]
#[path = "topic_alias_tests.rs"]
mod tests;
