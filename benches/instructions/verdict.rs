//! Counts against the baseline: what may not land, and what the baseline should be told.
//!
//! With another compiler the same limits hold: whoever updates it sees what it does, and updates the baseline with it.

use std::fmt::Write as _;

use crate::baseline::Baseline;

/// A case may take so much more, in percent; so much less asks for a new baseline.
const CHANGE_PERCENT_MAX: f64 = 5.0;
const UPDATE: &str = "cargo run --release --locked -p jetway-instructions -- --update";

/// What the comparison found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// A line for each case.
    pub(crate) table: String,
    pub(crate) notices: Vec<String>,
    pub(crate) faults: Vec<String>,
}

pub(crate) fn of(baseline: &Baseline, counted: &Baseline) -> Verdict {
    let mut verdict = Verdict::default();
    if baseline.rustc != counted.rustc {
        verdict.notices.push(format!(
            "counted with rustc {}, the baseline with {}: what follows may be the compiler's doing; the limits are the same",
            counted.rustc, baseline.rustc
        ));
    }
    for (name, now) in &counted.cases {
        let Some(before) = baseline.cases.get(name) else {
            let fault = format!("{name}: not in the baseline; {UPDATE}");
            verdict.faults.push(fault);
            continue;
        };
        let percent = percent(before.instructions, now.instructions);
        let counts = format!(
            "{} instructions, {} in the baseline: {percent:+.1} %",
            now.instructions, before.instructions
        );
        let allocations = format!("{} allocations", now.allocations);
        writeln!(verdict.table, "{name}: {counts}; {allocations}")
            .expect("a String takes every write");
        if percent > CHANGE_PERCENT_MAX {
            let fault = format!("{name}: {counts}, at most +{CHANGE_PERCENT_MAX} % may land");
            verdict.faults.push(fault);
        }
        if now.allocations > before.allocations {
            let before = before.allocations;
            let fault =
                format!("{name}: {allocations}, {before} in the baseline: none more may land");
            verdict.faults.push(fault);
        }
        if percent < -CHANGE_PERCENT_MAX || now.allocations < before.allocations {
            let notice = format!("{name}: {counts}, {allocations}: hold on to it: {UPDATE}");
            verdict.notices.push(notice);
        }
    }
    let gone = baseline.cases.keys();
    for name in gone.filter(|name| !counted.cases.contains_key(*name)) {
        let fault = format!("{name}: in the baseline and not counted; {UPDATE}");
        verdict.faults.push(fault);
    }
    verdict
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn percent(before: u64, now: u64) -> f64 {
    (now as f64 - before as f64) * 100.0 / before as f64
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
