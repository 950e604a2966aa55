//! What devices must not do, as it is configured.

use serde::Deserialize;

/// `[[jobs.speed]]`: how fast devices may be.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedRule {
    /// What events call it: 1 to 128 bytes, of one rule only.
    pub name: String,
    /// The products whose devices it is for; none: all.
    #[serde(default)]
    pub products: Vec<String>,
    /// A device that says that it is faster breaks the rule, in metres a second.
    pub limit_mps: f64,
    /// It keeps to the rule again when it is at most so fast, in metres a second; the limit, if it is not given.
    #[serde(default)]
    pub over_mps: Option<f64>,
}

/// All of them.
pub type SpeedRules = Vec<SpeedRule>;

impl SpeedRule {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let name = &self.name;
        if !(1..=128).contains(&name.len()) {
            faults.push("speed: name: expected 1 to 128 bytes".to_owned());
        }
        if !(0.0..=1_000.0).contains(&self.limit_mps) {
            faults.push(format!(
                "speed {name:?}: limit_mps: expected 0 to 1000, found {}",
                self.limit_mps
            ));
        }
        if !(0.0..=self.limit_mps).contains(&self.over_mps()) {
            faults.push(format!(
                "speed {name:?}: over_mps: expected 0 to limit_mps, found {}",
                self.over_mps()
            ));
        }
        faults
    }

    pub(super) fn over_mps(&self) -> f64 {
        self.over_mps.unwrap_or(self.limit_mps)
    }

    pub(super) fn is_for(&self, product: &str) -> bool {
        self.products.is_empty() || self.products.iter().any(|own| own == product)
    }
}
