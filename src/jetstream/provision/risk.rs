//! What a stream may drop before a durable has read it, by its declaration.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use serde::Serialize;
use serde_json::Value;

use super::durable::Durable;
use super::stream::Stream;

/// A limit of a stream at which it drops the oldest message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, EncodeLabelValue)]
#[serde(rename_all = "snake_case")]
#[expect(
    non_camel_case_types,
    reason = "labels as the JetStream API names them"
)]
pub enum Limit {
    /// Older ones are dropped, whether they are read or not.
    max_age,
    /// What does not fit is dropped.
    max_bytes,
    /// What is too many is dropped.
    max_msgs,
    /// What is too many for a subject is dropped.
    max_msgs_per_subject,
}

/// A durable that may miss messages, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, EncodeLabelSet)]
pub struct Risk {
    /// The stream.
    pub stream: String,
    /// The durable.
    pub durable: String,
    /// The stream's limit.
    pub limit: Limit,
}

/// Each limit of each durable's stream at which what the durable has not read is dropped.
#[must_use]
pub fn risks(streams: &[Stream], durables: &[Durable]) -> Vec<Risk> {
    const LIMITS: [(Limit, &str); 4] = [
        (Limit::max_age, "max_age"),
        (Limit::max_bytes, "max_bytes"),
        (Limit::max_msgs, "max_msgs"),
        (Limit::max_msgs_per_subject, "max_msgs_per_subject"),
    ];
    let mut risks = Vec::new();
    for durable in durables {
        let Some(stream) = streams.iter().find(|stream| stream.name == durable.stream) else {
            continue;
        };
        let drops_old = stream.config.get("discard").and_then(Value::as_str) != Some("new");
        for (limit, key) in LIMITS {
            let is_set = stream.config.get(key).and_then(Value::as_i64) > Some(0);
            // Age alone drops messages also where what is new is refused at the other limits.
            if is_set && (drops_old || limit == Limit::max_age) {
                risks.push(Risk {
                    stream: durable.stream.clone(),
                    durable: durable.name.clone(),
                    limit,
                });
            }
        }
    }
    risks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_that_drop_what_is_unread_are_named() {
        let stream = |config: Value| Stream {
            name: "S".to_owned(),
            config,
        };
        let durable = Durable {
            stream: "S".to_owned(),
            name: "d".to_owned(),
            config: json!({}),
        };
        let limits = |config: Value| -> Vec<Limit> {
            let found = risks(&[stream(config)], std::slice::from_ref(&durable));
            found.into_iter().map(|risk| risk.limit).collect()
        };
        let bounded = json!({"discard": "old", "max_age": 5, "max_bytes": 9, "max_msgs": -1});
        assert_eq!(limits(bounded), [Limit::max_age, Limit::max_bytes]);
        let refusing = json!({"discard": "new", "max_age": 5, "max_bytes": 9});
        assert_eq!(limits(refusing), [Limit::max_age]);
        assert_eq!(limits(json!({"max_age": 0, "max_bytes": -1})), []);
    }
}
