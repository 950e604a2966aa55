//! When a device says that it was (G36): one rule for every way of saying it.
//!
//! A whole or decimal number, also as a text, is Unix time: below 10^11 seconds, below 10^14 milliseconds, below 10^17
//! microseconds, else nanoseconds. Any other text is ISO 8601, date and time, with an offset or without one in UTC, `T` or a space
//! between. What comes out before the first day of GPS is no time: a counter, a clock that was never set, or another unit.

use time::format_description::well_known::Iso8601;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::tree::{Value, decimal};

/// 1980-01-06T00:00:00Z.
const FIRST_MS: u64 = 315_964_800_000;
/// The longest text that is read.
const TEXT_BYTES_MAX: usize = 64;
/// From here on numbers are milliseconds, microseconds, nanoseconds.
const MILLISECONDS: u64 = 100_000_000_000;
const MICROSECONDS: u64 = 100_000_000_000_000;
const NANOSECONDS: u64 = 100_000_000_000_000_000;

/// Unix milliseconds below 10^14, parts of one cut; none if the value is no time.
pub(super) fn read(value: &Value<'_>) -> Option<u64> {
    let text = value.text();
    let text = text.as_deref().unwrap_or_else(|| value.raw().get()).trim();
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let ms = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => whole(text.parse().ok()?),
        false => match decimal(text) {
            Some(number) => fraction(number)?,
            None => iso8601(text)?,
        },
    };
    (FIRST_MS..MICROSECONDS).contains(&ms).then_some(ms)
}

const fn whole(number: u64) -> u64 {
    match number {
        0..MILLISECONDS => number * 1000,
        MILLISECONDS..MICROSECONDS => number,
        MICROSECONDS..NANOSECONDS => number / 1000,
        _ => number / 1_000_000,
    }
}

/// A number with a fraction or an exponent.
fn fraction(number: f64) -> Option<u64> {
    let ms = match number {
        ..0.0 => return None,
        ..1e11 => number * 1e3,
        ..1e14 => number,
        ..1e17 => number / 1e3,
        _ => number / 1e6,
    };
    // The conversion is exact: whole, not negative, and far below 2^53.
    (ms < 1e14).then(|| format!("{:.0}", ms.round()).parse().ok())?
}

fn iso8601(text: &str) -> Option<u64> {
    let text = text.replacen(' ', "T", 1);
    let at = OffsetDateTime::parse(&text, &Iso8601::DEFAULT);
    let at = at.or_else(|_without_offset| {
        PrimitiveDateTime::parse(&text, &Iso8601::DEFAULT).map(PrimitiveDateTime::assume_utc)
    });
    u64::try_from(at.ok()?.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
