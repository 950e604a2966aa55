//! A NATS message as plain data: subject, headers, payload. No connection, no clock.

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

/// A NATS subject. Only `mapping::subject` builds or reads ours.
pub type Subject = ByteString;

/// Whether every subject that the filter `inner` matches is matched by `outer`.
#[must_use]
pub fn covers(outer: &str, inner: &str) -> bool {
    let (mut outer, mut inner) = (outer.split('.'), inner.split('.'));
    loop {
        match (outer.next(), inner.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(y)) if y != ">" => {}
            (Some(x), Some(y)) if x == y => {}
            _ => return false,
        }
    }
}

/// Headers in the order they were added; a name may repeat.
///
/// Names and values are safe for NATS framing: whoever adds one has encoded or refused CR, LF, NUL and `:`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Cow<'static, str>, ByteString)>);

impl Headers {
    /// No headers, with room for `capacity`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<ByteString>) {
        self.0.push((name.into(), value.into()));
    }

    /// Takes out every header of a name, compared exactly.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| key != name);
    }

    /// The first value of a name, compared exactly.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// All headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// What they take on the wire, in bytes: `Name: value\r\n` each.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum()
    }
}

/// One NATS message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it goes.
    pub subject: Subject,
    /// What is said about it.
    pub headers: Headers,
    /// The bytes, as the device or the service gave them.
    pub payload: Bytes,
}

impl Message {
    /// What a server counts against its `max_payload`, in bytes: payload, headers and the two lines around them.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        const AROUND_HEADERS: usize = "NATS/1.0\r\n\r\n".len();
        AROUND_HEADERS + self.headers.wire_bytes() + self.payload.len()
    }
}
