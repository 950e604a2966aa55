//! What there is to know about a report beside its numbers, as bits of one number that a row can hold.
//!
//! The bits are stored: one that is given out keeps its meaning for ever.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use serde::{Serialize, Serializer};

/// A set of flags. Serialises as the array of their names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

/// Each flag's name in JSON, by its bit.
const NAMES: [(Flags, &str); 6] = [
    (Flags::NO_FIX, "no_fix"),
    (Flags::NO_TIME, "no_time"),
    (Flags::TIME_IN_FUTURE, "time_in_future"),
    (Flags::TIME_TOO_OLD, "time_too_old"),
    (Flags::CONVERTED, "converted"),
    (Flags::RANGE_OF_OPTIONAL, "range_of_optional"),
];

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The device has no fix, or says a place at or very near 0,0 (G35). Where it gave no coordinates they are 0,0.
    pub const NO_FIX: Self = Self(1);
    /// No time, or one that cannot be read (G36).
    pub const NO_TIME: Self = Self(1 << 1);
    /// The device's time is further ahead of the time of receipt than `future_max_ms`.
    pub const TIME_IN_FUTURE: Self = Self(1 << 2);
    /// The device's time is further behind the time of receipt than `past_max_ms`.
    pub const TIME_TOO_OLD: Self = Self(1 << 3);
    /// The coordinates were converted to the configured system.
    pub const CONVERTED: Self = Self(1 << 4);
    /// An optional field was no number or out of range, and was left out.
    pub const RANGE_OF_OPTIONAL: Self = Self(1 << 5);

    /// The number that a row holds; below 2^15.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set of a stored number; bits that no flag has are left out.
    #[must_use]
    pub fn from_bits(bits: u16) -> Self {
        let known = NAMES.iter().filter(|(flag, _)| bits & flag.0 != 0);
        known.fold(Self::NONE, |set, (flag, _)| set | *flag)
    }

    /// Whether all flags of `other` are in it.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the flags, in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = NAMES.iter().filter(move |(flag, _)| self.contains(*flag));
        set.map(|(_, name)| *name)
    }

    /// Whether the time is there and within the window (G36).
    #[must_use]
    pub const fn has_time(self) -> bool {
        let time = Self::NO_TIME.0 | Self::TIME_IN_FUTURE.0 | Self::TIME_TOO_OLD.0;
        self.0 & time == 0
    }

    /// Whether a report with these flags may move a latest position: it has a fix and a plausible time (G35, G36).
    #[must_use]
    pub const fn moves_latest(self) -> bool {
        self.has_time() && !self.contains(Self::NO_FIX)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for Flags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_bits_and_what_moves_the_latest_position() {
        let all = Flags::from_bits(u16::MAX);
        assert_eq!(all.bits(), 0b11_1111);
        assert_eq!(all.names().count(), NAMES.len());
        for (flag, name) in NAMES {
            assert_eq!(flag.names().collect::<Vec<_>>(), [name]);
            assert_eq!(Flags::from_bits(flag.bits()), flag);
        }
        let harmless = Flags::CONVERTED | Flags::RANGE_OF_OPTIONAL;
        assert!(Flags::NONE.moves_latest() && harmless.moves_latest());
        for bad in [
            Flags::NO_FIX,
            Flags::NO_TIME,
            Flags::TIME_IN_FUTURE,
            Flags::TIME_TOO_OLD,
        ] {
            assert!(!(bad | harmless).moves_latest());
        }
        let json = serde_json::to_string(&(Flags::NO_FIX | Flags::TIME_TOO_OLD)).unwrap();
        assert_eq!(json, r#"["no_fix","time_too_old"]"#);
    }
}
