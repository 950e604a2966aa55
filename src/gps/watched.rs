//! What positions are read by and watched for: rules, fences, trips, sampling; loaded once.

use std::path::Path;

use super::config::Config;
use crate::position::{Fences, Rules, SHIPPED, Sampling, TripConfig, Watching};

/// Rules and what is looked for, checked.
#[derive(Debug)]
pub struct Watched {
    /// Where positions are.
    pub rules: Rules,
    fences: Fences,
    trip: Option<TripConfig>,
    sampling: Option<Sampling>,
}

impl Watched {
    /// Reads the operator's rules, if there are any.
    ///
    /// # Errors
    /// Every fault of the rules and fences, a line each.
    pub fn load(config: &Config) -> Result<Self, Vec<String>> {
        let own = config.rules_file.as_deref().map(read).transpose();
        let own = own.map_err(|fault| vec![fault])?;
        let own = own.as_ref().map(|(name, text)| (&**name, &**text));
        let rules = Rules::load(SHIPPED, own, config.settings());
        let rules =
            rules.map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(Self {
            rules,
            fences: Fences::new(&config.fence)?,
            trip: config.trip,
            sampling: config.sampling(),
        })
    }

    /// What each report of a track is looked at for; none if nothing is.
    #[must_use]
    pub fn watching(&self) -> Option<Watching<'_>> {
        let watching = Watching {
            fences: (!self.fences.is_empty()).then_some(&self.fences),
            trip: self.trip,
            sampling: self.sampling,
        };
        let is_any =
            watching.fences.is_some() || watching.trip.is_some() || watching.sampling.is_some();
        is_any.then_some(watching)
    }
}

fn read(file: &Path) -> Result<(String, String), String> {
    let name = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
