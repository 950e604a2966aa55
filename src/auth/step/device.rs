//! Step `device`: a password made with the secret that the database holds.
//!
//! Credentials of another form are passed on, and so are those of a device that the database does not know: another step may.

use std::sync::Arc;
use std::time::Instant;

use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::credentials::{Error, Identity, Login};
use crate::auth::denied::{Denied, Unavailable};
use crate::auth::records::Records;
use crate::auth::step::strict::{Config, Strict};
use crate::device::{DeviceId, Scope};
use crate::telemetry;

/// The device that a client id says it is, not yet proved.
pub(in crate::auth) fn claimed(client_id: &str) -> Result<DeviceId, Denied> {
    match Identity::parse("client id", client_id).map_err(Denied::Credentials)? {
        Identity {
            scope: Scope::Register,
            ..
        } => Err(Denied::Registration),
        Identity { device, .. } => Ok(device),
    }
}

/// The step.
pub(in crate::auth) struct Device {
    records: Arc<Records>,
    strict: Option<Strict>,
}

impl Device {
    pub(in crate::auth) fn new(config: &Config, records: Arc<Records>) -> Self {
        let strict = config.check_expiry.then(|| Strict::new(config));
        Self { records, strict }
    }

    /// Whether the password was made with the device's secret.
    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        let device = match claimed(attempt.client_id) {
            Ok(device) => device,
            Err(denied) => return Ok(Verdict::Pass(Some(denied))),
        };
        let login = match Login::parse(&device, attempt.username, attempt.password) {
            Ok(login) => login,
            Err(error @ Error::Mismatch) => return Ok(Verdict::Deny(Denied::Credentials(error))),
            Err(error) => return Ok(Verdict::Pass(Some(Denied::Credentials(error)))),
        };
        let Some(record) = self.records.find(now, &device).await? else {
            return Ok(Verdict::Pass(Some(Denied::UnknownDevice)));
        };
        if let Err(error) = login.verify(&record.secret) {
            return Ok(Verdict::Deny(Denied::Credentials(error)));
        }
        // Only behind the proof: a stranger does not learn which devices are disabled, and uses no user name up.
        let decision = match Decision::of(device).with(&record) {
            Ok(decision) => decision,
            Err(denied) => return Ok(Verdict::Deny(denied)),
        };
        let held_to = self.strict.as_ref().map_or(Ok(Ok(())), |strict| {
            strict.check(&login, telemetry::now_unix_ms() / 1_000)
        });
        Ok(match held_to? {
            Ok(()) => Verdict::Accept(decision),
            Err(refusal) => Verdict::Deny(Denied::Refused(refusal)),
        })
    }
}
