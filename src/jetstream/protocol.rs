//! How a shard brings messages into its stream: by what the stream's declaration allows.
//!
//! Whatever is chosen holds the same promises; what differs is the price. [`batch`](super::batch), [`whole`](super::whole) and
//! [`wave`](super::wave) have what is particular to each.

use serde_json::Value;

/// A way of publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Fast batch ingest: what is stored of a batch is a prefix of it.
    Fast,
    /// Atomic batches: all of one is stored, or nothing. One sync for all of it where the server syncs each write.
    Atomic,
    /// Messages one by one, at most one of a device at a time. Any stream takes them.
    Single,
}

impl Protocol {
    /// The best one for a stream with this configuration: `allow_batched`, else `allow_atomic`, else messages one by one.
    pub(super) fn of(config: &Value) -> Self {
        let allows = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
        if allows("allow_batched") {
            Self::Fast
        } else if allows("allow_atomic") {
            Self::Atomic
        } else {
            Self::Single
        }
    }

    /// Most messages that are sent without an answer to the first one.
    pub(super) fn messages_max(self) -> usize {
        match self {
            Self::Fast => super::batch::MESSAGES_MAX,
            Self::Atomic => super::atomic::MESSAGES_MAX,
            Self::Single => super::wave::MESSAGES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_stream_allows_decides() {
        let of = |batched, atomic| {
            Protocol::of(&json!({"allow_batched": batched, "allow_atomic": atomic}))
        };
        assert_eq!(of(true, true), Protocol::Fast);
        assert_eq!(of(true, false), Protocol::Fast);
        assert_eq!(of(false, true), Protocol::Atomic);
        assert_eq!(of(false, false), Protocol::Single);
        assert_eq!(Protocol::of(&json!({})), Protocol::Single);
    }
}
