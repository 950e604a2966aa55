//! Dead letters: what a message that cannot be delivered becomes.

use super::header;
use super::rules::Mapping;
use super::subject;
use crate::device::DeviceId;
use crate::message::{Headers, Message};
use crate::mqtt::Publish;

/// Why it is one: a word of a fixed set.
const REASON: &str = "Jw-Reason";

impl Mapping {
    /// A downlink that its device does not get: `dlq.downlink.<productID>.<deviceName>`, the payload as it was.
    #[must_use]
    pub fn dead_downlink(
        device: &DeviceId,
        publish: &Publish,
        reason: &'static str,
        now_ms: u64,
    ) -> Message {
        let mut headers = Headers::with_capacity(4);
        headers.push(REASON, reason);
        headers.push(header::TOPIC, header::value(&publish.topic));
        headers.push(header::QOS, header::qos(publish.qos));
        headers.push(header::TS, now_ms.to_string());
        if let Some(content_type) = &publish.properties.content_type {
            headers.push(header::CONTENT_TYPE, header::content_type(content_type));
        }
        Message {
            subject: format!("dlq.downlink.{}", subject::device_tokens(device)).into(),
            headers,
            payload: publish.payload.clone(),
        }
    }
}
