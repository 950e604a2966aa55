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
const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";

/// Where an answer goes: what a batch's messages have in common, and what is this one's.
#[derive(Debug, Clone, Copy)]
pub(in crate::jetstream) struct Reply<'a> {
    /// In front, with its dot.
    pub(in crate::jetstream) start: &'a str,
    /// The message's number.
    pub(in crate::jetstream) number: u64,
    /// Behind it, with its dot.
    pub(in crate::jetstream) end: &'a str,
}

/// What keeps a message from being stored twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::jetstream) enum Once {
    /// Its message id, if it has one.
    #[default]
    Id,
    /// Its batch, which is guarded: the id is left out.
    Batch,
    /// The same for the batch's first message: it is the guard, and stored only if the last message of its subject has this
    /// sequence.
    Guard(u64),
}

impl Once {
    /// The same for the message of that number in a batch whose first message has this.
    pub(in crate::jetstream) fn of(self, number: usize) -> Self {
        match self {
            Self::Guard(_) | Self::Batch if number > 1 => Self::Batch,
            first => first,
        }
    }
}

/// A message's place in an atomic batch.
#[derive(Debug, Clone, Copy)]
pub(in crate::jetstream) struct Place<'a> {
    /// The batch's name.
    pub(in crate::jetstream) batch: &'a str,
    /// The message's number, from 1.
    pub(in crate::jetstream) number: u64,
    /// Whether the batch is to be stored with it.
    pub(in crate::jetstream) is_last: bool,
}

/// What is said of a message to the server, beside its own headers.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::jetstream) struct Dispatch<'a> {
    pub(in crate::jetstream) reply: Option<Reply<'a>>,
    pub(in crate::jetstream) once: Once,
    pub(in crate::jetstream) place: Option<Place<'a>>,
}

/// Appends a message. Subject and headers are safe for the protocol: whoever made them has encoded or refused what is not.
pub(super) fn publish(
    out: &mut BytesMut,
    (subject, headers, payload): (&str, &Headers, &[u8]),
    dispatch: &Dispatch<'_>,
) {
    let Dispatch { reply, once, place } = dispatch;
    let (before, behind) = match once {
        Once::Id => (headers.as_wire(), ""),
        Once::Batch | Once::Guard(_) => headers.around(MSG_ID),
    };
    let (mut last, mut number) = (itoa::Buffer::new(), itoa::Buffer::new());
    let guard = match once {
        Once::Guard(sequence) => Some((GUARD, last.format(*sequence))),
        Once::Id | Once::Batch => None,
    };
    let place = place.map(|place| {
        let number = (BATCH_SEQUENCE, number.format(place.number));
        let commit = place.is_last.then_some((BATCH_COMMIT, "1"));
        [Some((BATCH_ID, place.batch)), Some(number), commit]
    });
    let added = || {
        let place = place.iter().flatten().flatten();
        guard.iter().chain(place)
    };
    let added_bytes = added().map(|(name, value)| name.len() + value.len() + AROUND_VALUE);
    let headers_bytes =
        VERSION.len() + before.len() + behind.len() + added_bytes.sum::<usize>() + LINE_END.len();
    out.reserve(subject.len() + headers_bytes + payload.len() + 160);
    out.put_slice(b"HPUB ");
    out.put_slice(subject.as_bytes());
    if let Some(reply) = reply {
        out.put_u8(b' ');
        out.put_slice(reply.start.as_bytes());
        out.put_slice(itoa::Buffer::new().format(reply.number).as_bytes());
        out.put_slice(reply.end.as_bytes());
    }
    for bytes in [headers_bytes, headers_bytes + payload.len()] {
        out.put_u8(b' ');
        out.put_slice(itoa::Buffer::new().format(bytes).as_bytes());
    }
    out.put_slice(LINE_END);
    out.put_slice(VERSION);
    out.put_slice(before.as_bytes());
    out.put_slice(behind.as_bytes());
    for (name, value) in added() {
        out.put_slice(name.as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(LINE_END);
    }
    out.put_slice(LINE_END);
    out.put_slice(payload);
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
        let dispatch = Dispatch {
            reply: Some(reply),
            ..Dispatch::default()
        };
        publish(&mut out, ("a.b", &headers, b"hello"), &dispatch);
        let none = Headers::default();
        publish(&mut out, ("a", &none, b""), &Dispatch::default());
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
            let dispatch = Dispatch {
                once,
                ..Dispatch::default()
            };
            publish(&mut out, ("a", &headers, b"x"), &dispatch);
            assert_eq!(str::from_utf8(&out).unwrap(), expected);
            let whole = out.len() - "HPUB a 48 49\r\n".len() - LINE_END.len();
            assert!(expected.starts_with(&format!("HPUB a {} {whole}", whole - 1)));
        }
    }

    #[test]
    fn a_message_of_an_atomic_batch_says_its_place() {
        let none = Headers::default();
        for (is_last, expected) in [
            (
                false,
                "HPUB a 57 58\r\nNATS/1.0\r\nNats-Batch-Id: b-7\r\nNats-Batch-Sequence: 12\r\n\r\nx\r\n",
            ),
            (
                true,
                "HPUB a 79 80\r\nNATS/1.0\r\nNats-Batch-Id: b-7\r\nNats-Batch-Sequence: 12\r\nNats-Batch-Commit: 1\r\n\r\nx\r\n",
            ),
        ] {
            let place = Place {
                batch: "b-7",
                number: 12,
                is_last,
            };
            let dispatch = Dispatch {
                place: Some(place),
                ..Dispatch::default()
            };
            let mut out = BytesMut::new();
            publish(&mut out, ("a", &none, b"x"), &dispatch);
            assert_eq!(str::from_utf8(&out).unwrap(), expected);
        }
    }
}
