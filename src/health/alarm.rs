//! An alarm, and what one receiver has to be told: the difference between what it was told and what is true. Without I/O.
//!
//! Nothing is queued for a receiver. While one cannot be reached the difference changes with the truth and is never larger
//! than it, so a dead receiver costs nothing and hears the newest state when it is back.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Whose condition an alarm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scope {
    /// Of this node, which tells it itself.
    Node,
    /// Of all nodes together, told by one of them.
    Cluster,
}

/// Something that an operator has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alarm {
    /// Which rule, under the name that it has in `deploy/prometheus/jetway.rules.yml`.
    pub(super) rule: String,
    /// Whose condition it is.
    pub(super) scope: Scope,
    /// What is concerned: `STREAM/durable`, a stream, the origin of dead letters, a node.
    pub(super) task: String,
    /// The event that it is about, where it is about one.
    pub(super) event: String,
    /// Why, in a fixed word.
    pub(super) reason: String,
    /// How often it was tried, where that is known.
    pub(super) retries: Option<u64>,
    /// The trace that it belongs to, where there is one.
    pub(super) trace_id: String,
    /// What was measured, in words.
    pub(super) detail: String,
    /// What counts up while it goes on and is told again for it; 0 if nothing does.
    pub(super) count: u64,
}

type Key = (String, String, String);

impl Alarm {
    fn key(&self) -> Key {
        (self.rule.clone(), self.task.clone(), self.reason.clone())
    }
}

/// What is true now.
#[derive(Debug, Clone, Default)]
pub(super) struct Present {
    pub(super) alarms: Vec<Alarm>,
    /// Whether those of all nodes together are among them; another node tells them otherwise.
    pub(super) has_cluster: bool,
}

/// What there is to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct News {
    /// What is wrong and was not told yet, or not for long, or is worse.
    pub(super) firing: Vec<Alarm>,
    /// What was told and is over.
    pub(super) over: Vec<Alarm>,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.firing.is_empty() && self.over.is_empty()
    }

    /// Whether something in it is told by one node for all.
    pub(super) fn has_cluster(&self) -> bool {
        let mut all = self.firing.iter().chain(&self.over);
        all.any(|alarm| alarm.scope == Scope::Cluster)
    }
}

/// What one receiver was told and has not been told the end of.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Key, (Alarm, Instant)>);

impl Told {
    /// What it has to be told; an alarm is told again after `repeat`, if there is one.
    pub(super) fn news(&self, present: &Present, now: Instant, repeat: Option<Duration>) -> News {
        let is_ours = |alarm: &&Alarm| present.has_cluster || alarm.scope == Scope::Node;
        let is_new = |alarm: &&Alarm| {
            self.0.get(&alarm.key()).is_none_or(|(told, at)| {
                let again = repeat.is_some_and(|repeat| now.duration_since(*at) >= repeat);
                again || alarm.count > told.count
            })
        };
        let alarms = present.alarms.iter().filter(is_ours);
        let lasts = |key: &Key| present.alarms.iter().any(|alarm| alarm.key() == *key);
        let over = self.0.iter().filter(|(key, _)| !lasts(key));
        News {
            firing: alarms.filter(is_new).cloned().collect(),
            over: over
                .map(|(_, (alarm, _))| alarm)
                .filter(is_ours)
                .cloned()
                .collect(),
        }
    }

    /// It has been told.
    pub(super) fn tell(&mut self, news: &News, now: Instant) {
        for alarm in &news.over {
            self.0.remove(&alarm.key());
        }
        for alarm in &news.firing {
            self.0.insert(alarm.key(), (alarm.clone(), now));
        }
    }

    /// Takes over what another node, or this one before, has told for all nodes.
    pub(super) fn take_over(&mut self, told: Vec<Alarm>, now: Instant) {
        self.0.retain(|_, (alarm, _)| alarm.scope == Scope::Node);
        let told = told.into_iter().map(|alarm| (alarm.key(), (alarm, now)));
        self.0.extend(told);
    }

    /// What was told for all nodes, for whoever tells next.
    pub(super) fn cluster(&self) -> Vec<&Alarm> {
        let alarms = self.0.values().map(|(alarm, _)| alarm);
        alarms
            .filter(|alarm| alarm.scope == Scope::Cluster)
            .collect()
    }
}

#[cfg(test)]
#[path = "alarm_tests.rs"]
mod tests;
