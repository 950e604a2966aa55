//! Conversions at known points, there and back, and where nothing may change.

use proptest::prelude::*;

use super::*;
use crate::position::sphere::{Point, distance_m};

const ALL: [System; 3] = [System::Wgs84, System::Gcj02, System::Bd09];

fn metres(a: (f64, f64), b: (f64, f64)) -> f64 {
    let point = |(latitude, longitude)| Point {
        latitude,
        longitude,
    };
    distance_m(point(a), point(b))
}

#[test]
fn known_points() {
    use System::{Bd09, Gcj02, Wgs84};
    for (from, to, here, there, metres_max) in [
        // The examples of the libraries in general use.
        (
            Wgs84,
            Gcj02,
            (39.915, 116.404),
            (39.916_404_281_501_64, 116.410_244_499_169_38),
            0.001,
        ),
        (
            Gcj02,
            Bd09,
            (39.915, 116.404),
            (39.921_336_993_510_21, 116.410_369_493_710_29),
            0.001,
        ),
        (
            Bd09,
            Gcj02,
            (39.915, 116.404),
            (39.908_656_739_576_31, 116.397_627_291_193_15),
            0.6,
        ),
        // Shanghai, Shenzhen, Beijing, by a library whose ellipsoid is WGS84's.
        (
            Wgs84,
            Gcj02,
            (31.177_427_6, 121.527_210_6),
            (31.175_303_983_645_97, 121.531_541_859_215),
            0.05,
        ),
        (
            Wgs84,
            Gcj02,
            (22.543_847, 113.912_316),
            (22.540_796_131_694_766, 113.917_176_480_836_3),
            0.05,
        ),
        (
            Wgs84,
            Gcj02,
            (39.911_954, 116.377_817),
            (39.913_345_455_360_69, 116.384_047_224_556_57),
            0.05,
        ),
        (
            Gcj02,
            Wgs84,
            (39.913_345_455_360_69, 116.384_047_224_556_57),
            (39.911_954, 116.377_817),
            0.05,
        ),
    ] {
        let found = convert(from, to, here.0, here.1);
        let off = metres(found, there);
        assert!(
            off < metres_max,
            "{from:?} to {to:?}: {found:?} is {off} m off"
        );
    }
}

#[test]
fn outside_china_and_within_a_system_not_a_bit_changes() {
    for (latitude, longitude) in [
        (45.273_518_851_0, 13.714_209_962_6),
        (-33.9, 18.4),
        (0.5, 100.0),
        (60.0, 100.0),
        (40.0, 72.0),
        (40.0, 137.9),
        (0.0, 0.0),
        (90.0, 180.0),
    ] {
        for from in ALL {
            for to in ALL {
                assert_eq!(
                    convert(from, to, latitude, longitude),
                    (latitude, longitude)
                );
            }
        }
    }
    for system in ALL {
        assert_eq!(convert(system, system, 39.9, 116.4), (39.9, 116.4));
    }
}

#[test]
fn names_and_numbers() {
    for system in ALL {
        assert_eq!(System::from_name(system.name()), Some(system));
        assert_eq!(System::from_number(system.number()), Some(system));
        assert_eq!(serde_json::to_value(system).unwrap(), system.name());
    }
    for (name, system) in [
        ("gcj-02", System::Gcj02),
        ("bd09ll", System::Bd09),
        ("WGS 84", System::Wgs84),
        ("EPSG:4326", System::Wgs84),
        ("CGCS2000", System::Wgs84),
    ] {
        assert_eq!(System::from_name(name), Some(system), "{name}");
    }
    for name in ["", "GPS", "BD09MC", "火星坐标", &"WGS84".repeat(100)] {
        assert_eq!(System::from_name(name), None, "{name}");
    }
    assert_eq!(System::from_number(3), None);
}

proptest! {
    /// Away from the edge of the rectangle, where the shift itself could lead out of it.
    #[test]
    fn there_and_back_is_the_same_place(latitude in 1.0..55.0_f64, longitude in 73.0..137.0_f64) {
        for from in ALL {
            for to in ALL {
                let there = convert(from, to, latitude, longitude);
                let back = convert(to, from, there.0, there.1);
                let off = metres(back, (latitude, longitude));
                prop_assert!(off < 0.001, "{from:?} {to:?} {off}");
                if from != to {
                    let shift = metres(there, (latitude, longitude));
                    prop_assert!((1.0..3000.0).contains(&shift), "{from:?} {to:?} {shift}");
                }
            }
        }
    }

    #[test]
    fn a_conversion_gives_degrees_of_the_earth(latitude in -90.0..=90.0_f64, longitude in -180.0..=180.0_f64) {
        for from in ALL {
            for to in ALL {
                let (latitude, longitude) = convert(from, to, latitude, longitude);
                prop_assert!(latitude.abs() <= 90.0 && longitude.abs() <= 180.0);
            }
        }
    }
}
