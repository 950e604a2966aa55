//! When something is an alarm: the rules of `deploy/prometheus/jetway.rules.yml`, judged by the gateway itself. Without I/O.
//!
//! Both have the same names and thresholds, so that an operator may use either.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::alarm::{Alarm, Scope};
use super::config::Config;
use super::history::History;
use super::measured::{Dead, Durable, Measured, Outbox};
use super::readiness::STALL_SECONDS_MAX;

/// A node that is away from NATS for less reconnects, which is no news.
const AWAY_FOR: Duration = Duration::from_secs(10);
const NOT_READY_FOR: Duration = Duration::from_secs(30);
/// How long a lost node is told.
const LOST_FOR: Duration = Duration::from_secs(600);
/// How long a row of the outbox may wait.
const OUTBOX_WAIT_MAX: Duration = Duration::from_secs(300);
/// Below so many uplinks a second a step means nothing.
const STEP_RATE_MIN: u64 = 1;

/// What this node knows of itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) connected: bool,
    /// Everything that keeps it from storing, but for a drain.
    pub(super) obstacles: Vec<String>,
    pub(super) stalled_s: i64,
    /// Nodes that it saw lost.
    pub(super) nodes_lost: u64,
}

/// Judges round by round.
pub(super) struct Conditions {
    config: Config,
    /// This node's name.
    node: String,
    uplink_stream: String,
    /// Since when a condition holds that has to hold for a while.
    since: BTreeMap<(&'static str, String), Instant>,
    /// Handled and failed, of each durable.
    finished: BTreeMap<String, (History, History)>,
    uplinks: History,
    lost: History,
}

impl Conditions {
    pub(super) fn new(config: &Config, node: &str, uplink_stream: &str) -> Self {
        Self {
            config: config.clone(),
            node: node.to_owned(),
            uplink_stream: uplink_stream.to_owned(),
            since: BTreeMap::new(),
            finished: BTreeMap::new(),
            uplinks: History::new(Duration::from_secs(config.window_s)),
            lost: History::new(LOST_FOR),
        }
    }

    /// All alarms that fire now.
    pub(super) fn judge(&mut self, now: Instant, measured: &Measured, node: &Node) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        for durable in &measured.durables {
            alarms.extend(self.lag(now, durable));
            alarms.extend(self.failures(now, durable));
        }
        let dead = measured.dead_letters.iter().filter(|dead| dead.count > 0);
        alarms.extend(dead.map(dead_letters));
        alarms.extend(measured.outbox.iter().flat_map(outbox));
        alarms.extend(self.rate_step(now, measured));
        self.lost.note(now, node.nodes_lost);
        if self.lost.risen() > 0 {
            let lost = format!("{} lost within ten minutes", self.lost.risen());
            alarms.push(alarm(
                "JetwayNodeLost",
                Scope::Cluster,
                "nodes",
                "node_lost",
                lost,
            ));
        }
        alarms.extend(self.node(now, node));
        alarms
    }

    fn lag(&mut self, now: Instant, durable: &Durable) -> Option<Alarm> {
        const RULE: &str = "JetwayDurableLag";
        let lag = durable.state.as_ref().map_or(0, |state| state.pending);
        let for_long = Duration::from_secs(self.config.lag_for_s);
        let task = task(durable);
        let is_late = lag > self.config.lag_max;
        self.holds(RULE, &task, now, is_late, for_long).then(|| {
            let age_s = durable.oldest_age_ms / 1_000;
            let detail = format!("{lag} messages wait, the oldest for {age_s} s");
            alarm(RULE, Scope::Cluster, &task, "lag", detail)
        })
    }

    fn failures(&mut self, now: Instant, durable: &Durable) -> Option<Alarm> {
        let window = Duration::from_secs(self.config.window_s);
        let task = task(durable);
        let fresh = || (History::new(window), History::new(window));
        let (handled, failed) = self.finished.entry(task.clone()).or_insert_with(fresh);
        handled.note(now, durable.tally.handled);
        failed.note(now, durable.tally.failed);
        let (handled, failed) = (handled.risen(), failed.risen());
        let is_too_much = failed * 100 > (handled + failed) * self.config.failure_percent_max;
        is_too_much.then(|| {
            let detail = format!("{failed} tries failed, {handled} messages were handled");
            alarm(
                "JetwayDurableFailures",
                Scope::Cluster,
                &task,
                "failures",
                detail,
            )
        })
    }

    fn rate_step(&mut self, now: Instant, measured: &Measured) -> Option<Alarm> {
        let mut streams = measured.streams.iter();
        let stream = streams.find(|stream| stream.name == self.uplink_stream)?;
        let state = stream.state.as_ref()?;
        self.uplinks.note(now, state.last_sequence);
        let (before, last) = self.uplinks.steps()?;
        let is_step = last.abs_diff(before) * 100 > before * self.config.rate_step_percent_max;
        (is_step && before >= STEP_RATE_MIN * self.config.window_s).then(|| {
            let window_s = self.config.window_s;
            let detail = format!("{before} uplinks in {window_s} s, then {last}");
            alarm(
                "JetwayRateStep",
                Scope::Cluster,
                &stream.name,
                "rate_step",
                detail,
            )
        })
    }

    fn node(&mut self, now: Instant, node: &Node) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let mut add = |rule, reason, detail: String| {
            alarms.push(alarm(rule, Scope::Node, &self.node, reason, detail));
        };
        if node.stalled_s >= STALL_SECONDS_MAX {
            let detail = format!("no answer for {} s", node.stalled_s);
            add("JetwayUplinkStalled", "uplink_stalled", detail);
        }
        let task = self.node.clone();
        let rule = "JetwayNatsAway";
        if self.holds(rule, &task, now, !node.connected, AWAY_FOR) {
            let detail = "this node has no NATS connection".to_owned();
            alarms.push(alarm(rule, Scope::Node, &task, "nats_away", detail));
        }
        let rule = "JetwayNotReady";
        let is_kept = !node.obstacles.is_empty();
        if self.holds(rule, &task, now, is_kept, NOT_READY_FOR) {
            let detail = node.obstacles.join("; ");
            alarms.push(alarm(rule, Scope::Node, &task, "not_ready", detail));
        }
        alarms
    }

    /// Whether a condition has held for so long.
    fn holds(
        &mut self,
        rule: &'static str,
        task: &str,
        now: Instant,
        is_true: bool,
        for_long: Duration,
    ) -> bool {
        let key = (rule, task.to_owned());
        if !is_true {
            self.since.remove(&key);
            return false;
        }
        let since = *self.since.entry(key).or_insert(now);
        now.duration_since(since) >= for_long
    }
}

fn task(durable: &Durable) -> String {
    format!("{}/{}", durable.stream, durable.name)
}

fn alarm(rule: &str, scope: Scope, task: &str, reason: &str, detail: String) -> Alarm {
    Alarm {
        rule: rule.to_owned(),
        scope,
        task: task.to_owned(),
        event: String::new(),
        reason: reason.to_owned(),
        retries: None,
        trace_id: String::new(),
        detail,
        count: 0,
    }
}

fn dead_letters(dead: &Dead) -> Alarm {
    let mut detail = format!("{} dead letters", dead.count);
    if !dead.durable.is_empty() {
        detail.push_str(&format!(", the last one of {}", dead.durable));
    }
    Alarm {
        event: dead.event.clone(),
        retries: dead.attempts,
        trace_id: dead.trace_id.clone(),
        // It rises with each further one, whatever was dropped meanwhile.
        count: dead.last_sequence,
        ..alarm(
            "JetwayDeadLetters",
            Scope::Cluster,
            &dead.origin,
            &dead.reason,
            detail,
        )
    }
}

/// A relay that does not keep up, or is not there; rows that a broker does not want.
fn outbox(outbox: &Outbox) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut add = |rule, reason, count, detail| {
        alarms.push(Alarm {
            count,
            ..alarm(rule, Scope::Cluster, "outbox", reason, detail)
        });
    };
    if outbox.oldest > OUTBOX_WAIT_MAX {
        let (waiting, oldest_s) = (outbox.waiting, outbox.oldest.as_secs());
        let detail = format!("{waiting} rows wait, the oldest for {oldest_s} s");
        add("JetwayOutboxPending", "outbox_pending", 0, detail);
    }
    if outbox.dead > 0 {
        let detail = format!("{} rows have used up their attempts", outbox.dead);
        add("JetwayOutboxDead", "outbox_dead", outbox.dead, detail);
    }
    alarms
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
