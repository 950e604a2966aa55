//! Which events there are: the messages that say they are one.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde_json::Value;

use super::json;

/// The text of the protobuf schema of all events.
pub const PROTO: &str = include_str!("../../proto/jetway/v1/events.proto");

/// The same, compiled by `proto/build.rs`.
static DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/events.fds"));

/// One version of one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// `domain.resource.verb`
    pub event: String,
    /// Such as `1.0`.
    pub version: String,
    /// Its message, such as `jetway.v1.DevicePropertyReported`.
    pub message: MessageDescriptor,
    /// Its JSON Schema, draft 2020-12.
    pub json: Value,
}

/// All events of this release, by name and version.
#[must_use]
pub fn all() -> &'static [Schema] {
    static ALL: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let pool = DescriptorPool::decode(DESCRIPTORS);
        read(&pool.expect("the build wrote descriptors that it had checked"))
    });
    &ALL
}

/// The events among the messages of a pool, by name and version.
#[must_use]
pub fn read(pool: &DescriptorPool) -> Vec<Schema> {
    let mut schemas: Vec<Schema> = pool
        .all_messages()
        .filter_map(|message| {
            let (event, version) = event(&message)?;
            Some(Schema {
                json: json::schema(&message, &event, &version),
                event,
                version,
                message,
            })
        })
        .collect();
    schemas.sort_by(|a, b| (&a.event, &a.version).cmp(&(&b.event, &b.version)));
    schemas
}

/// Name and version of the event that a message says it is.
fn event(message: &MessageDescriptor) -> Option<(String, String)> {
    let option = message
        .parent_pool()
        .get_extension_by_name("jetway.v1.event")?;
    let options = message.options();
    if !options.has_extension(&option) {
        return None;
    }
    let event = options.get_extension(&option);
    let text = |name| {
        let value = event.as_message()?.get_field_by_name(name)?;
        value.as_str().map(str::to_owned)
    };
    Some((text("name")?, text("version")?))
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
