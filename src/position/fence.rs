//! Fences: circles and polygons that devices go into and out of, with hysteresis at the border.
//!
//! Fences are in WGS84; a report is converted before it is tested. A device is in from the border on and stays in until it is
//! more than the fence's hysteresis outside it, so that noise at the border makes no events.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::geometry::Polygon;
use super::sphere::{Point, distance_m};

/// The longest name of a fence, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// How many fences there may be, and how many corners one.
const FENCES_MAX: usize = 10_000;
const CORNERS_MAX: usize = 10_000;
/// Half the earth's circumference: nothing is further away.
const METRES_MAX: f64 = 20_020_000.0;

/// A fence as it is configured: `[[gps.fence]]`. Exactly one of `circle` and `polygon`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FenceConfig {
    /// What events call it: 1 to 128 bytes, of one fence only.
    pub name: String,
    /// The products whose devices it is for; none: all.
    #[serde(default)]
    pub products: Vec<String>,
    /// All within a distance of a point.
    #[serde(default)]
    pub circle: Option<Circle>,
    /// At least three corners, each latitude and longitude in degrees. Edges are straight where longitude and latitude are x and
    /// y, take the shorter way round the earth, and may cross the antimeridian; a ring that goes round a pole has the nearer
    /// pole in it.
    #[serde(default)]
    pub polygon: Vec<[f64; 2]>,
    /// Metres outside the border from which on a device is out again; default 20.
    #[serde(default = "hysteresis_m")]
    pub hysteresis_m: f64,
}

const fn hysteresis_m() -> f64 {
    20.0
}

/// All within a distance of a point.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    /// Degrees, WGS84.
    pub latitude: f64,
    /// Degrees, WGS84.
    pub longitude: f64,
    /// Metres, above 0.
    pub radius_m: f64,
}

/// All fences, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fences(Vec<Fence>);

#[derive(Debug, Clone, PartialEq)]
struct Fence {
    name: String,
    products: Vec<String>,
    shape: Shape,
    hysteresis_m: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Circle { centre: Point, radius_m: f64 },
    Polygon(Polygon),
}

impl Fences {
    /// Checks the fences of a configuration.
    ///
    /// # Errors
    /// Every fault, each beginning with its fence's place in the list and name: lower case, no full stop.
    pub fn new(configs: &[FenceConfig]) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut names = BTreeSet::new();
        let mut fences = Vec::with_capacity(configs.len());
        if configs.len() > FENCES_MAX {
            faults.push(format!(
                "found {} fences, expected at most {FENCES_MAX}",
                configs.len()
            ));
        }
        for (at, config) in configs.iter().enumerate() {
            let mut fault = |rule: String| {
                let name: String = config.name.chars().take(NAME_BYTES_MAX).collect();
                faults.push(format!("fence {} {name:?}: {rule}", at + 1));
            };
            if config.name.is_empty() || config.name.len() > NAME_BYTES_MAX {
                fault(format!("name: expected 1 to {NAME_BYTES_MAX} bytes"));
            }
            if !names.insert(&config.name) {
                fault("name: found twice, expected a name of its own".to_owned());
            }
            if !(0.0..=METRES_MAX).contains(&config.hysteresis_m) {
                fault(format!("hysteresis_m: expected 0 to {METRES_MAX}"));
            }
            match shape(config) {
                Err(rule) => fault(rule),
                Ok(shape) => fences.push(Fence {
                    name: config.name.clone(),
                    products: config.products.clone(),
                    shape,
                    hysteresis_m: config.hysteresis_m,
                }),
            }
        }
        match faults.is_empty() {
            true => Ok(Self(fences)),
            false => Err(faults),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|fence| fence.name == name)
    }

    /// The names of the fences, of those for `product`, that a device at `point` is in which was in those of `before`.
    #[must_use]
    pub fn around(
        &self,
        product: &str,
        point: Point,
        before: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let own = self.0.iter().filter(|fence| {
            fence.products.is_empty() || fence.products.iter().any(|named| named == product)
        });
        own.filter(|fence| match before.contains(&fence.name) {
            true => fence.outside_m(point) <= fence.hysteresis_m,
            false => fence.contains(point),
        })
        .map(|fence| fence.name.clone())
        .collect()
    }
}

impl Fence {
    fn contains(&self, point: Point) -> bool {
        match &self.shape {
            Shape::Circle { centre, radius_m } => distance_m(*centre, point) <= *radius_m,
            Shape::Polygon(polygon) => polygon.contains(point),
        }
    }

    /// How far outside it a point is, metres; 0 inside.
    fn outside_m(&self, point: Point) -> f64 {
        match &self.shape {
            Shape::Circle { centre, radius_m } => (distance_m(*centre, point) - radius_m).max(0.0),
            Shape::Polygon(polygon) => polygon.outside_m(point),
        }
    }
}

fn shape(config: &FenceConfig) -> Result<Shape, String> {
    match (config.circle, &*config.polygon) {
        (Some(circle), []) => {
            let centre = Point {
                latitude: circle.latitude,
                longitude: circle.longitude,
            };
            if !is_on_earth(centre) {
                return Err(
                    "circle: expected a latitude of -90 to 90 and a longitude of -180 to 180"
                        .to_owned(),
                );
            }
            if !(circle.radius_m > 0.0 && circle.radius_m <= METRES_MAX) {
                return Err(format!(
                    "circle.radius_m: expected more than 0 and at most {METRES_MAX}"
                ));
            }
            Ok(Shape::Circle {
                centre,
                radius_m: circle.radius_m,
            })
        }
        (None, corners) if (3..=CORNERS_MAX).contains(&corners.len()) => {
            let corners = corners.iter().map(|[latitude, longitude]| Point {
                latitude: *latitude,
                longitude: *longitude,
            });
            let corners: Vec<Point> = corners.collect();
            match corners.iter().position(|corner| !is_on_earth(*corner)) {
                None => Ok(Shape::Polygon(Polygon::new(&corners))),
                Some(at) => Err(format!(
                    "polygon: corner {}: expected a latitude of -90 to 90 and a longitude of -180 to 180",
                    at + 1
                )),
            }
        }
        (None, []) | (Some(_), _) => Err("expected either circle or polygon".to_owned()),
        (None, corners) => Err(format!(
            "polygon: found {} corners, expected 3 to {CORNERS_MAX}",
            corners.len()
        )),
    }
}

fn is_on_earth(point: Point) -> bool {
    (-90.0..=90.0).contains(&point.latitude) && (-180.0..=180.0).contains(&point.longitude)
}

#[cfg(test)]
#[path = "fence_tests.rs"]
mod tests;
