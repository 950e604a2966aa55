//! Signed requests that are good once, and only about when they were signed: registrations, and the signatures that sub-devices are
//! bound with.
//!
//! What came before is remembered in the catalogue, and so by all nodes. Whether a signature is right is known before.
//!
//! Invariant: a request is forgotten only once it is too old to be taken.

use serde::Deserialize;

use crate::catalogue::{Catalogue, Error, Nonce};
use crate::device::DeviceId;
use crate::telemetry;

/// What the signatures that sub-devices are bound with are held to (`[auth.binding]`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Binding {
    /// By how much the time of a signature may differ, and for how long it is used up, in seconds. 0: neither is looked at, as on the
    /// platform, and a gateway device binds again with what was signed once. Otherwise a request that is repeated is signed anew.
    pub replay_window_s: u32,
}

/// A request whose signature is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed<'s> {
    /// Who signed it.
    pub device: &'s DeviceId,
    /// What tells it from others of the device.
    pub nonce: i64,
    /// When, in Unix seconds.
    pub timestamp_s: i64,
}

/// How long requests are good; cheap to clone.
#[derive(Clone)]
pub struct ReplayWindow {
    catalogue: Catalogue,
    window_ms: i64,
}

impl ReplayWindow {
    /// A window of so many seconds, before and behind; 0: of any time, and as often as it comes.
    #[must_use]
    pub fn new(catalogue: Catalogue, window_s: u32) -> Self {
        Self {
            catalogue,
            window_ms: i64::from(window_s) * 1_000,
        }
    }

    /// Whether it is time for all of at most 1,000 requests, and none of them came before; they are used up then.
    ///
    /// # Errors
    /// [`Error::Database`] when there is no answer.
    pub async fn admits(&self, signed: &[Signed<'_>]) -> Result<bool, Error> {
        if self.window_ms == 0 {
            return Ok(true);
        }
        let now_ms = i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX);
        let nonces = signed.iter().map(|one| one.within(self.window_ms, now_ms));
        match nonces.collect::<Option<Vec<_>>>() {
            Some(nonces) => self.catalogue.use_nonces(&nonces).await,
            None => Ok(false),
        }
    }
}

impl<'s> Signed<'s> {
    /// What is used up, if it is time for the request.
    fn within(&self, window_ms: i64, now_ms: i64) -> Option<Nonce<'s>> {
        let signed_ms = self.timestamp_s.saturating_mul(1_000);
        let is_time = now_ms.saturating_sub(signed_ms).saturating_abs() <= window_ms;
        is_time.then(|| Nonce {
            device: self.device,
            number: self.nonce,
            expires_at_ms: signed_ms.saturating_add(window_ms),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_good_about_when_it_was_signed_and_remembered_as_long() {
        let device = DeviceId::new("p", "d").unwrap();
        let within = |timestamp_s| {
            let signed = Signed {
                device: &device,
                nonce: 7,
                timestamp_s,
            };
            let nonce = signed.within(60_000, 1_000_000)?;
            assert_eq!((nonce.device, nonce.number), (&device, 7));
            Some(nonce.expires_at_ms)
        };
        for (timestamp_s, expected) in [
            (i64::MIN, None),
            (0, None),
            (939, None),
            (940, Some(1_000_000)),
            (1_000, Some(1_060_000)),
            (1_060, Some(1_120_000)),
            (1_061, None),
            (1_000_000, None),
            (i64::MAX, None),
        ] {
            assert_eq!(within(timestamp_s), expected, "{timestamp_s}");
        }
    }
}
