//! The figures of jobs: runs by job and outcome, how long they took. Labels are names of ours (G38).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::run::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabel {
    job: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabel {
    job: &'static str,
}

/// All figures of this module; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    runs: Family<RunLabel, Counter>,
    running: Family<JobLabel, Gauge>,
    last_seconds: Family<JobLabel, Gauge<f64, AtomicU64>>,
    /// Results that XXL-JOB did not take at the last try.
    pub(super) callbacks_waiting: Gauge,
}

impl Metrics {
    /// Publishes the figures, with prefix `jobs`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("jobs");
        registry.register(
            "runs",
            "Runs that ended on this node, by job and outcome",
            self.runs.clone(),
        );
        registry.register("running", "Runs on this node", self.running.clone());
        registry.register(
            "last_seconds",
            "How long the last run on this node took",
            self.last_seconds.clone(),
        );
        registry.register(
            "callbacks_waiting",
            "Results that XXL-JOB did not take at the last try",
            self.callbacks_waiting.clone(),
        );
    }

    pub(super) fn begun(&self, job: &'static str) {
        self.running.get_or_create(&JobLabel { job }).inc();
    }

    pub(super) fn ended(&self, job: &'static str, outcome: Outcome, took: Duration) {
        self.running.get_or_create(&JobLabel { job }).dec();
        let outcome = outcome.as_str();
        self.runs.get_or_create(&RunLabel { job, outcome }).inc();
        let last = self.last_seconds.get_or_create(&JobLabel { job });
        last.set(took.as_secs_f64());
    }
}
