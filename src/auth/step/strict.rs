//! What a login with a device's secret can be held to besides: an end, and that it is made once.
//!
//! The platform's devices are held to neither. User names are remembered by their hash, on this node and until it stops; a device
//! that is watched may still have one of its logins repeated at another node.
//!
//! Invariant: a user name is forgotten only once it has expired; with no room left nobody logs in, and nobody is denied for that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::auth::credentials::Login;
use crate::auth::denied::{Refusal, Unavailable};

/// What logins with a device's secret are held to (`[auth.device]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the expiry in the user name counts, in Unix seconds: from then on it proves nothing, and neither does what is none.
    pub check_expiry: bool,
    /// How far ahead the expiry may be, in seconds; 0: any time.
    pub expiry_max_s: u64,
    /// Whether a user name is good for one login: a device changes the third field each time. Needs the other two.
    pub once: bool,
    /// How many user names that did not expire yet are remembered. One takes about 60 bytes.
    pub once_entries_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            check_expiry: false,
            expiry_max_s: 0,
            once: false,
            once_entries_max: 1_000_000,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.expiry_max_s > 0 && !self.check_expiry {
            faults.push("expiry_max_s: expected check_expiry with it".to_owned());
        }
        // What never expires could never be forgotten.
        if self.once && self.expiry_max_s == 0 {
            faults.push("once: expected check_expiry and expiry_max_s with it".to_owned());
        }
        if self.once_entries_max == 0 {
            faults.push("once_entries_max: expected more than 0".to_owned());
        }
        faults
    }
}

/// Holds logins to it.
pub(super) struct Strict {
    expiry_max_s: u64,
    once_entries_max: Option<usize>,
    /// User names and when they expire.
    used: Mutex<HashMap<[u8; 32], u64>>,
}

impl Strict {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            expiry_max_s: config.expiry_max_s,
            once_entries_max: config.once.then_some(config.once_entries_max),
            used: Mutex::default(),
        }
    }

    /// Whether this login, which is proved, holds to it; its user name is used up then.
    ///
    /// # Errors
    /// [`Unavailable`] when no further user name can be remembered.
    pub(super) fn check(
        &self,
        login: &Login<'_>,
        now_s: u64,
    ) -> Result<Result<(), Refusal>, Unavailable> {
        let Some(expiry_s) = login.expiry_s().filter(|expiry_s| *expiry_s > now_s) else {
            return Ok(Err(Refusal::Expiry));
        };
        if self.expiry_max_s > 0 && expiry_s - now_s > self.expiry_max_s {
            return Ok(Err(Refusal::Expiry));
        }
        let Some(entries_max) = self.once_entries_max else {
            return Ok(Ok(()));
        };
        let name = Sha256::digest(login.username()).into();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(&name) {
            return Ok(Err(Refusal::Reused));
        }
        if used.len() >= entries_max {
            used.retain(|_, expiry_s| *expiry_s > now_s);
        }
        if used.len() >= entries_max {
            return Err(Unavailable::Source(
                "more user names are in use than once_entries_max".to_owned(),
            ));
        }
        used.insert(name, expiry_s);
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceId;

    const NOW: u64 = 1_000;

    fn strict(expiry_max_s: u64, once: bool, once_entries_max: usize) -> Strict {
        Strict::new(&Config {
            check_expiry: true,
            expiry_max_s,
            once,
            once_entries_max,
        })
    }

    fn check(
        strict: &Strict,
        now_s: u64,
        fields: &str,
    ) -> Result<Result<(), Refusal>, Unavailable> {
        let username = format!("p&d;{fields}");
        let device = DeviceId::new("p", "d").unwrap();
        let password = format!("{:064x};hmacsha256", 0);
        let login = Login::parse(&device, Some(&username), Some(password.as_bytes())).unwrap();
        strict.check(&login, now_s)
    }

    #[test]
    fn an_expiry_is_ahead_and_not_too_far() {
        for (expiry, any, within) in [
            ("0", false, false),
            ("1000", false, false),
            ("1001", true, true),
            ("1100", true, true),
            ("1101", true, false),
            ("18446744073709551615", true, false),
            ("18446744073709551616", false, false),
            ("-1", false, false),
            ("1001.5", false, false),
            ("", false, false),
            ("soon", false, false),
        ] {
            let fields = format!("a;b;{expiry}");
            let outcome = |max| check(&strict(max, false, 1), NOW, &fields).unwrap();
            assert_eq!(outcome(0).is_ok(), any, "{expiry}");
            assert_eq!(outcome(100).is_ok(), within, "{expiry}");
        }
    }

    #[test]
    fn a_user_name_is_used_once_and_forgotten_when_it_has_expired() {
        let strict = strict(100, true, 2);
        let check = |now_s, fields| check(&strict, now_s, fields);
        assert!(check(NOW, "a;1;1050").unwrap().is_ok());
        assert_eq!(check(NOW, "a;1;1050").unwrap(), Err(Refusal::Reused));
        assert!(check(NOW, "a;2;1060").unwrap().is_ok());
        // No room is nobody's fault.
        assert!(matches!(
            check(NOW, "a;3;1060"),
            Err(Unavailable::Source(_))
        ));
        assert!(check(1_050, "a;3;1060").unwrap().is_ok());
        assert_eq!(check(1_050, "a;1;1050").unwrap(), Err(Refusal::Expiry));
    }

    #[test]
    fn settings_that_would_remember_for_ever_are_faults() {
        let config = Config {
            once: true,
            ..Config::default()
        };
        assert_eq!(config.validate().len(), 1);
        let config = Config {
            check_expiry: true,
            expiry_max_s: 600,
            ..config
        };
        assert!(config.validate().is_empty());
    }
}
