//! Coordinate systems of mainland China: GCJ02, which is WGS84 shifted by a formula, and BD09, which is GCJ02 shifted again.
//!
//! The formulas are those that are public and in general use. The way there is closed; the way back is found by iteration,
//! to far below a millimetre. Outside China's rectangle GCJ02 and BD09 are not defined and coordinates stay as they are.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// What degrees are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum System {
    /// What GNSS receivers give.
    #[serde(rename = "WGS84", alias = "wgs84")]
    Wgs84,
    /// What maps in China show.
    #[serde(rename = "GCJ02", alias = "gcj02")]
    Gcj02,
    /// What Baidu's maps show.
    #[serde(rename = "BD09", alias = "bd09")]
    Bd09,
}

impl System {
    /// `WGS84`, `GCJ02` or `BD09`: the name in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wgs84 => "WGS84",
            Self::Gcj02 => "GCJ02",
            Self::Bd09 => "BD09",
        }
    }

    /// The number that a row holds: 0 WGS84, 1 GCJ02, 2 BD09.
    #[must_use]
    pub const fn number(self) -> i16 {
        match self {
            Self::Wgs84 => 0,
            Self::Gcj02 => 1,
            Self::Bd09 => 2,
        }
    }

    /// The system of a row's number.
    #[must_use]
    pub const fn from_number(number: i16) -> Option<Self> {
        match number {
            0 => Some(Self::Wgs84),
            1 => Some(Self::Gcj02),
            2 => Some(Self::Bd09),
            _ => None,
        }
    }

    /// The system of a name in any case, with or without `-`, `_` and space, such as `gcj-02`, `BD09LL` or
    /// `EPSG:4326`. CGCS2000 differs from WGS84 by centimetres and counts as it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name: String = name
            .chars()
            .filter(|c| !matches!(c, '-' | '_' | ' '))
            .map(|c| c.to_ascii_uppercase())
            .take(16)
            .collect();
        match &*name {
            "WGS84" | "WGS1984" | "EPSG:4326" | "CGCS2000" => Some(Self::Wgs84),
            "GCJ02" | "GCJ2" => Some(Self::Gcj02),
            "BD09" | "BD9" | "BD09LL" => Some(Self::Bd09),
            _ => None,
        }
    }
}

/// Semi-major axis and squared eccentricity of the Krasovsky 1940 ellipsoid, which the shift is defined on.
const AXIS_M: f64 = 6_378_245.0;
const ECCENTRICITY_SQUARED: f64 = 0.006_693_421_622_965_943;
const BD09_PI: f64 = PI * 3000.0 / 180.0;
/// Each round leaves less than a thousandth of the error that was there.
const ROUNDS: usize = 8;

/// Degrees of one system as latitude and longitude of another. Within a system and outside China's rectangle nothing changes.
#[must_use]
pub fn convert(from: System, to: System, latitude: f64, longitude: f64) -> (f64, f64) {
    if from == to || !is_in_china(latitude, longitude) {
        return (latitude, longitude);
    }
    let here = (latitude, longitude);
    match (from, to) {
        (System::Wgs84, System::Gcj02) => wgs84_to_gcj02(here),
        (System::Wgs84, System::Bd09) => gcj02_to_bd09(wgs84_to_gcj02(here)),
        (System::Gcj02, System::Bd09) => gcj02_to_bd09(here),
        (System::Gcj02, System::Wgs84) => invert(wgs84_to_gcj02, here),
        (System::Bd09, System::Gcj02) => invert(gcj02_to_bd09, here),
        (System::Bd09, System::Wgs84) => invert(wgs84_to_gcj02, invert(gcj02_to_bd09, here)),
        (System::Wgs84, System::Wgs84)
        | (System::Gcj02, System::Gcj02)
        | (System::Bd09, System::Bd09) => here,
    }
}

fn is_in_china(latitude: f64, longitude: f64) -> bool {
    (0.8293..=55.8271).contains(&latitude) && (72.004..=137.8347).contains(&longitude)
}

fn wgs84_to_gcj02((latitude, longitude): (f64, f64)) -> (f64, f64) {
    let (x, y) = (longitude - 105.0, latitude - 35.0);
    let root = x.abs().sqrt();
    let wave = |value: f64, per: f64| (value / per * PI).sin();
    let both = (20.0 * wave(6.0 * x, 1.0) + 20.0 * wave(2.0 * x, 1.0)) * 2.0 / 3.0;
    let north = -100.0
        + 2.0 * x
        + 3.0 * y
        + 0.2 * y * y
        + 0.1 * x * y
        + 0.2 * root
        + both
        + (20.0 * wave(y, 1.0) + 40.0 * wave(y, 3.0)) * 2.0 / 3.0
        + (160.0 * wave(y, 12.0) + 320.0 * wave(y, 30.0)) * 2.0 / 3.0;
    let east = 300.0
        + x
        + 2.0 * y
        + 0.1 * x * x
        + 0.1 * x * y
        + 0.1 * root
        + both
        + (20.0 * wave(x, 1.0) + 40.0 * wave(x, 3.0)) * 2.0 / 3.0
        + (150.0 * wave(x, 12.0) + 300.0 * wave(x, 30.0)) * 2.0 / 3.0;
    let angle = latitude.to_radians();
    let magic = 1.0 - ECCENTRICITY_SQUARED * angle.sin().powi(2);
    let meridian_m = AXIS_M * (1.0 - ECCENTRICITY_SQUARED) / (magic * magic.sqrt());
    let parallel_m = AXIS_M / magic.sqrt() * angle.cos();
    (
        latitude + (north / meridian_m).to_degrees(),
        longitude + (east / parallel_m).to_degrees(),
    )
}

fn gcj02_to_bd09((latitude, longitude): (f64, f64)) -> (f64, f64) {
    let radius = longitude.hypot(latitude) + 0.000_02 * (latitude * BD09_PI).sin();
    let angle = latitude.atan2(longitude) + 0.000_003 * (longitude * BD09_PI).cos();
    (radius * angle.sin() + 0.006, radius * angle.cos() + 0.0065)
}

/// What `shift` makes `target` of.
fn invert(shift: fn((f64, f64)) -> (f64, f64), target: (f64, f64)) -> (f64, f64) {
    (0..ROUNDS).fold(target, |guess, _| {
        let there = shift(guess);
        (guess.0 + target.0 - there.0, guess.1 + target.1 - there.1)
    })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
