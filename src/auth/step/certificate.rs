//! Step `certificate`: the TLS handshake proved that the peer has the key of a certificate, and the catalogue knows the certificate as
//! a device's, or it names one.
//!
//! Which certificates there can be is the listener's matter: its CAs, and what they revoked. One that names no device is passed on,
//! so that its holder may prove itself in another way as well; one that names another device than the client id is denied.
//!
//! Invariant: a name counts only as a whole; there are no patterns and no parts of it (G22).

use std::time::Instant;

use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::denied::{Denied, Refusal, Unavailable};
use crate::auth::gate::{Gate, Limits};
use crate::auth::step::{claimed, names};
use crate::catalogue::Catalogue;
use crate::device::{Certificate, DeviceId};

/// What stands before the names in a URI.
const SCHEME: &str = "device:";

/// Which name of a certificate is its device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    /// The subject's common name, `P&N` or `P/N`.
    CommonName,
    /// A DNS name `P&N` or `P/N`, or a URI `device:P/N`, of the subject's alternative names.
    AlternativeName,
}

/// Which certificates are of which device (`[auth.certificate]`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether a certificate's fingerprint is looked up in the catalogue, before it is read for names.
    pub fingerprint: bool,
    /// Where a device's name is looked for, in this order.
    pub names: Vec<Name>,
    /// Time, cache and breaker of the look-ups.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fingerprint: true,
            names: vec![Name::CommonName, Name::AlternativeName],
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = self.limits.validate();
        if self.names.is_empty() && !self.fingerprint {
            faults.push(
                "names: expected \"common_name\" or \"alternative_name\", or fingerprint = true"
                    .to_owned(),
            );
        }
        faults
    }

    /// Whether the attempt's certificate names the device of its client id.
    fn ask(&self, attempt: &Attempt<'_>) -> Verdict {
        let found = attempt
            .certificate
            .and_then(|certificate| self.device(certificate));
        let Some(device) = found else {
            return Verdict::Pass(None);
        };
        verdict(device, attempt.client_id)
    }

    fn device(&self, certificate: &Certificate) -> Option<DeviceId> {
        self.names.iter().find_map(|name| match name {
            Name::CommonName => certificate.common_name.as_deref().and_then(names),
            Name::AlternativeName => {
                let mut all = certificate.alternative_names.iter();
                all.find_map(|name| names(name.strip_prefix(SCHEME).unwrap_or(name)))
            }
        })
    }
}

fn verdict(device: DeviceId, client_id: &str) -> Verdict {
    match claimed(client_id) {
        Ok(claimed) if claimed == device => Verdict::Accept(Decision::of(device)),
        Err(denied @ Denied::Registration) => Verdict::Deny(denied),
        Ok(_) | Err(_) => {
            Verdict::Deny(Denied::Refused(Refusal::OtherDevice("certificate", device)))
        }
    }
}

/// The step.
pub(in crate::auth) struct Holders {
    config: Config,
    catalogue: Catalogue,
    gate: Gate,
}

impl Holders {
    pub(in crate::auth) fn new(config: &Config, catalogue: Catalogue) -> Self {
        Self {
            gate: Gate::new(&config.limits),
            config: config.clone(),
            catalogue,
        }
    }

    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        if let Some(certificate) = attempt.certificate.filter(|_| self.config.fingerprint) {
            let source = |room| async {
                let _room = room;
                let found = self.catalogue.by_fingerprint(&certificate.fingerprint);
                Ok(match found.await? {
                    Some(device) => verdict(device, attempt.client_id),
                    None => Verdict::Pass(None),
                })
            };
            match self.gate.ask(now, attempt, source).await? {
                Verdict::Pass(_) => {}
                verdict => return Ok(verdict),
            }
        }
        Ok(self.config.ask(attempt))
    }

    /// What the catalogue said of certificates is not remembered any more.
    pub(super) fn forget(&self) {
        self.gate.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(common_name: &str, alternative_names: &[&str]) -> Certificate {
        Certificate {
            common_name: (!common_name.is_empty()).then(|| common_name.into()),
            alternative_names: alternative_names
                .iter()
                .map(|name| (*name).into())
                .collect(),
            fingerprint: [0; 32],
        }
    }

    fn ask(config: &Config, client_id: &str, certificate: Option<&Certificate>) -> Verdict {
        config.ask(&Attempt {
            certificate,
            ..Attempt::of(client_id)
        })
    }

    #[test]
    fn the_first_name_of_a_device_counts() {
        let both = certificate("P&n", &["example.com", "device:Q/m"]);
        let other = Config {
            names: vec![Name::AlternativeName, Name::CommonName],
            ..Config::default()
        };
        for (config, client_id, device) in [
            (&Config::default(), "P&n", ("P", "n")),
            (&other, "Q&m", ("Q", "m")),
        ] {
            let device = DeviceId::new(device.0, device.1).unwrap();
            let accepted = Verdict::Accept(Decision::of(device));
            assert_eq!(ask(config, client_id, Some(&both)), accepted);
        }
    }

    #[test]
    fn forms_of_names() {
        let id = |product, name| DeviceId::new(product, name).ok();
        for (text, expected) in [
            ("P&n", id("P", "n")),
            ("P/n", id("P", "n")),
            ("P&n&x", None),
            ("P/n/x", None),
            ("P&n/x", None),
            ("*", None),
            ("24ABCDEFGHIsensor7", None),
            ("P&", None),
            ("&n", None),
            ("P&+", None),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn who_names_nobody_is_passed_on_and_another_one_is_denied() {
        let config = Config::default();
        assert_eq!(ask(&config, "P&n", None), Verdict::Pass(None));
        let nobody = certificate("router", &["example.com"]);
        assert_eq!(ask(&config, "P&n", Some(&nobody)), Verdict::Pass(None));
        let somebody = certificate("P&n", &[]);
        for client_id in ["P&m", "Q&n", "p&n", "n", ""] {
            let verdict = ask(&config, client_id, Some(&somebody));
            assert!(
                matches!(
                    verdict,
                    Verdict::Deny(Denied::Refused(Refusal::OtherDevice(..)))
                ),
                "{client_id}"
            );
        }
        assert_eq!(
            ask(&config, "register&P&n", Some(&somebody)),
            Verdict::Deny(Denied::Registration)
        );
    }
}
