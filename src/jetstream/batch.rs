//! The words of fast batch ingest (nats-server ≥ 2.14, `allow_batched`): reply subjects out, answers in. Pure.
//!
//! Each message of a batch is an ordinary publish whose reply subject is
//! `<prefix>.<batch>.<flow>.fail.<number from 1>.<operation>.$FI`. In gap mode `fail` what is stored of a batch is
//! always a prefix of it, which is what keeps a device's order when something breaks (PERFORMANCE).

use serde::Deserialize;

use super::Refusal;

/// Most messages in one batch; also the flow asked for, so that the server acknowledges once a batch.
pub(super) const MESSAGES_MAX: usize = 500;

/// What the server does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Start = 0,
    Append = 1,
    AppendAndCommit = 2,
}

/// The reply subject of message `number` (from 1) of `count` in `batch`.
pub(super) fn reply_subject(prefix: &str, batch: u64, number: usize, count: usize) -> String {
    let operation = match number {
        _ if number == count => Operation::AppendAndCommit,
        1 => Operation::Start,
        _ => Operation::Append,
    };
    format!(
        "{prefix}.{batch}.{MESSAGES_MAX}.fail.{number}.{}.$FI",
        operation as u8
    )
}

/// What an answer says about the open batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first `0` messages are stored; more may follow.
    Stored(usize),
    /// The batch is over: its first `0` messages are stored, the others are not.
    Committed(usize),
    /// Message `number` (from 1) is refused for good; the batch ends before it.
    Refused {
        /// Which.
        number: usize,
        /// Why.
        refusal: Refusal,
    },
    /// Nothing is known beyond what was acknowledged: ask again with a new batch.
    Broken(String),
}

/// Reads an answer that came on `subject`; `None` when it belongs to another batch or is not an answer.
pub(super) fn read(
    prefix: &str,
    batch: u64,
    subject: &str,
    no_responders: bool,
    body: &[u8],
) -> Option<Answer> {
    let mut tokens = subject.strip_prefix(prefix)?.strip_prefix('.')?.split('.');
    if tokens.next()?.parse() != Ok(batch) {
        return None;
    }
    let number = tokens.nth(2)?.parse().ok()?;
    if no_responders {
        return Some(Answer::Broken("no stream takes the subject".to_owned()));
    }
    match serde_json::from_slice(body) {
        Ok(body) => Some(interpret(number, body)),
        Err(error) => Some(Answer::Broken(format!("unreadable answer: {error}"))),
    }
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

#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

fn interpret(number: usize, body: Body) -> Answer {
    let index = |value: Option<u64>| usize::try_from(value.unwrap_or(0)).unwrap_or(0);
    match (body.kind.as_deref(), body.error) {
        (Some("ack"), _) => Answer::Stored(index(body.seq)),
        (Some("gap"), _) => Answer::Broken(format!("gap after {}", index(body.last_seq))),
        (Some("err"), Some(error)) => failed(index(body.seq), &error),
        (None, Some(error)) => failed(number, &error),
        (None, None) => Answer::Committed(index(body.count)),
        (Some(kind), _) => Answer::Broken(format!("unknown answer type {kind:?}")),
    }
}

/// Separates an answer that names a real refusal of one message from one that says "not now".
///
/// A full stream answers with the code of a passing failure (503), so it is told by its own number.
fn failed(number: usize, error: &ApiError) -> Answer {
    const MESSAGE_TOO_LARGE: u32 = 10_054;
    const HEADER_TOO_LARGE: u32 = 10_097;
    const STORE_FAILED: u32 = 10_077;
    const STORAGE_EXCEEDED: u32 = 10_047;
    const BATCHES_OFF: u32 = 10_205;
    const BATCH_UNKNOWN: u32 = 10_208;
    let reason = format!("{} ({})", error.description, error.err_code);
    let refusal = match (error.err_code, error.code) {
        (MESSAGE_TOO_LARGE | HEADER_TOO_LARGE, _) => Refusal::TooLarge(reason),
        (STORE_FAILED | STORAGE_EXCEEDED, _) => Refusal::Full(reason),
        (BATCH_UNKNOWN | BATCHES_OFF, _) => return Answer::Broken(reason),
        (_, 400) => Refusal::Refused(reason),
        _ => return Answer::Broken(reason),
    };
    Answer::Refused { number, refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str, body: &str, expected: Option<Answer>) {
        assert_eq!(
            read("_jw.ack.x", 7, subject, false, body.as_bytes()),
            expected,
            "{subject} {body}"
        );
    }

    #[test]
    fn first_append_and_last_message_carry_their_operation() {
        assert_eq!(reply_subject("p", 3, 1, 3), "p.3.500.fail.1.0.$FI");
        assert_eq!(reply_subject("p", 3, 2, 3), "p.3.500.fail.2.1.$FI");
        assert_eq!(reply_subject("p", 3, 3, 3), "p.3.500.fail.3.2.$FI");
        assert_eq!(reply_subject("p", 3, 1, 1), "p.3.500.fail.1.2.$FI");
    }

    #[test]
    fn answers_as_recorded_from_nats_server_2_15() {
        let reply = |number: usize, count: usize| reply_subject("_jw.ack.x", 7, number, count);
        check(
            &reply(1, 9),
            r#"{"type":"ack","seq":0,"msgs":500}"#,
            Some(Answer::Stored(0)),
        );
        check(
            &reply(3, 3),
            r#"{"stream":"UP","seq":0,"batch":"7","count":3}"#,
            Some(Answer::Committed(3)),
        );
        check(
            &reply(1, 1),
            r#"{"stream":"UP","seq":1,"duplicate": true,"batch":"7","count":1}"#,
            Some(Answer::Committed(1)),
        );
        check(
            &reply(3, 9),
            r#"{"type":"gap","last_seq":2,"seq":3}"#,
            Some(Answer::Broken("gap after 2".to_owned())),
        );
        check(
            &reply(4, 4),
            r#"{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"UP","seq":0}"#,
            Some(Answer::Broken(
                "batch publish ID unknown (10208)".to_owned(),
            )),
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
        check("_jw.ack.x.6.500.fail.1.2.$FI", "{}", None);
        check("_jw.ack.y.7.500.fail.1.2.$FI", "{}", None);
        check("_jw.ack.x.7", "{}", None);
        assert!(matches!(
            read(
                "_jw.ack.x",
                7,
                "_jw.ack.x.7.500.fail.1.2.$FI",
                false,
                b"\xff"
            ),
            Some(Answer::Broken(_))
        ));
        assert!(matches!(
            read("_jw.ack.x", 7, "_jw.ack.x.7.500.fail.1.2.$FI", true, b""),
            Some(Answer::Broken(_))
        ));
    }
}
