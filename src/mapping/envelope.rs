//! The `protobuf` form: a message as `jetway.v1.DeviceMessage` (schema: `proto/`).
//!
//! It says what the `native` form says in headers, without their encoding. Reading one is `content`'s.

use bytes::Bytes;
use prost::Message as _;

use super::uplink::Received;

/// The Rust of `proto/jetway/v1`, made by `proto/build.rs`.
#[allow(missing_docs, reason = "generated; the schema is the documentation")]
#[allow(clippy::all, reason = "generated")]
mod v1 {
    include!(concat!(env!("OUT_DIR"), "/jetway.v1.rs"));
}

pub use v1::{DeviceMessage, UserProperty};

/// The `Content-Type` of this form.
pub const CONTENT_TYPE: &str = "application/vnd.jetway.device-message.v1+protobuf";

/// A received PUBLISH in this form.
pub(super) fn encode(received: &Received<'_>) -> Bytes {
    let (publish, route) = (received.publish, received.route);
    let properties = &publish.properties;
    let user = received.user().map(|(name, value)| UserProperty {
        name: name.to_owned(),
        value: value.to_owned(),
    });
    let message = DeviceMessage {
        id: received.receipt.id.to_owned(),
        handle: route.rule.handle.value.clone(),
        r#type: route.kind.to_string(),
        product_id: route.id.product().to_owned(),
        device_name: route.id.name().to_owned(),
        topic: publish.topic.to_string(),
        received_at_ms: signed(received.receipt.received_ms),
        qos: Some(u32::from(publish.qos as u8)),
        retain: publish.retain,
        traceparent: received.traceparent.0.to_owned(),
        payload: publish.payload.clone(),
        content_type: properties.content_type.as_ref().map(ToString::to_string),
        response_topic: properties.response_topic.as_ref().map(ToString::to_string),
        correlation_data: properties.correlation_data.clone(),
        payload_format: properties.payload_format_indicator.map(u32::from),
        expires_at_ms: received.expires_ms().map(signed),
        user_properties: user.collect(),
    };
    message.encode_to_vec().into()
}

/// Unix milliseconds as protobuf has them.
fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
