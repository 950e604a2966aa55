//! The requests of the JetStream API, and what a refusal says.

use std::time::Duration;

use async_nats::RequestErrorKind;
use serde_json::Value;

use crate::jetstream::{Error, Link};

/// The server's number for what went wrong; none if nothing did.
pub(super) fn error_code(answer: &Value) -> Option<u64> {
    answer.get("error")?.get("err_code")?.as_u64()
}

pub(in crate::jetstream) fn refused(stream: &str, error: &Value) -> Error {
    let text = |key: &str| error.get(key).map(ToString::to_string).unwrap_or_default();
    Error::Stream {
        stream: stream.to_owned(),
        reason: format!(
            "{} ({})",
            text("description").trim_matches('"'),
            text("err_code")
        ),
    }
}

/// One JetStream API request; a server that just started may need a moment before JetStream answers.
pub(in crate::jetstream) async fn request(
    link: &Link,
    subject: &str,
    body: &Value,
) -> Result<Value, Error> {
    const TRIES: u32 = 50;
    const BETWEEN: Duration = Duration::from_millis(100);
    let payload = match body {
        Value::Null => bytes::Bytes::new(),
        body => body.to_string().into(),
    };
    let mut tries = 1;
    let message = loop {
        match link
            .client
            .request(subject.to_owned(), payload.clone())
            .await
        {
            Ok(message) => break message,
            Err(error) if error.kind() == RequestErrorKind::NoResponders && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(BETWEEN).await;
            }
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {
                return Err(Error::NoJetStream {
                    url: link.url().to_owned(),
                    reason:
                        "no responders; start nats-server with -js, or enable it for the account"
                            .to_owned(),
                });
            }
            Err(error) => {
                return Err(Error::Request {
                    subject: subject.to_owned(),
                    reason: error.to_string(),
                });
            }
        }
    };
    serde_json::from_slice(&message.payload).map_err(|error| Error::Request {
        subject: subject.to_owned(),
        reason: format!("unreadable answer: {error}"),
    })
}
