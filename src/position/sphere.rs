//! Points and distances on the earth, taken as a sphere: at most 0.6 % off what an ellipsoid gives.

use serde::{Deserialize, Serialize};

/// The earth's mean radius (IUGG), metres.
pub(super) const RADIUS_M: f64 = 6_371_008.8;

/// A place in WGS84, degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// -90 to 90.
    pub latitude: f64,
    /// -180 to 180.
    pub longitude: f64,
}

/// The way from one point to another along a great circle, metres (haversine: exact for small distances, antipodes within metres).
#[must_use]
pub fn distance_m(from: Point, to: Point) -> f64 {
    let half_north = (to.latitude - from.latitude).to_radians() / 2.0;
    let half_east = (to.longitude - from.longitude).to_radians() / 2.0;
    let cosines = from.latitude.to_radians().cos() * to.latitude.to_radians().cos();
    let square = half_north.sin().powi(2) + cosines * half_east.sin().powi(2);
    2.0 * RADIUS_M * square.clamp(0.0, 1.0).sqrt().asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(latitude: f64, longitude: f64) -> Point {
        Point {
            latitude,
            longitude,
        }
    }

    #[test]
    fn known_distances() {
        let degree = RADIUS_M.to_radians();
        for (from, to, metres) in [
            (point(0.0, 0.0), point(0.0, 0.0), 0.0),
            (point(0.0, 0.0), point(0.0, 1.0), degree),
            (point(0.0, 0.0), point(1.0, 0.0), degree),
            (point(0.0, 179.5), point(0.0, -179.5), degree),
            (point(89.5, 0.0), point(89.5, 180.0), degree),
            (point(90.0, 12.0), point(-90.0, 77.0), 180.0 * degree),
            (point(0.0, 0.0), point(0.0, 180.0), 180.0 * degree),
            // Paris to London by the angle between vectors, and the usual example of Nashville to Los Angeles.
            (
                point(48.8567, 2.3508),
                point(51.5072, -0.1275),
                343_465.883_734,
            ),
            (point(36.12, -86.67), point(33.94, -118.40), 2_886_448.0),
        ] {
            let found = distance_m(from, to);
            let off = (found - metres).abs();
            assert!(off <= metres * 1e-5 + 1e-6, "{from:?} {to:?}: {found}");
            assert!((found - distance_m(to, from)).abs() < 1e-6);
        }
        // Ten centimetres are told from none.
        let near = distance_m(point(45.0, 14.0), point(45.000_000_9, 14.0));
        assert!((near - 0.1).abs() < 0.001, "{near}");
    }
}
