//! A NATS message as plain data: subject, headers, payload. No connection, no clock.

use std::fmt;
use std::ops::Range;

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
/// One piece of text, as it goes over the wire: `Name: value\r\n` each. A header that would break the framing of NATS is
/// left out, so whoever adds a text from outside has encoded what it may hold of CR, LF, NUL, and `:` in a name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(String);

const BEHIND_NAME: &str = ": ";
const LINE_END: &str = "\r\n";

impl Headers {
    /// No headers, with room for so many bytes of them.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let breaks = |byte: u8| matches!(byte, b'\r' | b'\n' | 0);
        if name.bytes().any(|byte| byte == b':' || breaks(byte)) || value.bytes().any(breaks) {
            tracing::error!(name, "header left out: it would break the framing of NATS");
            return;
        }
        self.line(name, |line| line.push_str(value));
    }

    /// Adds a header whose value is written in place and safe by what it is: numbers, identifiers.
    pub fn push_written(&mut self, name: &'static str, write: impl FnOnce(&mut String)) {
        self.line(name, write);
    }

    fn line(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        self.0.push_str(name);
        self.0.push_str(BEHIND_NAME);
        write(&mut self.0);
        self.0.push_str(LINE_END);
    }

    /// Adds others behind these.
    pub fn extend(&mut self, others: &Self) {
        self.0.push_str(&others.0);
    }

    /// Takes out every header of a name, compared exactly.
    pub fn remove(&mut self, name: &str) {
        if self.get(name).is_some() {
            let mut kept = Self::with_capacity(self.0.len());
            for (other, value) in self.iter().filter(|(other, _)| *other != name) {
                kept.line(other, |line| line.push_str(value));
            }
            *self = kept;
        }
    }

    /// The first value of a name, compared exactly.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let line = self.line_of(name)?;
        let value = line.start + name.len() + BEHIND_NAME.len()..line.end - LINE_END.len();
        self.0.get(value)
    }

    /// Where the first line of a name is, its end included. Neither a name nor a value has a line feed, so one byte tells lines
    /// apart; that is found much faster than two.
    fn line_of(&self, name: &str) -> Option<Range<usize>> {
        let mut start = 0;
        for line in self.0.split_inclusive('\n') {
            let end = start + line.len();
            let value = line.strip_prefix(name);
            if value.is_some_and(|value| value.starts_with(BEHIND_NAME)) {
                return Some(start..end);
            }
            start = end;
        }
        None
    }

    /// All headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.0.lines();
        lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.strip_prefix(' ')?))
        })
    }

    /// As they go over the wire.
    #[must_use]
    pub fn as_wire(&self) -> &str {
        &self.0
    }

    /// As they go over the wire without the first of a name, compared exactly: what is before it, and what is behind.
    #[must_use]
    pub fn around(&self, name: &str) -> (&str, &str) {
        match self.line_of(name) {
            Some(line) => (
                self.0.get(..line.start).unwrap_or_default(),
                self.0.get(line.end..).unwrap_or_default(),
            ),
            None => (&self.0, ""),
        }
    }

    /// What they take on the wire, in bytes.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
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
