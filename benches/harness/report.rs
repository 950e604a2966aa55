//! What a run was like, as text and JSON, and targets beside each other.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::check::Checked;
use crate::held::Requirement;
use crate::histogram::{Latency, Second, seconds};
use crate::rounds::Run;
use crate::scenario::{Measured, Usage};
use crate::target::Target;

/// How much is asked of a target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// As much as it takes.
    Closed,
    /// So many messages a second.
    Rate(f64),
    /// A part of what it took, and what that is a second.
    Part { part: f64, rate: f64 },
    /// The rate of another target's part.
    Matched { rate: f64 },
}

impl Load {
    /// Messages a second; none in a closed loop.
    pub(crate) fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Rate(rate) | Self::Part { rate, .. } | Self::Matched { rate } => Some(rate),
        }
    }

    /// What loads have in common that may be compared.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Closed => "closed loop".to_owned(),
            Self::Rate(rate) => format!("{rate}/s"),
            Self::Part { part, .. } => format!("at {part} of its closed loop"),
            Self::Matched { .. } => "at the first target's rate".to_owned(),
        }
    }
}

/// One run of one target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) target: String,
    pub(crate) scenario: String,
    pub(crate) load: Load,
    pub(crate) round: u32,
    /// Answers within the time.
    pub(crate) answers: u64,
    pub(crate) per_second: f64,
    /// Milliseconds.
    pub(crate) latency: Option<Latency>,
    pub(crate) processes: Vec<Process>,
    pub(crate) figures: Vec<Figure>,
    /// What the stream has; none if the target stores nothing.
    pub(crate) stored: Option<Checked>,
    pub(crate) seconds: Vec<Second>,
}

/// What a process used.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    /// CPU time for each answer.
    pub(crate) cpu_us_per_answer: f64,
    /// Cores at work.
    pub(crate) cores: f64,
    pub(crate) resident_mib: f64,
    pub(crate) cores_by_second: Vec<f64>,
}

/// Something that one scenario measures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

impl Report {
    pub(crate) fn new(
        target: &Target,
        run: Run,
        load: Load,
        measured: Measured,
        stored: Option<Checked>,
    ) -> Self {
        let answers = measured.samples.len() as u64;
        let elapsed = measured.elapsed.as_secs_f64();
        let process = |usage: &Usage| Process {
            name: usage.name.clone(),
            cpu_us_per_answer: usage.cpu.as_secs_f64() * 1e6 / answers.max(1) as f64,
            cores: usage.cpu.as_secs_f64() / elapsed,
            resident_mib: usage.resident_bytes / (1024.0 * 1024.0),
            cores_by_second: usage.seconds.iter().map(|cpu| cpu.as_secs_f64()).collect(),
        };
        let figures = measured.figures.into_iter();
        Self {
            target: target.name.clone(),
            scenario: run.scenario.name().to_owned(),
            load,
            round: run.round,
            answers,
            per_second: answers as f64 / elapsed,
            latency: Latency::of(measured.samples.iter()),
            processes: measured.usage.iter().map(process).collect(),
            figures: figures
                .map(|(what, value, unit)| Figure { what, value, unit })
                .collect(),
            stored,
            seconds: seconds(&measured.samples),
        }
    }

    pub(crate) fn print(&self) {
        println!("{}", self.title());
        if let Some(latency) = self.latency {
            let Latency {
                p50,
                p90,
                p99,
                p999,
                max,
            } = latency;
            println!("  {} answers, {:.0}/s", self.answers, self.per_second);
            println!(
                "  ms: p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}, p99.9 {p999:.2}, max {max:.2}"
            );
        }
        for process in &self.processes {
            println!(
                "  {}: {:.2} µs CPU an answer, {:.2} cores, {:.1} MiB",
                process.name, process.cpu_us_per_answer, process.cores, process.resident_mib
            );
        }
        for figure in &self.figures {
            println!("  {}: {:.1} {}", figure.what, figure.value, figure.unit);
        }
        match self.stored {
            None => {}
            Some(stored) if !stored.is_clean() => println!("  FAULTS in the stream: {stored:?}"),
            Some(Checked {
                acknowledged: 0,
                sent,
                found,
                ..
            }) => {
                println!("  the stream has {found} of {sent} messages that nobody answers for");
            }
            Some(stored) => println!(
                "  the stream has each of {} acknowledged messages, once and in order",
                stored.acknowledged
            ),
        }
    }

    /// Which run it is.
    pub(crate) fn title(&self) -> String {
        let (target, scenario, load) = (&self.target, &self.scenario, self.load.name());
        format!("{target}, {scenario}, {load}, round {}", self.round)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.latency.map_or(0.0, |latency| latency.p99)
    }

    /// CPU time of a process for each answer, in µs.
    pub(crate) fn cpu_of(&self, name: &str) -> f64 {
        let process = self.processes.iter().find(|process| process.name == name);
        process.map_or(0.0, |process| process.cpu_us_per_answer)
    }

    /// CPU time of all watched processes for each answer, without this client's.
    pub(crate) fn server_cpu(&self) -> f64 {
        let servers = self.processes.iter().rev().skip(1);
        servers.map(|process| process.cpu_us_per_answer).sum()
    }

    /// CPU time of this client for each answer.
    fn client_cpu(&self) -> f64 {
        let client = self.processes.last();
        client.map_or(0.0, |process| process.cpu_us_per_answer)
    }
}

/// Runs of one or more targets.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Comparison {
    pub(crate) reports: Vec<Report>,
    /// What is asked of the medians; only `held` asks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) requirements: Vec<Requirement>,
}

impl Comparison {
    pub(crate) fn add(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Names of loads in the order of their first run.
    fn loads(&self) -> Vec<String> {
        in_order(self.reports.iter().map(|report| report.load.name()))
    }

    /// The median over the rounds of a target under a load; 0 if there is none.
    pub(crate) fn median(&self, load: &str, target: &str, of: impl Fn(&Report) -> f64) -> f64 {
        let own = self.reports.iter();
        let own = own.filter(|report| report.target == target && report.load.name() == load);
        let mut all: Vec<f64> = own.map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Each target beside the first one, a table for each load.
    pub(crate) fn print(&self) {
        for load in self.loads() {
            let own = self.reports.iter();
            let own = own.filter(|report| report.load.name() == load);
            let targets = in_order(own.map(|report| report.target.clone()));
            if targets.len() > 1 || self.loads().len() > 1 {
                self.table(&load, &targets);
            }
        }
    }

    /// Ratios are to the first target.
    fn table(&self, load: &str, targets: &[String]) {
        let Some(first) = targets.first() else {
            return;
        };
        let width = targets.iter().map(String::len).max().unwrap_or(0).max(7);
        println!("\n{load}: medians, and parts of {first}'s");
        println!(
            "{:<width$} {:>9} {:>9} {:>9} {:>10} {:>10} {:>15}   {:>5} {:>5} {:>5}",
            "",
            "/s",
            "p50 ms",
            "p99 ms",
            "servers µs",
            "client µs",
            "/server second",
            "rate",
            "CPU",
            "p99"
        );
        let per_second = |report: &Report| report.per_second;
        let p50 = |report: &Report| report.latency.map_or(0.0, |latency| latency.p50);
        for target in targets {
            let own = |of: &dyn Fn(&Report) -> f64| self.median(load, target, of);
            let part = |of: &dyn Fn(&Report) -> f64| own(of) / self.median(load, first, of);
            let servers = own(&Report::server_cpu);
            println!(
                "{target:<width$} {:>9.0} {:>9.2} {:>9.2} {servers:>10.2} {:>10.2} {:>15.0}   {:>5.2} {:>5.2} {:>5.2}",
                own(&per_second),
                own(&p50),
                own(&Report::p99),
                own(&Report::client_cpu),
                1e6 / servers,
                part(&per_second),
                part(&Report::server_cpu),
                part(&Report::p99),
            );
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// An error if a stream has not what was acknowledged.
    pub(crate) fn verdict(&self) -> Result<()> {
        let stored = self.reports.iter().filter_map(|report| report.stored);
        match stored.filter(|stored| !stored.is_clean()).count() {
            0 => Ok(()),
            count => bail!("in {count} runs the stream has not exactly what was acknowledged"),
        }
    }
}

/// Each once.
fn in_order(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
