//! A polygon on the earth: whether a point is in it, and how far outside.
//!
//! Longitude is x and latitude is y. The ring is unrolled: each corner's longitude is the one nearest to that of the corner before, so
//! an edge takes the shorter way round and may cross the antimeridian. A ring that comes back a whole turn away from where it began
//! goes round a pole; it is closed over the pole that is nearer to the mean of its corners. Inside is what an odd number of edges
//! separates from the south; of a point exactly on an edge nothing is promised.

use super::sphere::{Point, RADIUS_M};

/// A corner in degrees, x unrolled.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Corner {
    x: f64,
    y: f64,
}

/// A closed ring.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Polygon {
    /// The last is joined to the first.
    ring: Vec<Corner>,
    /// How many of its edges, from the first on, are a border; those over a pole are none.
    borders: usize,
    west: f64,
    east: f64,
}

impl Polygon {
    /// Of at least three corners.
    pub(super) fn new(corners: &[Point]) -> Self {
        let mut ring: Vec<Corner> = Vec::with_capacity(corners.len() + 3);
        let first = corners.first().copied();
        for corner in corners.iter().chain(&first) {
            let x = ring.last().map_or(corner.longitude, |last| {
                last.x + turn(corner.longitude - last.x)
            });
            ring.push(Corner {
                x,
                y: corner.latitude,
            });
        }
        let borders = corners.len();
        let start = ring.first().copied();
        let end = ring.last().copied();
        if let Some((start, end)) = start.zip(end) {
            if (end.x - start.x).abs() < 180.0 {
                ring.pop();
            } else {
                let north: f64 = corners.iter().map(|corner| corner.latitude).sum();
                // Beyond the pole, so that the pole itself is inside.
                let y = 91.0_f64.copysign(north);
                ring.push(Corner { x: end.x, y });
                ring.push(Corner { x: start.x, y });
            }
        }
        let xs = || ring.iter().map(|corner| corner.x);
        Self {
            west: xs().fold(f64::INFINITY, f64::min),
            east: xs().fold(f64::NEG_INFINITY, f64::max),
            borders,
            ring,
        }
    }

    /// Each edge, from corner to corner.
    fn edges(&self) -> impl Iterator<Item = (Corner, Corner)> {
        let next = self.ring.iter().cycle().skip(1);
        self.ring.iter().copied().zip(next.copied())
    }

    /// Whether a point is in it.
    pub(super) fn contains(&self, point: Point) -> bool {
        let mut crossed = 0;
        let mut x = point.longitude - 360.0 * ((point.longitude - self.west) / 360.0).floor();
        // A ring may lie over itself, a turn further: all that lies over the point counts.
        while x <= self.east {
            let below = self.edges().filter(|(from, to)| {
                let spans = (from.x <= x) != (to.x <= x);
                spans && from.y + (x - from.x) / (to.x - from.x) * (to.y - from.y) <= point.latitude
            });
            crossed += below.count();
            x += 360.0;
        }
        crossed % 2 == 1
    }

    /// How far outside a point is, metres along a plane that touches the earth there; 0 inside.
    pub(super) fn outside_m(&self, point: Point) -> f64 {
        if self.contains(point) {
            return 0.0;
        }
        let borders = self.edges().take(self.borders);
        borders
            .map(|(from, to)| edge_m(point, from, to))
            .fold(f64::INFINITY, f64::min)
    }
}

/// Degrees as the same turn of -180 to 180.
fn turn(degrees: f64) -> f64 {
    degrees - 360.0 * (degrees / 360.0).round()
}

/// From a point to the nearest point of an edge.
fn edge_m(point: Point, from: Corner, to: Corner) -> f64 {
    let degree_m = RADIUS_M.to_radians();
    let narrow = point.latitude.to_radians().cos();
    let start_x = turn(from.x - point.longitude);
    let x = start_x * degree_m * narrow;
    let y = (from.y - point.latitude) * degree_m;
    let along_x = (to.x - from.x) * degree_m * narrow;
    let along_y = (to.y - from.y) * degree_m;
    let length = along_x * along_x + along_y * along_y;
    let part = match length > 0.0 {
        true => (-(x * along_x + y * along_y) / length).clamp(0.0, 1.0),
        false => 0.0,
    };
    (x + part * along_x).hypot(y + part * along_y)
}
