//! Whether the stream has what was acknowledged: each message, once, in the order of its device.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow};
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::OrderedConfig;
use futures_util::StreamExt as _;
use serde::Serialize;

use crate::payload;
use crate::target::Target;

/// In front of what a gateway with the open profile holds.
const HELD: &str = "mqtt_held.";

/// What a device published: numbers 1 to `sent`, of which the first `acknowledged` had an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(crate) device: usize,
    pub(crate) acknowledged: u64,
    pub(crate) sent: u64,
}

/// What the stream has of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Checked {
    /// Messages with or without an answer.
    pub(crate) sent: u64,
    /// Those of them that are in the stream.
    pub(crate) found: u64,
    /// Messages with an answer.
    pub(crate) acknowledged: u64,
    /// Those of them that are not in the stream.
    pub(crate) missing: u64,
    /// Messages that are in the stream again.
    pub(crate) repeated: u64,
    /// Messages behind a later one of their device.
    pub(crate) disordered: u64,
    /// Messages in the stream that nobody sent.
    pub(crate) foreign: u64,
}

impl Checked {
    pub(crate) fn is_clean(self) -> bool {
        self.missing + self.repeated + self.disordered + self.foreign == 0
    }
}

/// One device's messages as they come out of the stream.
#[derive(Debug, Default)]
struct Seen {
    /// The highest number so far.
    last: u64,
    count: u64,
    repeated: u64,
    disordered: u64,
    /// Whether number n was there.
    there: Vec<bool>,
}

impl Seen {
    fn add(&mut self, counter: u64) {
        let index = usize::try_from(counter).unwrap_or(usize::MAX);
        if self.there.len() <= index {
            self.there.resize(index + 1, false);
        }
        match self.there.get_mut(index) {
            Some(there) if !*there => {
                *there = true;
                self.count += 1;
                self.disordered += u64::from(counter < self.last);
            }
            _ => self.repeated += 1,
        }
        self.last = self.last.max(counter);
    }

    fn missing(&self, acknowledged: u64) -> u64 {
        let to = usize::try_from(acknowledged).unwrap_or(usize::MAX);
        let found = self.there.iter().take(to.saturating_add(1)).skip(1);
        let found = found.filter(|there| **there).count() as u64;
        acknowledged - found.min(acknowledged)
    }
}

/// Reads the target's whole stream; nothing for a target that stores nothing.
pub(crate) async fn stored(target: &Target, published: &[Published]) -> Result<Option<Checked>> {
    let Some((client, name)) = target.nats().await?.zip(target.stream.as_ref()) else {
        return Ok(None);
    };
    let context = jetstream::new(client);
    let stream = context.get_stream(name).await?;
    let mut pending = stream.cached_info().state.messages;
    let consumer = stream.create_consumer(OrderedConfig::default()).await?;
    let mut messages = consumer.messages().await?;
    let mut seen: HashMap<usize, Seen> = HashMap::new();
    let mut checked = Checked::default();
    while pending > 0 {
        let message = messages.next().await.context("the stream ended early")??;
        let info = message.info();
        pending = info.map_err(|error| anyhow!(error))?.pending;
        // Of QoS 2 and without its PUBREL yet: that is stored again under its own subject.
        if message.subject.starts_with(HELD) {
            continue;
        }
        let device = target.naming.device_of(&message.subject);
        match device.zip(payload::counter(&message.payload)) {
            Some((device, counter)) => seen.entry(device).or_default().add(counter),
            None => checked.foreign += 1,
        }
    }
    for own in published {
        let seen = seen.remove(&own.device).unwrap_or_default();
        checked.sent += own.sent;
        checked.found += seen.count;
        checked.acknowledged += own.acknowledged;
        checked.missing += seen.missing(own.acknowledged);
        checked.repeated += seen.repeated;
        checked.disordered += seen.disordered;
        checked.foreign += seen.last.saturating_sub(own.sent);
    }
    checked.foreign += seen.values().map(|seen| seen.count).sum::<u64>();
    Ok(Some(checked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(counters: &[u64]) -> Seen {
        let mut seen = Seen::default();
        for counter in counters {
            seen.add(*counter);
        }
        seen
    }

    #[test]
    fn what_is_missing_repeated_or_out_of_order_is_counted() {
        let of = |counters: &[u64], acknowledged| {
            let seen = seen(counters);
            (seen.missing(acknowledged), seen.repeated, seen.disordered)
        };
        assert_eq!(of(&[1, 2, 3], 3), (0, 0, 0));
        assert_eq!(of(&[1, 2, 3, 4], 3), (0, 0, 0));
        assert_eq!(of(&[1, 3], 3), (1, 0, 0));
        assert_eq!(of(&[1, 3, 2], 3), (0, 0, 1));
        assert_eq!(of(&[1, 2, 2, 3], 3), (0, 1, 0));
        assert_eq!(of(&[], 3), (3, 0, 0));
    }
}
