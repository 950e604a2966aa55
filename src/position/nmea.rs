//! NMEA 0183: GGA and RMC sentences of one text to fixes.
//!
//! Sentences of the same time of day are one fix. RMC brings the date; a fix without one is put on the day that brings it nearest to
//! one with a date in the text, else to when the message is of. Two digits of a year are 1980 to 2079. A checksum that is there must
//! hold. RMC status V or none, RMC mode N and GGA quality 0 or none say that there is no fix. Other sentences, and texts that are
//! none, are passed over.

use time::{Date, Month};

use super::flags::Flags;
use super::point::{Draft, Found, check};
use super::rule::Unit;
use super::tree::{Number, decimal};
use crate::event::{Fault, reason};

/// What every text has that has a sentence that is read.
pub(super) const MARKS: [&str; 2] = ["GGA,", "RMC,"];
/// How many fixes one text may give; what is more is a fault.
pub(super) const FIXES_MAX: usize = 256;

const DAY_MS: u64 = 86_400_000;

/// The sentences that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gga,
    Rmc,
}

/// What the sentences of one time of day say.
struct Fix {
    /// Milliseconds since midnight, UTC.
    of_day_ms: Option<u64>,
    /// Midnight, Unix milliseconds.
    day_ms: Option<u64>,
    kinds: Vec<Kind>,
    has_coordinates: bool,
    draft: Draft,
}

/// Reads a text; `reference_ms` is when the message is of, Unix milliseconds.
pub(super) fn read(text: &str, path: &dyn Fn() -> String, reference_ms: u64) -> Found {
    if !MARKS.iter().any(|mark| text.contains(mark)) {
        return Found::Nothing;
    }
    let mut fixes: Vec<Fix> = Vec::new();
    let mut faults = Vec::new();
    let sentences = text.split(['\r', '\n', '$']).map(str::trim);
    for sentence in sentences.filter(|sentence| !sentence.is_empty()) {
        let Some(kind) = kind(sentence) else { continue };
        let count = fixes.len();
        match checked(sentence).and_then(|fields| Fix::read(kind, &fields)) {
            Ok(fix) => match fixes.last_mut().filter(|last| last.goes_with(&fix)) {
                Some(last) => last.merge(fix),
                None if count < FIXES_MAX => fixes.push(fix),
                None => {
                    let rule = format!("expected a text of at most {FIXES_MAX} fixes");
                    faults.push(Err(Fault::new(reason::TOO_MANY, path(), rule)));
                    break;
                }
            },
            Err((reason, rule)) => {
                let sentence: String = sentence.chars().take(SENTENCE_CHARS_MAX).collect();
                let rule = format!("{rule} in sentence {sentence:?}");
                faults.push(Err(Fault::new(reason, path(), rule)));
            }
        }
    }
    if fixes.is_empty() && faults.is_empty() {
        return Found::Nothing;
    }
    let dated = fixes
        .iter()
        .find_map(|fix| Some(fix.day_ms? + fix.of_day_ms?));
    let reference_ms = dated.unwrap_or(reference_ms);
    let drafts = fixes.into_iter().map(|fix| Ok(fix.finish(reference_ms)));
    // Fixes first: their places in the text number them.
    Found::Certain(drafts.chain(faults).collect())
}

/// As much of a sentence is told in a fault.
const SENTENCE_CHARS_MAX: usize = 120;

type Broken = (&'static str, &'static str);

/// The kind of a sentence by its address: two characters of the talker, three of the sentence. Makers' own ones begin with `P`.
fn kind(sentence: &str) -> Option<Kind> {
    let (address, _) = sentence.split_once(',')?;
    match address.as_bytes() {
        [talker @ .., b'G', b'G', b'A'] if is_talker(talker) => Some(Kind::Gga),
        [talker @ .., b'R', b'M', b'C'] if is_talker(talker) => Some(Kind::Rmc),
        _ => None,
    }
}

fn is_talker(talker: &[u8]) -> bool {
    talker.len() == 2 && !talker.starts_with(b"P") && talker.iter().all(u8::is_ascii_alphanumeric)
}

/// The fields of a sentence whose checksum holds, if it has one.
fn checked(sentence: &str) -> Result<Vec<&str>, Broken> {
    let body = match sentence.split_once('*') {
        None => sentence,
        Some((body, said)) => {
            let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
            match said.eq_ignore_ascii_case(&format!("{sum:02X}")) {
                true => body,
                false => return Err((reason::CHECKSUM, "expected a checksum that holds")),
            }
        }
    };
    Ok(body.split(',').map(str::trim).collect())
}

impl Fix {
    fn read(kind: Kind, fields: &[&str]) -> Result<Self, Broken> {
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let number = |at| match field(at) {
            "" => Number::Null,
            text => decimal(text).map_or(Number::Not, Number::Is),
        };
        let (place, has_fix) = match kind {
            Kind::Rmc => (3, !matches!(field(2), "" | "V") && field(12) != "N"),
            Kind::Gga => (2, !matches!(field(6), "" | "0")),
        };
        let latitude = degrees(field(place), field(place + 1), ["N", "S"])?;
        let longitude = degrees(field(place + 2), field(place + 3), ["E", "W"])?;
        let mut draft = match (latitude, longitude) {
            (Some(latitude), Some(longitude)) => {
                let checked = check(latitude, longitude);
                checked.map_err(|_which| {
                    (
                        reason::RANGE,
                        "expected at most 90 degrees of latitude and 180 of longitude",
                    )
                })?;
                Draft::at(latitude, longitude)
            }
            (None, None) => Draft::at(0.0, 0.0),
            _ if !has_fix => Draft::at(0.0, 0.0),
            _ => return Err((reason::MISSING, "expected latitude and longitude")),
        };
        let has_coordinates = latitude.is_some() && longitude.is_some();
        if !has_fix || !has_coordinates {
            draft.flags |= Flags::NO_FIX;
        }
        match kind {
            Kind::Rmc => {
                draft.set_speed(number(7), Unit::KNOTS);
                draft.set_course(number(8));
            }
            Kind::Gga => {
                draft.set_satellites(number(7));
                draft.set_hdop(number(8));
                draft.set_altitude(number(9), Unit::METRIC);
            }
        }
        Ok(Self {
            of_day_ms: of_day_ms(field(1)),
            day_ms: day_ms(if kind == Kind::Rmc { field(9) } else { "" }),
            kinds: vec![kind],
            has_coordinates,
            draft,
        })
    }

    /// Whether another sentence is of the same fix.
    fn goes_with(&self, other: &Self) -> bool {
        let is_new = !other.kinds.iter().any(|kind| self.kinds.contains(kind));
        is_new && self.of_day_ms == other.of_day_ms
    }

    /// Takes what another sentence says; that there is no fix counts, whichever says it.
    fn merge(&mut self, other: Self) {
        let Draft {
            altitude_m,
            speed_mps,
            course_deg,
            satellites,
            hdop,
            flags,
            ..
        } = self.draft;
        if !self.has_coordinates {
            self.draft = other.draft.clone();
            self.has_coordinates = other.has_coordinates;
        }
        let draft = &mut self.draft;
        draft.altitude_m = altitude_m.or(other.draft.altitude_m);
        draft.speed_mps = speed_mps.or(other.draft.speed_mps);
        draft.course_deg = course_deg.or(other.draft.course_deg);
        draft.satellites = satellites.or(other.draft.satellites);
        draft.hdop = hdop.or(other.draft.hdop);
        draft.flags = flags | other.draft.flags;
        self.day_ms = self.day_ms.or(other.day_ms);
        self.kinds.extend(other.kinds);
    }

    fn finish(self, reference_ms: u64) -> Draft {
        let device_ms = self.of_day_ms.map(|of_day_ms| match self.day_ms {
            Some(day_ms) => day_ms + of_day_ms,
            None => nearest(of_day_ms, reference_ms),
        });
        Draft {
            device_ms,
            ..self.draft
        }
    }
}

/// Degrees of `[d]ddmm.mmmm` and a hemisphere; none if both are empty.
fn degrees(text: &str, hemisphere: &str, [plus, minus]: [&str; 2]) -> Result<Option<f64>, Broken> {
    if text.is_empty() && hemisphere.is_empty() {
        return Ok(None);
    }
    let sign = match hemisphere {
        plus_ if plus_ == plus => 1.0,
        minus_ if minus_ == minus => -1.0,
        _ => return Err((reason::TYPE, "expected a hemisphere")),
    };
    let whole = text.find('.').unwrap_or(text.len());
    let parts = whole
        .checked_sub(2)
        .and_then(|at| text.split_at_checked(at));
    let read = parts.and_then(|(degrees, minutes)| {
        let is_digits = degrees.bytes().all(|byte| byte.is_ascii_digit()) && degrees.len() <= 3;
        let degrees: f64 = match degrees {
            "" => 0.0,
            _ => is_digits.then(|| degrees.parse().ok())??,
        };
        let minutes = decimal(minutes).filter(|minutes| (0.0..60.0).contains(minutes))?;
        Some(sign * (degrees + minutes / 60.0))
    });
    match read {
        Some(degrees) => Ok(Some(degrees)),
        None => Err((reason::TYPE, "expected degrees and minutes")),
    }
}

/// Milliseconds since midnight of `hhmmss.sss`.
fn of_day_ms(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let [hour, minute, second] = pairs(whole)?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let is_digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits = is_digits.then(|| fraction.bytes().chain(*b"000").take(3))?;
    let ms = digits.fold(0, |ms, digit| ms * 10 + u64::from(digit - b'0'));
    Some(((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

/// Midnight of `ddmmyy`, Unix milliseconds.
fn day_ms(text: &str) -> Option<u64> {
    let [day, month, year] = pairs(text)?;
    let century = if year < 80 { 2000 } else { 1900 };
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let year = i32::try_from(century + year).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(day).ok()?).ok()?;
    let seconds = date.midnight().assume_utc().unix_timestamp();
    u64::try_from(seconds).ok().map(|seconds| seconds * 1000)
}

/// Three numbers of two digits each.
fn pairs(text: &str) -> Option<[u64; 3]> {
    match text.as_bytes() {
        [a, b, c, d, e, f] if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let pair = |ten: &u8, one: &u8| u64::from(ten - b'0') * 10 + u64::from(one - b'0');
            Some([pair(a, b), pair(c, d), pair(e, f)])
        }
        _ => None,
    }
}

/// The moment with this time of day that is nearest to another one.
fn nearest(of_day_ms: u64, reference_ms: u64) -> u64 {
    let same_day = (reference_ms - reference_ms % DAY_MS).saturating_add(of_day_ms);
    let days = [
        same_day.saturating_sub(DAY_MS),
        same_day,
        same_day.saturating_add(DAY_MS),
    ];
    let nearest = days
        .into_iter()
        .min_by_key(|day| day.abs_diff(reference_ms));
    nearest.unwrap_or(same_day)
}

#[cfg(test)]
#[path = "nmea_tests.rs"]
mod tests;
