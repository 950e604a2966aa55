//! Targets in turn, A B A B, so that what else the machine does meets all of them; each begins with servers and a stream of its own.

use anyhow::{Context, Result};

use crate::arguments::{Arguments, Name, Scenario};
use crate::check;
use crate::report::{Comparison, Load, Report};
use crate::scenario;
use crate::target::Target;

/// All rounds of all targets.
pub(crate) async fn run(scenario: Scenario, arguments: &Arguments) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    let load = arguments.rate.map_or(Load::Closed, Load::Rate);
    for round in 1..=arguments.rounds.unwrap_or(1) {
        for name in arguments.targets() {
            for replicas in &arguments.replicas {
                let run = Run {
                    scenario,
                    name,
                    replicas: *replicas,
                    round,
                };
                let report = run.with(load, arguments).await?;
                let reached = report.per_second;
                comparison.add(report);
                if let Some(part) = arguments.at_fraction {
                    let rate = part * reached;
                    let load = Load::Part { part, rate };
                    comparison.add(run.with(load, arguments).await?);
                }
            }
        }
    }
    Ok(comparison)
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) scenario: Scenario,
    pub(crate) name: Name,
    pub(crate) replicas: usize,
    pub(crate) round: u32,
}

impl Run {
    /// Starts the servers, measures, and compares the stream with what was acknowledged.
    pub(crate) async fn with(self, load: Load, arguments: &Arguments) -> Result<Report> {
        let arguments = &Arguments {
            rate: load.rate(),
            ..arguments.clone()
        };
        let target = Target::start(self.name, self.replicas, arguments).await?;
        let what = || target.name.clone();
        let measured = scenario::run(self.scenario, &target, arguments).await;
        let measured = measured.with_context(what)?;
        let stored = match measured.published.is_empty() {
            true => None,
            false => check::stored(&target, &measured.published).await?,
        };
        let report = Report::new(&target, self, load, measured, stored);
        report.print();
        Ok(report)
    }
}
