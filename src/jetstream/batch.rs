//! The words of fast batch ingest (nats-server ≥ 2.14, `allow_batched`): reply subjects out, answers in. Pure.
//!
//! Each message of a batch is an ordinary publish whose reply subject is
//! `_jw.ack.<shard>.<batch>.<flow>.fail.<number from 1>.<operation>.$FI`. In gap mode `fail` what is stored of a batch is
//! always a prefix of it, which is what keeps a device's order when something breaks (PERFORMANCE).

use serde::Deserialize;

use super::inbox::Inbox;
use super::tries::ApiError;
use super::{Refusal, puback, wire};

/// Most messages in one batch; also the flow asked for, so that the server acknowledges once a batch.
pub(super) const MESSAGES_MAX: usize = 500;

/// What the reply subjects of a batch begin with; the message's number, from 1, follows.
pub(super) fn start(inbox: &Inbox, batch: u64) -> String {
    format!("{}{MESSAGES_MAX}.fail.", inbox.start(batch))
}

/// The number and what follows it in the reply subject of a message that is not stored, and only ends a batch: nothing
/// can be appended to it from then on. The answer says how much of it is stored.
pub(super) fn close() -> (usize, &'static str) {
    // Behind any that the batch may wait for; a batch that is not open is not opened by it.
    (MESSAGES_MAX + 1, ".3.$FI")
}

/// What follows the number in the reply subject of message `number` of `count`.
pub(super) fn end(number: usize, count: usize) -> &'static str {
    match number {
        _ if number == count => ".2.$FI", // append and commit
        1 => ".0.$FI",                    // start
        _ => ".1.$FI",                    // append
    }
}

/// Reads an answer; `None` when it belongs to another batch or is not one.
pub(super) fn read(inbox: &Inbox, batch: u64, answer: &wire::Answer) -> Option<Answer> {
    let mut tokens = inbox.behind_start(batch, &answer.subject)?.split('.');
    let number = tokens.nth(2)?.parse().ok()?;
    if answer.no_responders {
        return Some(Answer::Broken("no stream takes the subject".to_owned()));
    }
    match serde_json::from_slice(&answer.payload) {
        Ok(body) => Some(interpret(number, body)),
        Err(error) => Some(Answer::Broken(format!("unreadable answer: {error}"))),
    }
}

/// What an answer says about the open batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first `0` messages are stored; more may follow.
    Stored(usize),
    /// The batch is over: its first `stored` messages are stored, the others are not.
    Committed {
        /// How many.
        stored: usize,
        /// The stream sequence of the last one; 0 if the server does not say, because it had them already.
        sequence: u64,
    },
    /// Message `number` (from 1) is refused for good; the batch ends before it.
    Refused {
        /// Which.
        number: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The server knows no such batch, asked with message `0`: it has ended, or has not begun.
    Unknown(usize),
    /// A message is missing; what is stored before it is said by the answer that follows.
    Gap(String),
    /// Nothing is known beyond what was acknowledged: ask again with a new batch.
    Broken(String),
}

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    kind: Option<String>,
    seq: Option<u64>,
    last_seq: Option<u64>,
    count: Option<u64>,
    error: Option<ApiError>,
}

fn interpret(number: usize, body: Body) -> Answer {
    let index = |value: Option<u64>| usize::try_from(value.unwrap_or(0)).unwrap_or(0);
    match (body.kind.as_deref(), body.error) {
        (Some("ack"), _) => Answer::Stored(index(body.seq)),
        (Some("gap"), _) => Answer::Gap(format!("gap after {}", index(body.last_seq))),
        (Some("err"), Some(error)) => failed(index(body.seq), &error),
        (None, Some(error)) => failed(number, &error),
        (None, None) => Answer::Committed {
            stored: index(body.count),
            sequence: body.seq.unwrap_or(0),
        },
        (Some(kind), _) => Answer::Broken(format!("unknown answer type {kind:?}")),
    }
}

fn failed(number: usize, error: &ApiError) -> Answer {
    const BATCHES_OFF: u64 = 10_205;
    const BATCH_UNKNOWN: u64 = 10_208;
    match (error.err_code, puback::refusal(error)) {
        (BATCH_UNKNOWN, _) => Answer::Unknown(number),
        (BATCHES_OFF, _) | (_, None) => Answer::Broken(error.to_string()),
        (_, Some(refusal)) => Answer::Refused { number, refusal },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(shard: u64, batch: u64, number: usize, count: usize) -> String {
        let end = end(number, count);
        format!("{}{number}{end}", start(&Inbox::new(shard), batch))
    }

    fn heard(subject: &str, no_responders: bool, body: &'static [u8]) -> Option<Answer> {
        let answer = wire::Answer {
            subject: subject.into(),
            no_responders,
            payload: body.into(),
        };
        read(&Inbox::new(0xA), 7, &answer)
    }

    fn check(subject: &str, body: &'static str, expected: Option<Answer>) {
        let answer = heard(subject, false, body.as_bytes());
        assert_eq!(answer, expected, "{subject} {body}");
    }

    #[test]
    fn first_append_and_last_message_carry_their_operation() {
        let end = |number, count| {
            let subject = reply(0xA, 3, number, count);
            let start = "_jw.ack.000000000000000a.000000000000000a-3.";
            subject.strip_prefix(start).map(str::to_owned)
        };
        assert_eq!(end(1, 3).as_deref(), Some("500.fail.1.0.$FI"));
        assert_eq!(end(2, 3).as_deref(), Some("500.fail.2.1.$FI"));
        assert_eq!(end(3, 3).as_deref(), Some("500.fail.3.2.$FI"));
        assert_eq!(end(1, 1).as_deref(), Some("500.fail.1.2.$FI"));
    }

    #[test]
    fn no_two_shards_name_a_batch_the_same() {
        // The server takes the sixth token from the end, and nothing before it, for the name of the batch.
        let name = |shard| {
            let subject = reply(shard, 7, 1, 2);
            subject.rsplit('.').nth(5).map(str::to_owned)
        };
        assert_ne!(name(1), name(2));
        assert!(name(u64::MAX).is_some_and(|name| name.len() <= 64 - 20));
    }

    #[test]
    fn answers_as_recorded_from_nats_server_2_15() {
        let reply = |number, count| reply(0xA, 7, number, count);
        check(
            &reply(1, 9),
            r#"{"type":"ack","seq":0,"msgs":500}"#,
            Some(Answer::Stored(0)),
        );
        check(
            &reply(3, 3),
            r#"{"stream":"UP","seq":0,"batch":"7","count":3}"#,
            Some(Answer::Committed {
                stored: 3,
                sequence: 0,
            }),
        );
        check(
            &reply(1, 1),
            r#"{"stream":"UP","seq":1,"duplicate": true,"batch":"7","count":1}"#,
            Some(Answer::Committed {
                stored: 1,
                sequence: 1,
            }),
        );
        check(
            &reply(3, 9),
            r#"{"type":"gap","last_seq":2,"seq":3}"#,
            Some(Answer::Gap("gap after 2".to_owned())),
        );
        check(
            &reply(4, 4),
            r#"{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"UP","seq":0}"#,
            Some(Answer::Unknown(4)),
        );
        check(
            &reply(1, 9),
            r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 8"},"stream":"UP","seq":0}"#,
            Some(Answer::Refused {
                number: 1,
                refusal: Refusal::Refused("wrong last sequence: 8 (10071)".to_owned()),
            }),
        );
        check(
            &reply(3, 3),
            r#"{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"},"stream":"UP","seq":0}"#,
            Some(Answer::Refused {
                number: 3,
                refusal: Refusal::TooLarge(
                    "message size exceeds maximum allowed (10054)".to_owned(),
                ),
            }),
        );
        check(
            &reply(1, 1),
            r#"{"error":{"code":400,"err_code":10002,"description":"resource limits exceeded for account"},"stream":"UP","seq":0}"#,
            Some(Answer::Refused {
                number: 1,
                refusal: Refusal::Full("resource limits exceeded for account (10002)".to_owned()),
            }),
        );
        check(
            &reply(2, 4),
            r#"{"type":"err","seq":2,"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}"#,
            Some(Answer::Refused {
                number: 2,
                refusal: Refusal::Full("maximum messages exceeded (10077)".to_owned()),
            }),
        );
    }

    #[test]
    fn answers_of_other_batches_and_noise_are_told_apart() {
        let reply = |shard, batch| reply(shard, batch, 1, 1);
        check(&reply(0xA, 6), "{}", None);
        check(&reply(0xB, 7), "{}", None);
        check("_jw.ack.000000000000000a.000000000000000a-7", "{}", None);
        let heard = |no_responders, body| heard(&reply(0xA, 7), no_responders, body);
        assert!(matches!(heard(false, b"\xff"), Some(Answer::Broken(_))));
        assert!(matches!(heard(true, b""), Some(Answer::Broken(_))));
    }
}
