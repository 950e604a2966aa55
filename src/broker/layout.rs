//! Which streams and durables a broker has: what is declared for JetStream, read from its configuration objects. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Fault;
use crate::delivery::Redelivery;
use crate::message::{Subject, covers};

/// A stream of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: Arc<str>,
    /// What it takes: subjects with the wildcards of NATS.
    pub subjects: Vec<Subject>,
    /// How long a repeated message is known by its id.
    pub duplicate_window: Duration,
}

/// A durable consumer of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// Its stream.
    pub stream: Arc<str>,
    /// Its name, unique in its stream.
    pub name: Box<str>,
    /// What it selects: subjects with the wildcards of NATS.
    pub filters: Vec<Subject>,
    /// When a message comes again, and how often.
    pub redelivery: Redelivery,
    /// Whether it begins with what comes after it was made, not with all that is there.
    pub only_new: bool,
}

/// All of both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The streams; no two take the same subject.
    pub streams: Vec<Stream>,
    /// The durables.
    pub durables: Vec<Durable>,
}

impl Stream {
    /// A stream of this name from its configuration in the JetStream API.
    #[must_use]
    pub fn read(name: &str, config: &Value) -> Self {
        // The server's own, if it says none.
        const WINDOW: Duration = Duration::from_mins(2);
        let window = config.get("duplicate_window").and_then(Value::as_u64);
        Self {
            name: name.into(),
            subjects: texts(config, "subjects"),
            duplicate_window: window.map_or(WINDOW, Duration::from_nanos),
        }
    }

    /// Whether it takes messages of this subject.
    #[must_use]
    pub fn takes(&self, subject: &str) -> bool {
        self.subjects.iter().any(|filter| covers(filter, subject))
    }
}

impl Durable {
    /// A durable of this name from its configuration in the JetStream API.
    #[must_use]
    pub fn read(stream: &str, name: &str, config: &Value) -> Self {
        let policy = config.get("deliver_policy").and_then(Value::as_str);
        Self {
            stream: stream.into(),
            name: name.into(),
            filters: texts(config, "filter_subjects"),
            redelivery: Redelivery::read(config),
            only_new: policy == Some("new"),
        }
    }

    /// The same as the JetStream API says it, as far as it is known here.
    #[must_use]
    pub fn config(&self) -> Value {
        let nanoseconds = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let Redelivery {
            ack_wait,
            backoff,
            deliveries_max,
        } = &self.redelivery;
        json!({
            "filter_subjects": self.filters.iter().map(|filter| &**filter).collect::<Vec<_>>(),
            "ack_wait": nanoseconds(ack_wait),
            "backoff": backoff.iter().map(nanoseconds).collect::<Vec<_>>(),
            "max_deliver": deliveries_max,
            "deliver_policy": if self.only_new { "new" } else { "all" },
        })
    }

    /// Whether it selects messages of this subject.
    #[must_use]
    pub fn selects(&self, subject: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| covers(filter, subject))
    }
}

impl Layout {
    /// The stream that takes this subject.
    ///
    /// # Errors
    /// [`Fault::Refused`] if none does.
    pub fn stream_of(&self, subject: &str) -> Result<&Stream, Fault> {
        let stream = self.streams.iter().find(|stream| stream.takes(subject));
        stream.ok_or_else(|| Fault::Refused(format!("no stream takes the subject {subject}")))
    }
}

fn texts(config: &Value, key: &str) -> Vec<Subject> {
    let list = config.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(Subject::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_for_jetstream_says_who_takes_and_who_selects_what() {
        let gps =
            json!({"subjects": ["gps.>", "replay.map.>"], "duplicate_window": 7_000_000_000_u64});
        let map = json!({"filter_subjects": ["gps.report.*.p.>"], "deliver_policy": "new", "max_deliver": 2});
        let layout = Layout {
            streams: vec![Stream::read("GPS", &gps)],
            durables: vec![Durable::read("GPS", "map", &map)],
        };
        let stream = layout.stream_of("replay.map.gps.a").unwrap();
        assert_eq!(stream.duplicate_window.as_secs(), 7);
        let refused = Fault::Refused("no stream takes the subject a.b".to_owned());
        assert_eq!(layout.stream_of("a.b"), Err(refused));
        let durable = &layout.durables[0];
        assert!(durable.only_new && durable.selects("gps.report.created.p.d"));
        assert!(!durable.selects("gps.report.created.q.d"));
        assert_eq!(&Durable::read("GPS", "map", &durable.config()), durable);
        assert!(Durable::read("GPS", "all", &Value::Null).selects("x"));
    }
}
