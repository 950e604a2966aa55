//! Answers to a message that is published by itself, and to the commit of an atomic batch. Pure.

use serde::Deserialize;

use super::Refusal;
use super::inbox::Inbox;
use super::tries::ApiError;
use super::wire::Answer;

/// What became of a message, or of the batch that it commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// It is stored, and has this stream sequence.
    Stored(u64),
    /// It is not stored, nor will be.
    Refused(Refusal),
    /// It is not stored, but may be when it is sent again.
    NotNow(String),
}

/// The number of the message that is answered, and what became of it; `None` when the answer belongs to another batch.
pub(super) fn read(inbox: &Inbox, batch: u64, answer: &Answer) -> Option<(usize, Told)> {
    #[derive(Deserialize)]
    struct Body {
        seq: Option<u64>,
        error: Option<ApiError>,
    }
    let number = inbox.behind_start(batch, &answer.subject)?.parse().ok()?;
    if answer.no_responders {
        let reason = "no stream takes the subject".to_owned();
        return Some((number, Told::NotNow(reason)));
    }
    let told = match serde_json::from_slice(&answer.payload) {
        Ok(Body {
            error: Some(error), ..
        }) => match refusal(&error) {
            Some(refusal) => Told::Refused(refusal),
            None => Told::NotNow(error.to_string()),
        },
        Ok(Body {
            seq: Some(sequence),
            error: None,
        }) => Told::Stored(sequence),
        Ok(_) => Told::NotNow("an answer without a sequence".to_owned()),
        Err(error) => Told::NotNow(format!("unreadable answer: {error}")),
    };
    Some((number, told))
}

/// Separates an answer that names a real refusal of one message from one that says "not now".
///
/// A full stream answers with the code of a passing failure (503), so it is told by its own number.
pub(super) fn refusal(error: &ApiError) -> Option<Refusal> {
    const MESSAGE_TOO_LARGE: u64 = 10_054;
    const HEADER_TOO_LARGE: u64 = 10_097;
    const STORE_FAILED: u64 = 10_077;
    const STORAGE_EXCEEDED: u64 = 10_047;
    const MEMORY_EXCEEDED: u64 = 10_028;
    const ACCOUNT_EXCEEDED: u64 = 10_002;
    let reason = error.to_string();
    match (error.err_code, error.code) {
        (MESSAGE_TOO_LARGE | HEADER_TOO_LARGE, _) => Some(Refusal::TooLarge(reason)),
        (STORE_FAILED | STORAGE_EXCEEDED | MEMORY_EXCEEDED | ACCOUNT_EXCEEDED, _) => {
            Some(Refusal::Full(reason))
        }
        (_, 400) => Some(Refusal::Refused(reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &'static str, expected: Told) {
        let inbox = Inbox::new(0xA);
        let answer = Answer {
            subject: (inbox.start(7) + "3").into(),
            no_responders: false,
            payload: body.into(),
        };
        assert_eq!(read(&inbox, 7, &answer), Some((3, expected)), "{body}");
        assert_eq!(read(&inbox, 8, &answer), None);
        let nobody = Answer {
            no_responders: true,
            ..answer
        };
        assert!(matches!(
            read(&inbox, 7, &nobody),
            Some((3, Told::NotNow(_)))
        ));
    }

    #[test]
    fn answers_as_recorded_from_nats_server_2_15() {
        check(r#"{"stream":"UP","seq":12}"#, Told::Stored(12));
        check(
            r#"{"stream":"UP","seq":9,"duplicate": true}"#,
            Told::Stored(9),
        );
        check(
            r#"{"stream":"UP","seq":1012,"batch":"a-7","count":1000}"#,
            Told::Stored(1012),
        );
        check(
            r#"{"error":{"code":400,"err_code":10201,"description":"atomic publish batch contains duplicate message id"},"stream":"UP","seq":0}"#,
            Told::Refused(Refusal::Refused(
                "atomic publish batch contains duplicate message id (10201)".to_owned(),
            )),
        );
        check(
            r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"UP","seq":0}"#,
            Told::Refused(Refusal::Full(
                "maximum messages exceeded (10077)".to_owned(),
            )),
        );
        // The same message is with the leader of a replicated stream, and not stored yet.
        check(
            r#"{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"UP","seq":0}"#,
            Told::NotNow("duplicate message id is in process (10158)".to_owned()),
        );
        for unclear in ["", "{}", "[]", r#"{"seq":"x"}"#] {
            let inbox = Inbox::new(1);
            let answer = Answer {
                subject: (inbox.start(1) + "1").into(),
                no_responders: false,
                payload: unclear.into(),
            };
            let told = read(&inbox, 1, &answer);
            assert!(matches!(told, Some((1, Told::NotNow(_)))), "{unclear}");
        }
    }
}
