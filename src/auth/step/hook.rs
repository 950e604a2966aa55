//! What the services behind the steps `http` and `nats` are asked, and how they answer: JSON, the same for both.
//!
//! Only a well-formed answer is one. Everything else, error pages included, is a service that does not work, and no denial (G24).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::access::Rules;
use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::denied::{Denied, Refusal, Unavailable};
use crate::auth::step::claimed;
use crate::device::{Certificate, DeviceId};

/// A login as the service is asked about it.
#[derive(Serialize)]
struct Question<'a> {
    listener: &'a str,
    /// Address and port; null through a Unix socket.
    peer_address: Option<String>,
    client_id: &'a str,
    username: Option<&'a str>,
    /// Where it is UTF-8; null otherwise.
    password: Option<&'a str>,
    /// Where it is not.
    password_base64: Option<String>,
    certificate: Option<Holder<'a>>,
}

/// Of the certificate that the TLS handshake verified.
#[derive(Serialize)]
struct Holder<'a> {
    common_name: Option<&'a str>,
    alternative_names: &'a [Box<str>],
    /// SHA-256 of its DER form, in lower-case hex.
    fingerprint: String,
}

#[derive(Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Answer {
    /// It comes in as the device of the client id.
    Allow {
        /// If the service says who it is, that must be the device of the client id.
        product: Option<String>,
        device: Option<String>,
        /// When the connection is to end, in Unix milliseconds.
        expires_at_ms: Option<u64>,
        /// What it may besides, and what it may not.
        #[serde(default)]
        rules: Rules,
    },
    Deny {
        #[serde(default)]
        reason: Reason,
    },
    /// The next step is asked.
    Ignore {},
}

/// What a device is told that is denied.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "snake_case")]
enum Reason {
    #[default]
    BadCredentials,
    NotAuthorized,
}

/// The question about an attempt.
///
/// # Errors
/// None that a login can cause.
pub(super) fn question(attempt: &Attempt<'_>) -> Result<Bytes, Unavailable> {
    let text = attempt
        .password
        .and_then(|bytes| str::from_utf8(bytes).ok());
    let binary = attempt.password.filter(|_| text.is_none());
    let question = Question {
        listener: attempt.listener,
        peer_address: attempt.peer.map(|peer| peer.to_string()),
        client_id: attempt.client_id,
        username: attempt.username,
        password: text,
        password_base64: binary.map(|bytes| STANDARD.encode(bytes)),
        certificate: attempt.certificate.map(holder),
    };
    let json = serde_json::to_vec(&question);
    json.map(Bytes::from)
        .map_err(|error| Unavailable::Source(error.to_string()))
}

fn holder(certificate: &Certificate) -> Holder<'_> {
    let hex = certificate.fingerprint.iter();
    Holder {
        common_name: certificate.common_name.as_deref(),
        alternative_names: &certificate.alternative_names,
        fingerprint: hex.map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// What the service says about an attempt of this client identifier.
///
/// # Errors
/// [`Unavailable::Source`] for an answer that is none.
pub(super) fn verdict(json: &[u8], client_id: &str) -> Result<Verdict, Unavailable> {
    // The parser's own words would have parts of the answer.
    let answer: Answer = serde_json::from_slice(json).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        Unavailable::Source(format!(
            "expected {{\"result\": \"allow\"}}, deny or ignore: {place}"
        ))
    })?;
    Ok(match answer {
        Answer::Ignore {} => Verdict::Pass(None),
        Answer::Deny { reason } => Verdict::Deny(Denied::Refused(match reason {
            Reason::BadCredentials => Refusal::Hook,
            Reason::NotAuthorized => Refusal::NotAuthorized,
        })),
        Answer::Allow {
            product,
            device,
            expires_at_ms,
            rules,
        } => {
            let claimed = match claimed(client_id) {
                Ok(claimed) => claimed,
                Err(denied) => return Ok(Verdict::Deny(denied)),
            };
            let named = |id: &DeviceId| {
                product
                    .as_deref()
                    .is_none_or(|product| product == id.product())
                    && device.as_deref().is_none_or(|name| name == id.name())
            };
            match named(&claimed) {
                true => Verdict::Accept(Decision {
                    expires_ms: expires_at_ms,
                    rules,
                    ..Decision::of(claimed)
                }),
                false => Verdict::Deny(Denied::Refused(Refusal::OtherDevice("service", claimed))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn says(answer: &Value, client_id: &str) -> Result<Verdict, Unavailable> {
        verdict(answer.to_string().as_bytes(), client_id)
    }

    #[test]
    fn a_question_has_everything_that_is_known() {
        let certificate = Certificate {
            common_name: Some("P&n".into()),
            alternative_names: ["a.b".into()].into(),
            fingerprint: [0xAB; 32],
        };
        let attempt = Attempt {
            peer: Some(([192, 0, 2, 1], 5).into()),
            certificate: Some(&certificate),
            username: Some("u"),
            password: Some(b"p"),
            ..Attempt::of("P&n")
        };
        let asked = |attempt: &Attempt<'_>| -> Value {
            serde_json::from_slice(&question(attempt).unwrap()).unwrap()
        };
        let expected = json!({
            "listener": "127.0.0.1:1883", "peer_address": "192.0.2.1:5", "client_id": "P&n",
            "username": "u", "password": "p", "password_base64": null,
            "certificate": {
                "common_name": "P&n", "alternative_names": ["a.b"], "fingerprint": "ab".repeat(32),
            },
        });
        assert_eq!(asked(&attempt), expected);
        let binary = asked(&Attempt {
            password: Some(b"\xff"),
            ..Attempt::of("P&n")
        });
        assert_eq!(
            (&binary["password"], &binary["password_base64"]),
            (&Value::Null, &json!("/w=="))
        );
    }

    #[test]
    fn answers_are_verdicts() {
        let id = DeviceId::new("P", "n").unwrap();
        let accepted = |expires_ms| {
            let mut decision = Decision::of(id.clone());
            decision.expires_ms = expires_ms;
            Verdict::Accept(decision)
        };
        let refused = |refusal| Verdict::Deny(Denied::Refused(refusal));
        for (answer, expected) in [
            (json!({"result": "allow"}), accepted(None)),
            (json!({"result": "allow", "more": 1}), accepted(None)),
            (
                json!({"result": "allow", "product": "P", "device": "n", "expires_at_ms": 7}),
                accepted(Some(7)),
            ),
            (json!({"result": "deny"}), refused(Refusal::Hook)),
            (
                json!({"result": "deny", "reason": "bad_credentials"}),
                refused(Refusal::Hook),
            ),
            (
                json!({"result": "deny", "reason": "not_authorized"}),
                refused(Refusal::NotAuthorized),
            ),
            (json!({"result": "ignore"}), Verdict::Pass(None)),
        ] {
            assert_eq!(says(&answer, "P&n").unwrap(), expected, "{answer}");
        }
    }

    #[test]
    fn rules_come_with_the_answer() {
        let rule = json!({"effect": "deny", "action": "publish", "filter": "$thing/up/event/#"});
        let Ok(Verdict::Accept(decision)) =
            says(&json!({"result": "allow", "rules": [rule]}), "P&n")
        else {
            panic!("it is denied");
        };
        assert_eq!(
            serde_json::to_value(&*decision.rules).unwrap(),
            json!([rule])
        );
    }

    #[test]
    fn nobody_is_let_in_as_another_one() {
        let allow = json!({"result": "allow", "product": "P", "device": "n"});
        for client_id in ["P&m", "Q&n"] {
            let verdict = says(&allow, client_id).unwrap();
            assert!(
                matches!(
                    verdict,
                    Verdict::Deny(Denied::Refused(Refusal::OtherDevice(..)))
                ),
                "{client_id}"
            );
        }
        for client_id in ["", "short", "register&P&n", "P&#"] {
            let verdict = says(&json!({"result": "allow"}), client_id).unwrap();
            assert!(matches!(verdict, Verdict::Deny(_)), "{client_id}");
        }
    }

    // G24
    #[test]
    fn what_is_no_answer_denies_nobody() {
        for text in [
            "",
            "allow",
            "{}",
            "null",
            r#"{"result":"Allow"}"#,
            r#"{"result":true}"#,
            r#"{"result":"allow","expires_at_ms":"soon"}"#,
            r##"{"result":"allow","rules":[{"effect":"deny","action":"both","filter":"#"}]}"##,
            r#"{"result":"allow","rules":[{"effect":"deny","action":"secret","filter":"a"}]}"#,
            r#"{"result":"allow","rules":{}}"#,
            r#"{"result":"deny","reason":"secret-in-answer"}"#,
        ] {
            let outcome = verdict(text.as_bytes(), "P&n");
            let Err(Unavailable::Source(said)) = outcome else {
                panic!("{text}: {outcome:?}");
            };
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
