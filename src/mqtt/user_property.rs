//! User properties (MQTT 5 §2.2.2.2): pairs of strings whose order and repetition mean something.
//!
//! Decoded ones stay bytes in the packet's buffer, which were checked once and are read when somebody asks.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use super::property::Property;
use super::reader::variable_byte_integer;

/// User properties in order; names may repeat. Two are equal if their pairs are.
#[derive(Clone)]
pub struct UserProperties(Pairs);

#[derive(Clone)]
enum Pairs {
    /// A checked property section from its first user property on; others may stand between and behind them.
    Section(Bytes),
    /// Made here; checked when encoded.
    Made(Vec<(ByteString, ByteString)>),
}

impl UserProperties {
    /// `section` was checked by the property reader and begins with a user property.
    pub(super) fn from_section(section: Bytes) -> Self {
        Self(Pairs::Section(section))
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (section, made): (&[u8], &[_]) = match &self.0 {
            Pairs::Section(section) => (section, &[]),
            Pairs::Made(pairs) => (&[], pairs),
        };
        let made = made.iter().map(|(name, value)| (&**name, &**value));
        SectionPairs { rest: section }.chain(made)
    }

    /// What they carry, in bytes; no less than all names and values together.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        match &self.0 {
            Pairs::Section(section) => section.len(),
            Pairs::Made(pairs) => pairs
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Pairs::Section(section) => section.is_empty(),
            Pairs::Made(pairs) => pairs.is_empty(),
        }
    }
}

impl Default for UserProperties {
    fn default() -> Self {
        Self(Pairs::Section(Bytes::new()))
    }
}

impl<S: Into<ByteString>> FromIterator<(S, S)> for UserProperties {
    fn from_iter<I: IntoIterator<Item = (S, S)>>(pairs: I) -> Self {
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        Self(Pairs::Made(pairs.collect()))
    }
}

impl PartialEq for UserProperties {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for UserProperties {}

impl fmt::Debug for UserProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Walks a checked section and yields its user properties. Bytes that were not checked would end it early.
struct SectionPairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for SectionPairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (id, rest) = self.rest.split_first()?;
            self.rest = rest;
            let property = Property::from_id(*id)?;
            if property == Property::User {
                return Some((self.string()?, self.string()?));
            }
            self.skip(property)?;
        }
    }
}

impl<'a> SectionPairs<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn length(&mut self) -> Option<usize> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(usize::from(u16::from_be_bytes(*bytes)))
    }

    fn string(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn skip(&mut self, property: Property) -> Option<()> {
        use Property as P;
        let width = match property {
            P::PayloadFormatIndicator
            | P::RequestProblemInformation
            | P::RequestResponseInformation
            | P::MaximumQoS
            | P::RetainAvailable
            | P::WildcardSubscriptionAvailable
            | P::SubscriptionIdentifierAvailable
            | P::SharedSubscriptionAvailable => 1,
            P::ServerKeepAlive | P::ReceiveMaximum | P::TopicAliasMaximum | P::TopicAlias => 2,
            P::MessageExpiryInterval
            | P::SessionExpiryInterval
            | P::WillDelayInterval
            | P::MaximumPacketSize => 4,
            P::SubscriptionIdentifier => variable_byte_integer(self.rest).ok()??.1,
            P::ContentType
            | P::ResponseTopic
            | P::CorrelationData
            | P::AssignedClientIdentifier
            | P::AuthenticationMethod
            | P::AuthenticationData
            | P::ResponseInformation
            | P::ServerReference
            | P::ReasonString
            | P::User => self.length()?,
        };
        self.take(width).map(|_| ())
    }
}
