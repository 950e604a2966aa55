//! The keys that secrets are sealed with: in the configuration itself, in the environment, or in a file.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::sealing::{self, Keys};

/// Keys of the catalogue; without any, secrets are stored as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Keys as `ID:BASE64` of 32 bytes, with commas or spaces between them. The first one seals, all of them open.
    pub keys: KeyText,
    /// A file with the same, where a line that starts with `#` is a comment.
    pub keys_file: Option<PathBuf>,
}

/// A text with keys. Its `Debug` does not show them.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct KeyText(String);

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "hidden" })
    }
}

impl Config {
    /// Every fault, as `key: what was expected`; the file is not read.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if let Err(error) = Keys::parse(&self.keys.0) {
            faults.push(format!("keys: {error}"));
        }
        if !self.keys.0.is_empty() && self.keys_file.is_some() {
            faults.push("keys_file: expected none beside keys".to_owned());
        }
        faults
    }

    /// The keys.
    ///
    /// # Errors
    /// The file cannot be read, or what is written is no key.
    pub fn load(&self) -> Result<Keys, sealing::Error> {
        let Some(file) = &self.keys_file else {
            return Keys::parse(&self.keys.0);
        };
        let read = std::fs::read_to_string(file);
        let text = read.map_err(|source| sealing::Error::File(file.clone(), source))?;
        Keys::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown_and_their_faults_are() {
        let secret = "bm90LXRoaXJ0eS10d28tYnl0ZXM=";
        let config = Config {
            keys: KeyText(format!("a:{secret}")),
            keys_file: Some("/none".into()),
        };
        let faults = config.validate();
        assert!(faults[0].starts_with("keys: key \"a\": expected 32 bytes"));
        assert!(faults[1].starts_with("keys_file: expected none"));
        assert!(!format!("{config:?} {faults:?}").contains(secret));
        assert_eq!(Config::default().validate(), Vec::<String>::new());
        assert!(matches!(config.load(), Err(sealing::Error::File(..))));
    }
}
