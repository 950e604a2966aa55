//! What is counted of logins; every label has a fixed set of values (G38).

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::auth::denied::Error;

/// What the logins came to. Prefix `auth`.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Logins that were accepted.
    pub accepted: Counter,
    /// Logins that were denied, by reason.
    pub denied: Family<[(&'static str, &'static str); 1], Counter>,
    /// Logins without an answer from the database.
    pub unavailable: Counter,
    /// Look-ups answered by the cache or by another login's look-up.
    pub cache_hits: Counter,
    /// Look-ups in the database.
    pub cache_misses: Counter,
    /// Registrations of devices, by outcome.
    pub registrations: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Metrics {
    /// Registers them all.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("auth");
        registry.register("accepted", "Logins accepted", self.accepted.clone());
        registry.register("denied", "Logins denied, by reason", self.denied.clone());
        registry.register(
            "unavailable",
            "Logins without an answer from the database",
            self.unavailable.clone(),
        );
        registry.register(
            "cache_hits",
            "Device look-ups answered by the cache",
            self.cache_hits.clone(),
        );
        registry.register(
            "cache_misses",
            "Device look-ups in the database",
            self.cache_misses.clone(),
        );
        registry.register(
            "registrations",
            "Registrations of devices, by outcome",
            self.registrations.clone(),
        );
    }

    pub(super) fn count(&self, outcome: Result<(), &Error>) {
        let reason = match outcome {
            Ok(()) => {
                self.accepted.inc();
                return;
            }
            Err(Error::Unavailable(_)) => {
                self.unavailable.inc();
                return;
            }
            Err(Error::Denied(denied)) => denied.reason(),
            Err(Error::Method) => "method",
        };
        self.denied.get_or_create(&[("reason", reason)]).inc();
    }
}
