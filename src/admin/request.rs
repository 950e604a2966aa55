//! Requests for a part of something long, as their query says them: conditions, how many, behind which one.

use axum::http::StatusCode;

use super::answer::Refused;
use crate::dlq;
use crate::outbox::store;
use crate::telemetry;

/// Of one request, unless it says otherwise.
const LIMIT: usize = 100;
/// Whatever it says.
const LIMIT_MAX: usize = 10_000;

/// Conditions that a query can set.
pub(super) trait Conditions: Default {
    /// Their names.
    const KEYS: &'static [&'static str];

    /// Sets one; whether it is known.
    fn set(&mut self, key: &str, value: &str, now_ms: u64) -> Result<bool, String>;

    /// Whether there is none.
    fn is_empty(&self) -> bool;
}

impl Conditions for dlq::Filter {
    const KEYS: &'static [&'static str] = &Self::KEYS;

    fn set(&mut self, key: &str, value: &str, now_ms: u64) -> Result<bool, String> {
        Self::set(self, key, value, now_ms)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

impl Conditions for store::Filter {
    const KEYS: &'static [&'static str] = &Self::KEYS;

    fn set(&mut self, key: &str, value: &str, now_ms: u64) -> Result<bool, String> {
        Self::set(self, key, value, now_ms)
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

/// A request.
pub(super) struct Request<C> {
    pub(super) filter: C,
    /// Behind which one to begin.
    pub(super) after: u64,
    pub(super) limit: usize,
    pub(super) dry_run: bool,
}

impl<C: Conditions> Request<C> {
    /// `changes` if it changes something: then it has to say what, or `all=true`.
    pub(super) fn read(query: Option<&str>, changes: bool) -> Result<Self, Refused> {
        let bad = |fault: String| Refused(StatusCode::BAD_REQUEST, fault);
        let mut request = Self {
            filter: C::default(),
            after: 0,
            limit: LIMIT,
            dry_run: false,
        };
        let mut all = false;
        let now = telemetry::now_unix_ms();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let wrong =
                |expected: &str| bad(format!("{key}: found {value:?}, expected {expected}"));
            match &*key {
                "after" => request.after = value.parse().map_err(|_e| wrong("a number"))?,
                "limit" => {
                    let limit = value.parse::<usize>().map_err(|_e| wrong("a number"))?;
                    request.limit = limit.clamp(1, LIMIT_MAX);
                }
                "dry_run" if changes => {
                    request.dry_run = value.parse().map_err(|_e| wrong("true or false"))?;
                }
                "all" if changes => all = value.parse().map_err(|_e| wrong("true or false"))?,
                _ => {
                    let known = request.filter.set(&key, &value, now).map_err(bad)?;
                    if !known {
                        let keys = C::KEYS.join(", ");
                        return Err(bad(format!(
                            "{key}: unknown, expected one of {keys}, after, limit, dry_run, all"
                        )));
                    }
                }
            }
        }
        if changes && request.filter.is_empty() && !all {
            return Err(bad("expected a condition, or all=true".to_owned()));
        }
        Ok(request)
    }
}
