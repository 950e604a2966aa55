//! Step `jwt`: a JSON Web Token (RFC 7519) in the password or user name, signed with a key of the issuer's key set.
//!
//! RS256, ES256 and EdDSA. What has the form of a token is one: it is accepted or denied, and never asked about elsewhere.
//!
//! Invariants: a token without an end is denied, and the connection ends with the token; the key, not the token, says which algorithm
//! it is verified by; no token is logged.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::access::Rules;
use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::denied::{Denied, Refusal, Unavailable};
use crate::auth::gate::{Gate, Limits};
use crate::auth::step::jwks::{Algorithm, KeySet, Keyring, Reading, Source, Verified};
use crate::auth::step::{claimed, names};
use crate::device::DeviceId;
use crate::net::post;
use crate::telemetry;

/// Which field of CONNECT has the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// The password.
    #[default]
    Password,
    /// The user name.
    Username,
}

/// Whose tokens are good, and whom they name (`[auth.jwt]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A file with the key set. This or `jwks_url`.
    pub jwks_file: Option<PathBuf>,
    /// Where the key set is, `http` or `https`.
    pub jwks_url: Option<String>,
    /// How often the key set is read again, in seconds; a token with an unknown key has it read at once.
    pub refresh_s: u64,
    /// Which field of CONNECT has the token.
    pub field: Field,
    /// Who must have issued the token (`iss`); without it that is not looked at.
    pub issuer: Option<String>,
    /// Whom the token must be for (`aud`); without it that is not looked at.
    pub audience: Option<String>,
    /// By how much clocks may differ, in seconds.
    pub leeway_s: u64,
    /// The claim with the product id; empty: `device_claim` has both, as `P&N` or `P/N`.
    pub product_claim: String,
    /// The claim with the device name.
    pub device_claim: String,
    /// The claim with rules, an array of `{"effect", "action", "filter"}`, which a token need not have; empty: it is not looked at.
    pub rules_claim: String,
    /// Time and cache.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            jwks_file: None,
            jwks_url: None,
            refresh_s: 300,
            field: Field::default(),
            issuer: None,
            audience: None,
            leeway_s: 30,
            product_claim: "product".to_owned(),
            device_claim: "device".to_owned(),
            rules_claim: "rules".to_owned(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`; reads the file.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = self.limits.validate();
        match (&self.jwks_file, &self.jwks_url) {
            (Some(path), None) => {
                let read = std::fs::read(path).map_err(|error| error.to_string());
                if let Err(fault) = read.and_then(|json| KeySet::parse(&json)) {
                    faults.push(format!("jwks_file: {}: {fault}", path.display()));
                }
            }
            (None, Some(url)) => {
                if let Err(fault) = post::parse(url) {
                    faults.push(format!("jwks_url: {fault}"));
                }
            }
            (None, None) | (Some(_), Some(_)) => {
                faults.push("jwks_file: expected a file here or a URL as `jwks_url`".to_owned());
            }
        }
        if self.refresh_s == 0 {
            faults.push("refresh_s: expected more than 0".to_owned());
        }
        if self.device_claim.is_empty() {
            faults.push("device_claim: expected the name of a claim".to_owned());
        }
        faults
    }

    fn source(&self) -> Option<Source> {
        let url = || Some(Source::Url(post::parse(self.jwks_url.as_ref()?).ok()?));
        self.jwks_file.clone().map(Source::File).or_else(url)
    }
}

/// The step.
pub(in crate::auth) struct Jwt {
    config: Config,
    keys: Keyring,
    gate: Gate,
}

impl Jwt {
    /// With the task that reads the keys; none where the configuration has no source of them, which it is invalid without.
    pub(in crate::auth) fn new(config: &Config) -> Option<(Self, Reading)> {
        let refresh = Duration::from_secs(config.refresh_s);
        let (reading, keys) = Reading::new(config.source()?, refresh);
        let jwt = Self {
            gate: Gate::new(&config.limits),
            config: config.clone(),
            keys,
        };
        Some((jwt, reading))
    }

    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        let field = match self.config.field {
            Field::Password => attempt.password.and_then(|text| str::from_utf8(text).ok()),
            Field::Username => attempt.username,
        };
        let Some(token) = field.and_then(Token::split) else {
            return Ok(Verdict::Pass(None));
        };
        let judge = |_room| self.judge(&token, attempt.client_id);
        self.gate.ask(now, attempt, judge).await
    }

    async fn judge(&self, token: &Token<'_>, client_id: &str) -> Result<Verdict, Unavailable> {
        let denied = |why| Ok(Verdict::Deny(Denied::Refused(Refusal::Token(why))));
        let Some((header, signature)) = token.header() else {
            return denied("header");
        };
        if header.crit.is_some() {
            return denied("critical extension");
        }
        let Some(algorithm) = Algorithm::named(&header.alg) else {
            return denied("algorithm");
        };
        let (id, message) = (header.kid.as_deref(), token.signed.as_bytes());
        match self.keys.verify(id, algorithm, message, &signature).await {
            Verified::Yes => {}
            Verified::No => return denied("signature"),
            Verified::NoKey => return denied("key"),
            Verified::Unknown => return Err(Unavailable::Keys),
        }
        let claims: Option<Map<String, Value>> = decoded(token.claims);
        let claims = claims.unwrap_or_default();
        match self.read(&claims, telemetry::now_unix_ms()) {
            Err(why) => denied(why),
            Ok((device, expires_ms, rules)) => Ok(match claimed(client_id) {
                Ok(claimed) if claimed == device => Verdict::Accept(Decision {
                    expires_ms: Some(expires_ms),
                    rules,
                    ..Decision::of(device)
                }),
                Ok(_) | Err(_) => {
                    Verdict::Deny(Denied::Refused(Refusal::OtherDevice("token", device)))
                }
            }),
        }
    }

    /// The device, the time at which it is one no longer, in Unix milliseconds, and its rules; or which claim is not good.
    fn read(
        &self,
        claims: &Map<String, Value>,
        now_ms: u64,
    ) -> Result<(DeviceId, u64, Rules), &'static str> {
        let leeway_ms = self.config.leeway_s.saturating_mul(1_000);
        let end_ms = time_ms(claims, "exp")?.ok_or("exp missing")?;
        let end_ms = end_ms.saturating_add(leeway_ms);
        if now_ms >= end_ms {
            return Err("expired");
        }
        if time_ms(claims, "nbf")?.is_some_and(|from| now_ms.saturating_add(leeway_ms) < from) {
            return Err("not valid yet");
        }
        let is_from = |issuer: &String| text(claims, "iss") == Some(issuer);
        if !self.config.issuer.as_ref().is_none_or(is_from) {
            return Err("issuer");
        }
        let is_for = |audience: &String| match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
            one => one.and_then(Value::as_str) == Some(audience),
        };
        if !self.config.audience.as_ref().is_none_or(is_for) {
            return Err("audience");
        }
        let name = text(claims, &self.config.device_claim).ok_or("device claim")?;
        let device = match self.config.product_claim.as_str() {
            "" => names(name),
            claim => text(claims, claim).and_then(|product| DeviceId::new(product, name).ok()),
        };
        Ok((device.ok_or("device claim")?, end_ms, self.rules(claims)?))
    }

    /// What cannot be read might deny something: such a token is not good.
    fn rules(&self, claims: &Map<String, Value>) -> Result<Rules, &'static str> {
        let claim = Some(&*self.config.rules_claim).filter(|name| !name.is_empty());
        match claim.and_then(|name| claims.get(name)) {
            None => Ok(Rules::default()),
            Some(rules) => Rules::deserialize(rules).map_err(|_fault| "rules claim"),
        }
    }
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// A NumericDate, in milliseconds; none where there is no such claim.
fn time_ms(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, &'static str> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value
        .as_f64()
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = time.and_then(|time| u64::try_from(time.as_millis()).ok());
    time.map(Some).ok_or(name)
}

/// A text in the form of a token, nothing of it checked.
struct Token<'a> {
    /// Header and claims, as they are signed.
    signed: &'a str,
    header: &'a str,
    claims: &'a str,
    signature: &'a str,
}

/// Of a token's header, what says how it is verified.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Token<'a> {
    /// Three parts, of which the first can be a JSON object in base64.
    fn split(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let is_token = header.starts_with("ey") && !claims.contains('.');
        is_token.then_some(Self {
            signed,
            header,
            claims,
            signature,
        })
    }

    fn header(&self) -> Option<(Header, Vec<u8>)> {
        let signature = URL_SAFE_NO_PAD.decode(self.signature).ok()?;
        Some((decoded(self.header)?, signature))
    }
}

fn decoded<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    let json = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
mod tests;
