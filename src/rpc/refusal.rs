//! Why a request to a device has no answer of the device.

use bytes::Bytes;
use serde_json::json;

use crate::message::{Headers, Message, Subject};

const ERROR: &str = "Jw-Error";

const ALL: [Refusal; 7] = [
    Refusal::BadRequest,
    Refusal::Offline,
    Refusal::NotSubscribed,
    Refusal::TooLarge,
    Refusal::Busy,
    Refusal::Timeout,
    Refusal::Unavailable,
];

/// What a service finds in `Jw-Error`; the set is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The request itself is wrong.
    BadRequest,
    /// The device is not connected, or its connection ended.
    Offline,
    /// It subscribed to no topic that the request could be sent on.
    NotSubscribed,
    /// Larger than the device takes.
    TooLarge,
    /// As many requests are under way as may be.
    Busy,
    /// It did not answer in time.
    Timeout,
    /// Whether the device is connected cannot be found out now.
    Unavailable,
}

impl Refusal {
    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Offline => "offline",
            Self::NotSubscribed => "not_subscribed",
            Self::TooLarge => "too_large",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
        }
    }

    /// The one that a reply of another node tells; none if it is a device's answer.
    pub(super) fn of(reply: &Message) -> Option<Self> {
        let word = reply.headers.get(ERROR)?;
        ALL.into_iter().find(|refusal| refusal.as_str() == word)
    }

    fn words(self) -> &'static str {
        match self {
            Self::BadRequest => "the request is wrong",
            Self::Offline => "the device is not connected",
            Self::NotSubscribed => "the device subscribed to no topic for this request",
            Self::TooLarge => "the request is larger than the device takes",
            Self::Busy => "as many requests are under way as may be",
            Self::Timeout => "the device did not answer in time",
            Self::Unavailable => "it cannot be found out whether the device is connected",
        }
    }

    /// The answer to the service, with `detail` if there is more to say.
    pub(super) fn reply(self, to: Subject, detail: Option<&str>) -> Message {
        let mut headers = Headers::with_capacity(64);
        headers.push(ERROR, self.as_str());
        headers.push("Content-Type", "application/json");
        let message = detail.unwrap_or_else(|| self.words());
        let body = json!({ "error": self.as_str(), "message": message });
        Message {
            subject: to,
            headers,
            payload: Bytes::from(body.to_string()),
        }
    }
}
