//! The version of a nats-server, and the oldest one that has what the uplink is built on.

use std::fmt;

/// Fast batch ingest came with this release.
pub const VERSION_MIN: Version = Version(2, 14, 0);

/// A server version: major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `2.15.0`, `v2.15.0-RC.1`, or the `nats-server: v2.15.0` that `nats-server --version` prints.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let word = text.split_whitespace().last()?;
        let release = word.trim_start_matches('v').split(['-', '+']).next()?;
        let mut numbers = release.split('.').map(|number| number.parse().ok());
        let version = Self(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        for (text, expected) in [
            ("nats-server: v2.15.0\n", Some(Version(2, 15, 0))),
            ("2.14.0", Some(Version(2, 14, 0))),
            ("v2.14.0-RC.1", Some(Version(2, 14, 0))),
            ("v2.10.29+dirty", Some(Version(2, 10, 29))),
            ("v2.14", None),
            ("v2.14.0.1", None),
            ("", None),
            ("nats-server: dev", None),
        ] {
            assert_eq!(Version::parse(text), expected, "{text:?}");
        }
        assert!(Version(2, 9, 25) < VERSION_MIN && VERSION_MIN < Version(3, 0, 0));
    }
}
