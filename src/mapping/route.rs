//! What all messages of one publisher on one topic have in common: rule, subjects, and the headers that the topic gives.
//!
//! It stays true for as long as the mapping does, so a connection keeps the routes of the topics that it uses. It says
//! nothing about whether the publisher may use the topic: whoever asks for a route has authorised it.

use std::sync::Arc;

use bytes::BytesMut;
use bytestring::ByteString;

use super::Error;
use super::capture::Capture;
use super::header;
use super::percent::take;
use super::rule::Rule;
use super::rules::Mapping;
use super::settings::Form;
use super::subject::SUBJECT_BYTES_MAX;
use crate::device::{Address, DeviceId, Direction};
use crate::message::{Headers, Subject};

/// The way of one topic's messages into their stream.
#[derive(Debug)]
pub struct Route {
    pub(super) rule: Arc<Rule>,
    /// Whom the topic names; in the open profile, the publisher.
    pub(super) id: DeviceId,
    topic: Box<str>,
    /// The type level; empty where the rule has none.
    pub(super) kind: Box<str>,
    pub(super) subject: Subject,
    pub(super) live: Option<Subject>,
    /// Those of the `native` form that the topic and the publisher give.
    pub(super) headers: Headers,
}

impl Mapping {
    /// The route of messages on `address`, which is their topic's: no alias stands for that any more.
    ///
    /// `identity` is the device that the topic names; in the open profile, whose topics name nobody, the publisher.
    ///
    /// # Errors
    /// [`Error::Unmapped`] if the topic is not one of that device's uplinks; [`Error::SubjectTooLong`].
    pub fn route(&self, identity: &DeviceId, address: &Address<'_>) -> Result<Route, Error> {
        let topic = address.topic;
        let (rule, captures) = self
            .find(topic)
            .filter(|(rule, captures)| {
                let own =
                    captures.product == identity.product() && captures.name == identity.name();
                match rule.direction {
                    Direction::Up => own && rule.handle.value == address.handle,
                    Direction::Down => false,
                    Direction::Both => true,
                }
            })
            .ok_or_else(|| Error::Unmapped(topic.to_owned()))?;
        let mut out = BytesMut::with_capacity(128);
        rule.subject.value.write(identity, topic, &mut out);
        let subject = checked(take(&mut out))?;
        let live = rule.live.as_ref().map(|live| {
            live.value.write(identity, topic, &mut out);
            checked(take(&mut out))
        });
        let mut headers = Headers::default();
        if rule.form == Form::Native {
            if !captures.kind.is_empty() {
                headers.push(header::TYPE, header::value(&captures.kind.into()));
            }
            if rule.direction == Direction::Both {
                let client = ByteString::from(&*identity.client_id());
                headers.push(header::CLIENT, header::value(&client));
            }
            if captures.extra || rule.pattern.value.has(Capture::Id) {
                headers.push(header::TOPIC, header::value(&topic.into()));
            }
        }
        Ok(Route {
            rule: Arc::clone(rule),
            id: identity.clone(),
            topic: topic.into(),
            kind: captures.kind.into(),
            subject,
            live: live.transpose()?,
            headers,
        })
    }
}

impl Route {
    /// The topic whose messages go this way.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }
}

fn checked(subject: Subject) -> Result<Subject, Error> {
    match subject.len() {
        bytes if bytes > SUBJECT_BYTES_MAX => Err(Error::SubjectTooLong(bytes)),
        _ => Ok(subject),
    }
}
