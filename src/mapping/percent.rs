//! Percent-encoding of single bytes (`%2E`, upper-case digits), for subject tokens and for headers.
//!
//! Which bytes are encoded is said by the caller; it must include `%`, then encoding is injective.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use bytestring::ByteString;

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Appends a text with the bytes that `is_encoded` names as `%XX`: all bytes of a character or none.
pub(super) fn encode(text: &str, is_encoded: impl Fn(u8) -> bool, out: &mut BytesMut) {
    if !text.bytes().any(&is_encoded) {
        out.put_slice(text.as_bytes());
        return;
    }
    for byte in text.bytes() {
        if is_encoded(byte) {
            let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
            out.put_slice(&[b'%', digit(byte >> 4), digit(byte & 0xF)]);
        } else {
            out.put_u8(byte);
        }
    }
}

/// What was written so far, as a text; `out` is empty then and keeps its room.
///
/// Texts that are written one after the other share one allocation.
pub(super) fn take(out: &mut BytesMut) -> ByteString {
    let bytes = out.split().freeze();
    ByteString::try_from(bytes).expect("whole strings and ASCII are written only")
}

/// The text that [`encode`] turned into this; none if it never writes such a text.
pub(super) fn decode_strict(text: &str, is_encoded: impl Fn(u8) -> bool) -> Option<Cow<'_, str>> {
    if !text.bytes().any(&is_encoded) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = match escaped(rest) {
            Some((byte, after)) if is_encoded(byte) => {
                bytes.push(byte);
                after
            }
            None if !is_encoded(byte) => {
                bytes.push(byte);
                after
            }
            _ => return None,
        };
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The text with each `%XX` decoded; anything else, also a `%` alone, stays as it is. People write headers too.
pub(super) fn decode_lenient(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let (byte, after) = escaped(rest).unwrap_or((byte, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The byte of a leading `%XX`, and what is behind it.
fn escaped(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&[percent, high, low], after) = bytes.split_first_chunk::<3>()?;
    let value = |digit: u8| DIGITS.iter().position(|known| *known == digit);
    let byte = value(high)? * 16 + value(low)?;
    (percent == b'%').then_some((u8::try_from(byte).ok()?, after))
}
