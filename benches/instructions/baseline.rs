//! The counts as a file: one line for each case, so that a change of them is read in a diff.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde::Deserialize;

use crate::{MEASURED, callgrind, cases};

/// What all operations of a case took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Count {
    pub(crate) instructions: u64,
    pub(crate) allocations: u64,
}

/// The counts of all cases, and what built the program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The compiler's version: another one may count otherwise.
    pub(crate) rustc: String,
    pub(crate) cases: BTreeMap<String, Count>,
}

impl Baseline {
    /// Where it is kept. Each architecture has instructions of its own.
    pub(crate) fn file() -> String {
        let folder = env!("CARGO_MANIFEST_DIR");
        format!("{folder}/baseline.{}.toml", std::env::consts::ARCH)
    }

    /// Counts now.
    pub(crate) fn count() -> Result<Self, String> {
        let counts = callgrind::run(cases::CASES.len(), MEASURED)?;
        let names = cases::CASES.iter().map(|(name, _)| (*name).to_owned());
        Ok(Self {
            rustc: rustc()?,
            cases: names.zip(counts).collect(),
        })
    }

    pub(crate) fn load() -> Result<Self, String> {
        let file = Self::file();
        let fault = |error: &dyn std::fmt::Display| {
            format!(
                "{file}: {error}; `cargo run --release --locked -p jetway-instructions -- --update` writes it"
            )
        };
        let text = fs::read_to_string(&file).map_err(|error| fault(&error))?;
        toml::from_str(&text).map_err(|error| fault(&error))
    }

    pub(crate) fn save(&self) -> Result<(), String> {
        let file = Self::file();
        fs::write(&file, self.to_toml()).map_err(|error| format!("{file}: {error}"))
    }

    fn to_toml(&self) -> String {
        let mut text = format!(
            "# Written by `cargo run --release --locked -p jetway-instructions -- --update`; {} operations each.\nrustc = \"{}\"\n\n[cases]\n",
            cases::OPERATIONS,
            self.rustc
        );
        for (name, count) in &self.cases {
            let Count {
                instructions,
                allocations,
            } = count;
            let line = format!("instructions = {instructions}, allocations = {allocations}");
            writeln!(text, "\"{name}\" = {{ {line} }}").expect("a String takes every write");
        }
        text
    }
}

/// What cargo compiled this with.
fn rustc() -> Result<String, String> {
    let fault = "`rustc --version`: expected `rustc VERSION`";
    let output = Command::new("rustc").arg("--version").output();
    let output = output.map_err(|error| format!("{fault}: {error}"))?;
    let words = String::from_utf8_lossy(&output.stdout);
    let version = words.split(' ').nth(1);
    version.map(str::to_owned).ok_or_else(|| fault.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let count = Count {
            instructions: 12,
            allocations: 3,
        };
        let baseline = Baseline {
            rustc: "1.95.0".to_owned(),
            cases: [("codec: decode, PUBLISH".to_owned(), count)].into(),
        };
        assert_eq!(toml::from_str(&baseline.to_toml()), Ok(baseline));
    }
}
