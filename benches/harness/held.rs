//! What Jetway is held to, in one run: fan-in of Jetway, of nats-server's own MQTT, and of JetStream publishers without MQTT, all
//! on the same cores with their load generators beside them.
//!
//! First each as fast as it goes, then at half of that, where times of answers mean something: in a closed loop they are the
//! window divided by the rate. JetStream itself also at the rate of Jetway's half.

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::arguments::{Arguments, Name, Scenario};
use crate::report::{Comparison, Load, Report};
use crate::rounds::Run;

/// Jetway first: others are compared with it.
const TARGETS: [Name; 6] = [
    Name::Jetway,
    Name::JetwayStored,
    Name::NatsMqtt,
    Name::Raw,
    Name::RawIds,
    Name::RawBatch,
];
const ROUNDS: u32 = 3;
const PART: f64 = 0.5;

/// A ratio or a cost, and what it may be.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Requirement {
    pub(crate) what: String,
    pub(crate) found: f64,
    pub(crate) limit: Limit,
    pub(crate) is_met: bool,
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// Measures all of them, prints tables, ratios and what is asked of them.
pub(crate) async fn run(arguments: &Arguments) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    let part = arguments.at_fraction.unwrap_or(PART);
    let targets = match arguments.targets.as_slice() {
        [] => &TARGETS,
        targets => targets,
    };
    let first = targets.first().context("a target")?;
    for round in 1..=arguments.rounds.unwrap_or(ROUNDS) {
        let mut matched = 0.0;
        for name in targets {
            let run = Run {
                scenario: Scenario::FanIn,
                name: *name,
                replicas: 1,
                round,
            };
            let closed = run.with(Load::Closed, arguments).await?;
            let rate = part * closed.per_second;
            comparison.add(closed);
            let load = Load::Part { part, rate };
            comparison.add(run.with(load, arguments).await?);
            match name {
                _ if name == first => matched = rate,
                Name::Raw | Name::RawIds => {
                    let load = Load::Matched { rate: matched };
                    comparison.add(run.with(load, arguments).await?);
                }
                _ => {}
            }
        }
    }
    comparison.requirements = requirements(&comparison, Load::Part { part, rate: 0.0 });
    comparison.print();
    println!("\nheld to");
    for requirement in &comparison.requirements {
        println!("{}", requirement.line());
    }
    Ok(comparison)
}

/// Of what was measured.
fn requirements(comparison: &Comparison, half: Load) -> Vec<Requirement> {
    let (closed, half) = (Load::Closed.name(), half.name());
    let rate = |report: &Report| report.per_second;
    let ratio = |load: &str, own: &str, other: &str, of: &dyn Fn(&Report) -> f64| {
        comparison.median(load, own, of) / comparison.median(load, other, of)
    };
    let mut all = Vec::new();
    for own in [Name::Jetway, Name::JetwayStored].map(Name::text) {
        let gateway = comparison.median(&closed, &own, |report| report.cpu_of("gateway"));
        all.push((
            format!("{own}: gateway CPU, µs a message"),
            gateway,
            Limit::AtMost(3.0),
        ));
        let [raw, ids, peer] = [Name::Raw, Name::RawIds, Name::NatsMqtt].map(Name::text);
        for raw in [raw, ids] {
            let found = ratio(&closed, &own, &raw, &rate);
            all.push((
                format!("{own}: rate to {raw}'s"),
                found,
                Limit::AtLeast(0.8),
            ));
            let found = ratio(&half, &own, &raw, &Report::p99);
            let what = format!("{own}: PUBACK p99 to {raw}'s, each {half}");
            all.push((what, found, Limit::AtMost(2.0)));
        }
        let found = ratio(&closed, &own, &peer, &rate);
        all.push((
            format!("{own}: rate to {peer}'s"),
            found,
            Limit::AtLeast(2.0),
        ));
        let found = ratio(&closed, &own, &peer, &Report::server_cpu);
        all.push((
            format!("{own}: servers' CPU a message to {peer}'s"),
            found,
            Limit::AtMost(0.5),
        ));
    }
    // A target that was not measured gives no ratio.
    let measured = all
        .into_iter()
        .filter(|(_, found, _)| found.is_finite() && *found > 0.0);
    measured
        .map(|(what, found, limit)| Requirement::new(what, found, limit))
        .collect()
}

impl Requirement {
    fn new(what: String, found: f64, limit: Limit) -> Self {
        let is_met = match limit {
            Limit::AtLeast(least) => found >= least,
            Limit::AtMost(most) => found <= most,
        };
        Self {
            what,
            found,
            limit,
            is_met,
        }
    }

    pub(crate) fn line(&self) -> String {
        let met = if self.is_met { "yes" } else { "NO " };
        let limit = match self.limit {
            Limit::AtLeast(least) => format!("at least {least}"),
            Limit::AtMost(most) => format!("at most {most}"),
        };
        format!("  {met} {:>7.2}  {limit:<12} {}", self.found, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_met_on_its_own_side() {
        let met = |found, limit| Requirement::new(String::new(), found, limit).is_met;
        assert!(met(0.8, Limit::AtLeast(0.8)) && !met(0.79, Limit::AtLeast(0.8)));
        assert!(met(3.0, Limit::AtMost(3.0)) && !met(3.01, Limit::AtMost(3.0)));
    }
}
