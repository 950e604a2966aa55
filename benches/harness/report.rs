//! What a run was like, as text and JSON, and targets beside each other.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::arguments::Arguments;
use crate::check::Checked;
use crate::histogram::{Latency, Second, seconds};
use crate::scenario::{Measured, Usage};
use crate::target::Target;

/// One run of one target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) target: String,
    pub(crate) scenario: String,
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
        arguments: &Arguments,
        round: u32,
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
            scenario: format!("{:?}", arguments.scenario).to_lowercase(),
            round,
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
        println!("{}, {}, round {}", self.target, self.scenario, self.round);
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
            Some(stored) if stored.is_clean() => println!(
                "  the stream has each of {} acknowledged messages, once and in order",
                stored.acknowledged
            ),
            Some(stored) => println!("  FAULTS in the stream: {stored:?}"),
        }
    }

    /// CPU time of all watched processes for each answer, without this client's.
    fn server_cpu(&self) -> f64 {
        let servers = self.processes.iter().rev().skip(1);
        servers.map(|process| process.cpu_us_per_answer).sum()
    }
}

/// Runs of one or more targets.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Comparison {
    pub(crate) reports: Vec<Report>,
}

impl Comparison {
    pub(crate) fn add(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// Names in the order of their first run.
    pub(crate) fn targets(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for report in &self.reports {
            if !names.contains(&&*report.target) {
                names.push(&report.target);
            }
        }
        names
    }

    /// The median over a target's rounds.
    pub(crate) fn median(&self, target: &str, of: impl Fn(&Report) -> f64) -> f64 {
        let own = self.reports.iter().filter(|report| report.target == target);
        let mut all: Vec<f64> = own.map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Each target beside the first one.
    pub(crate) fn print(&self) {
        let targets = self.targets();
        let Some(first) = targets.first().filter(|_| targets.len() > 1) else {
            return;
        };
        let p99 = |report: &Report| report.latency.map_or(0.0, |latency| latency.p99);
        println!(
            "\nmedians                 /s      p99 ms   server µs   rate and CPU as a part of {first}'s"
        );
        let (rate, cpu) = (
            self.median(first, |report| report.per_second),
            self.median(first, Report::server_cpu),
        );
        for target in &targets {
            let own_rate = self.median(target, |report| report.per_second);
            let own_cpu = self.median(target, Report::server_cpu);
            println!(
                "{target:<16} {own_rate:>10.0} {:>11.2} {own_cpu:>11.2}   {:.2}, {:.2}",
                self.median(target, p99),
                own_rate / rate,
                own_cpu / cpu
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
