//! What goes to the server, in the words of the NATS client protocol. Pure.

use bytes::{BufMut as _, BytesMut};

use crate::jetstream::MSG_ID;
use crate::message::Headers;

pub(super) const PONG: &[u8] = b"PONG\r\n";
pub(super) const PING: &[u8] = b"PING\r\n";

const VERSION: &[u8] = b"NATS/1.0\r\n";
const LINE_END: &[u8] = b"\r\n";
/// The colon and space behind a header's name, and the end of its line.
const AROUND_VALUE: usize = 4;
const GUARD: &str = "Nats-Expected-Last-Subject-Sequence";
/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Where an answer goes: what a batch's messages have in common, and what is this one's.
#[derive(Debug)]
pub(in crate::jetstream) struct Reply<'a> {
    /// In front, with its dot.
    pub(in crate::jetstream) start: &'a str,
    /// The message's number.
    pub(in crate::jetstream) number: u64,
    /// Behind it, with its dot.
    pub(in crate::jetstream) end: &'a str,
}

/// What keeps a message from being stored twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jetstream) enum Once {
    /// Its message id, if it has one.
    Id,
    /// Its batch, which is guarded: the id is left out.
    Batch,
    /// The same for the batch's first message: it is the guard, and stored only if the last message of its subject has this
    /// sequence.
    Guard(u64),
}

/// A number in decimal, without an allocation.
struct Decimal {
    digits: [u8; DIGITS_MAX],
    from: usize,
}

impl Decimal {
    fn new(mut number: u64) -> Self {
        let mut this = Self {
            digits: [b'0'; DIGITS_MAX],
            from: DIGITS_MAX,
        };
        for (place, digit) in this.digits.iter_mut().enumerate().rev() {
            *digit += u8::try_from(number % 10).unwrap_or(0);
            this.from = place;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        this
    }

    fn text(&self) -> &[u8] {
        self.digits.get(self.from..).unwrap_or_default()
    }
}

/// Appends a message. Subject and headers are safe for the protocol: whoever made them has encoded or refused what is not.
pub(super) fn publish(
    out: &mut BytesMut,
    message: (&str, &Headers, &[u8]),
    reply: Option<&Reply<'_>>,
    once: Once,
) {
    let (subject, headers, payload) = message;
    let guard = match once {
        Once::Guard(last) => Some(Decimal::new(last)),
        Once::Id | Once::Batch => None,
    };
    let left_out = match (once, headers.get(MSG_ID)) {
        (Once::Batch | Once::Guard(_), Some(id)) => MSG_ID.len() + id.len() + AROUND_VALUE,
        _ => 0,
    };
    let added = (guard.as_ref()).map_or(0, |last| GUARD.len() + last.text().len() + AROUND_VALUE);
    let headers_bytes = VERSION.len() + headers.wire_bytes() - left_out + added + LINE_END.len();
    out.reserve(subject.len() + headers_bytes + payload.len() + 160);
    out.put_slice(b"HPUB ");
    out.put_slice(subject.as_bytes());
    if let Some(reply) = reply {
        out.put_u8(b' ');
        out.put_slice(reply.start.as_bytes());
        out.put_slice(Decimal::new(reply.number).text());
        out.put_slice(reply.end.as_bytes());
    }
    for bytes in [headers_bytes, headers_bytes + payload.len()] {
        out.put_u8(b' ');
        out.put_slice(Decimal::new(bytes as u64).text());
    }
    out.put_slice(LINE_END);
    out.put_slice(VERSION);
    match left_out {
        0 => out.put_slice(headers.as_wire().as_bytes()),
        _ => {
            let (before, behind) = headers.around(MSG_ID);
            out.put_slice(before.as_bytes());
            out.put_slice(behind.as_bytes());
        }
    }
    if let Some(last) = &guard {
        header(out, GUARD, last.text());
    }
    out.put_slice(LINE_END);
    out.put_slice(payload);
    out.put_slice(LINE_END);
}

fn header(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.put_slice(name.as_bytes());
    out.put_slice(b": ");
    out.put_slice(value);
    out.put_slice(LINE_END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_the_protocol_has_it() {
        let mut headers = Headers::default();
        headers.push("A", "b c");
        let reply = Reply {
            start: "_jw.",
            number: 120,
            end: ".x",
        };
        let mut out = BytesMut::new();
        publish(
            &mut out,
            ("a.b", &headers, b"hello"),
            Some(&reply),
            Once::Id,
        );
        let none = Headers::default();
        publish(&mut out, ("a", &none, b""), None, Once::Id);
        let expected = "HPUB a.b _jw.120.x 20 25\r\nNATS/1.0\r\nA: b c\r\n\r\nhello\r\n\
                        HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n";
        assert_eq!(str::from_utf8(&out).unwrap(), expected);
    }

    #[test]
    fn a_guarded_batch_has_no_ids() {
        let mut headers = Headers::default();
        headers.push("Jw-Id", "c.1");
        headers.push("Nats-Msg-Id", "c.1");
        headers.push("A", "b");
        for (once, expected) in [
            (
                Once::Id,
                "HPUB a 48 49\r\nNATS/1.0\r\nJw-Id: c.1\r\nNats-Msg-Id: c.1\r\nA: b\r\n\r\nx\r\n",
            ),
            (
                Once::Batch,
                "HPUB a 30 31\r\nNATS/1.0\r\nJw-Id: c.1\r\nA: b\r\n\r\nx\r\n",
            ),
            (
                Once::Guard(17),
                "HPUB a 71 72\r\nNATS/1.0\r\nJw-Id: c.1\r\nA: b\r\nNats-Expected-Last-Subject-Sequence: 17\r\n\r\nx\r\n",
            ),
        ] {
            let mut out = BytesMut::new();
            publish(&mut out, ("a", &headers, b"x"), None, once);
            assert_eq!(str::from_utf8(&out).unwrap(), expected);
            let whole = out.len() - "HPUB a 48 49\r\n".len() - LINE_END.len();
            assert!(expected.starts_with(&format!("HPUB a {} {whole}", whole - 1)));
        }
    }

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let text = Decimal::new(number);
            assert_eq!(text.text(), number.to_string().as_bytes());
        }
    }
}
