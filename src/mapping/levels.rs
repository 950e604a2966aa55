//! A whole topic as tokens of a subject, one a level, and back: the open profile.
//!
//! Injective and reversible: a level is encoded as every name in a subject is, and an empty one is the token `%`, which
//! no encoding gives. What no client could publish on is no topic: a level with `+`, `#`, `/` or U+0000, and no level at all.
//! A topic filter becomes subject filters that select all topics it matches, and those that start with `$` besides
//! (MQTT §4.7.2), which the session leaves out.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use super::pattern::is_name;
use super::percent::take;
use super::subject::{SUBJECT_BYTES_MAX, decode_token, encode_token};
use crate::message::Subject;

/// The token of an empty level.
const EMPTY: &str = "%";

/// Appends a topic name's tokens.
pub(super) fn write(topic: &str, out: &mut BytesMut) {
    for (at, level) in topic.split('/').enumerate() {
        if at > 0 {
            out.put_u8(b'.');
        }
        write_level(level, out);
    }
}

fn write_level(level: &str, out: &mut BytesMut) {
    match level {
        "" => out.put_slice(EMPTY.as_bytes()),
        _ => encode_token(level, out),
    }
}

/// The topic name that [`write()`] turned into these tokens; none if it never writes them.
pub(super) fn read(tokens: &str) -> Option<String> {
    let mut topic = String::with_capacity(tokens.len());
    for (at, token) in tokens.split('.').enumerate() {
        if at > 0 {
            topic.push('/');
        }
        topic.push_str(&read_level(token)?);
    }
    (!topic.is_empty()).then_some(topic)
}

fn read_level(token: &str) -> Option<Cow<'_, str>> {
    match token {
        EMPTY => Some(Cow::Borrowed("")),
        _ => decode_token(token).filter(|level| is_name(level)),
    }
}

/// The subject filters, all under `prefix`, that select what a topic filter matches.
///
/// None if one is longer than a subject can be: then no topic that is stored matches it either.
pub(super) fn filters(prefix: &str, filter: &str) -> Option<Vec<Subject>> {
    let mut out = BytesMut::from(prefix);
    let (levels, and_below) = match filter.strip_suffix('#') {
        Some(levels) => (levels.strip_suffix('/'), true),
        None => (Some(filter), false),
    };
    for level in levels.into_iter().flat_map(|levels| levels.split('/')) {
        out.put_u8(b'.');
        match level {
            "+" => out.put_u8(b'*'),
            _ => write_level(level, &mut out),
        }
    }
    let exact = take(&mut out);
    let below = and_below.then(|| Subject::from(format!("{exact}.>")));
    // `#` alone has no parent level.
    let exact = levels.map(|_| exact);
    let filters: Vec<Subject> = exact.into_iter().chain(below).collect();
    let fits = |filter: &Subject| filter.len() <= SUBJECT_BYTES_MAX;
    filters.iter().all(fits).then_some(filters)
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
