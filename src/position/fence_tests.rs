//! Circles and polygons: in and out, the antimeridian, the poles, hysteresis, and configurations that cannot be.

use proptest::prelude::*;

use super::*;

fn point(latitude: f64, longitude: f64) -> Point {
    Point {
        latitude,
        longitude,
    }
}

fn fences(toml: &str) -> Result<Fences, Vec<String>> {
    #[derive(Deserialize)]
    struct File {
        fence: Vec<FenceConfig>,
    }
    let file: File = toml::from_str(toml).unwrap();
    Fences::new(&file.fence)
}

fn polygon(corners: &str) -> Fences {
    fences(&format!("[[fence]]\nname = \"f\"\npolygon = {corners}")).unwrap()
}

fn is_in(fences: &Fences, latitude: f64, longitude: f64) -> bool {
    let around = fences.around("P", point(latitude, longitude), &BTreeSet::new());
    around.contains("f")
}

#[test]
fn a_circle_has_what_is_near_its_centre() {
    let fences = fences(
        "[[fence]]\nname = \"f\"\ncircle = { latitude = 0.0, longitude = 179.9999, radius_m = 100 }",
    );
    let fences = fences.unwrap();
    assert!(is_in(&fences, 0.0, 179.9999));
    assert!(is_in(&fences, 0.0, -179.9998), "across the antimeridian");
    assert!(!is_in(&fences, 0.0, 179.998));
    assert!(!is_in(&fences, 0.001, 179.9999));
}

#[test]
fn a_polygon_may_have_bays() {
    // A U: the bay between its arms is outside.
    let fences = polygon("[[0, 0], [0, 3], [3, 3], [3, 2], [1, 2], [1, 1], [3, 1], [3, 0]]");
    for (latitude, longitude, inside) in [
        (0.5, 1.5, true),
        (2.0, 0.5, true),
        (2.0, 2.5, true),
        (2.0, 1.5, false),
        (2.0, -0.5, false),
        (2.0, 3.5, false),
        (4.0, 0.5, false),
        (-1.0, 0.5, false),
    ] {
        assert_eq!(
            is_in(&fences, latitude, longitude),
            inside,
            "{latitude} {longitude}"
        );
    }
}

#[test]
fn a_polygon_may_cross_the_antimeridian() {
    for corners in [
        "[[-20, 175], [-20, -175], [-10, -175], [-10, 175]]",
        "[[-10, -175], [-20, -175], [-20, 175], [-10, 175]]",
    ] {
        let fences = polygon(corners);
        for (longitude, inside) in [
            (174.0, false),
            (176.0, true),
            (180.0, true),
            (-180.0, true),
            (-176.0, true),
            (-174.0, false),
            (0.0, false),
        ] {
            assert_eq!(is_in(&fences, -15.0, longitude), inside, "{longitude}");
        }
    }
}

#[test]
fn a_ring_round_a_pole_has_the_nearer_pole_in_it() {
    for sign in [1.0, -1.0] {
        for ring in [[0, 90, 180, -90], [90, 0, -90, 180]] {
            let corners = ring.map(|longitude| format!("[{}, {longitude}]", 60.0 * sign));
            let fences = polygon(&format!("[{}]", corners.join(", ")));
            for longitude in [-180.0, -135.0, -1.0, 0.0, 45.0, 179.0, 180.0] {
                assert!(is_in(&fences, 61.0 * sign, longitude));
                assert!(is_in(&fences, 90.0 * sign, longitude));
                assert!(!is_in(&fences, 59.0 * sign, longitude));
                assert!(!is_in(&fences, -90.0 * sign, longitude));
            }
        }
    }
}

#[test]
fn a_device_is_out_only_beyond_the_hysteresis() {
    let north = |metres: f64| (metres / crate::position::sphere::RADIUS_M).to_degrees();
    let text = format!(
        "[[fence]]\nname = \"c\"\nhysteresis_m = 50\ncircle = {{ latitude = 0, longitude = 0, radius_m = 1000 }}\n\
         [[fence]]\nname = \"p\"\nhysteresis_m = 50\npolygon = [[{0}, -1], [{0}, 1], [-1, 1], [-1, -1]]",
        north(1000.0)
    );
    let fences = fences(&text).unwrap();
    let mut inside = BTreeSet::new();
    for (metres, expected) in [
        (1020.0, 0),
        (1001.0, 0),
        (999.0, 2),
        (1001.0, 2),
        (1049.0, 2),
        (1051.0, 0),
        (1049.0, 0),
        (990.0, 2),
    ] {
        inside = fences.around("P", point(north(metres), 0.0), &inside);
        assert_eq!(inside.len(), expected, "{metres}");
    }
}

#[test]
fn a_fence_is_for_its_products() {
    let text = "[[fence]]\nname = \"f\"\nproducts = [\"A\"]\ncircle = { latitude = 1, longitude = 1, radius_m = 10 }";
    let fences = fences(text).unwrap();
    let none = BTreeSet::new();
    assert_eq!(fences.around("A", point(1.0, 1.0), &none).len(), 1);
    assert_eq!(fences.around("B", point(1.0, 1.0), &none).len(), 0);
    assert!(fences.has("f") && !fences.has("g") && !fences.is_empty());
}

#[test]
fn every_fault_is_told_with_its_fence() {
    let faults = fences(
        r#"
        [[fence]]
        name = ""
        circle = { latitude = 91, longitude = 0, radius_m = 1 }
        [[fence]]
        name = "twice"
        hysteresis_m = -1
        circle = { latitude = 0, longitude = 0, radius_m = 0 }
        [[fence]]
        name = "twice"
        polygon = [[0, 0], [1, 1]]
        [[fence]]
        name = "nan"
        polygon = [[0, 0], [1, 1], [nan, 2]]
        [[fence]]
        name = "both"
        circle = { latitude = 0, longitude = 0, radius_m = 1 }
        polygon = [[0, 0], [1, 1], [0, 2]]
        [[fence]]
        name = "none""#,
    );
    let expected = [
        "fence 1 \"\": name: expected 1 to 128 bytes",
        "fence 1 \"\": circle: expected a latitude of -90 to 90 and a longitude of -180 to 180",
        "fence 2 \"twice\": hysteresis_m: expected 0 to 20020000",
        "fence 2 \"twice\": circle.radius_m: expected more than 0 and at most 20020000",
        "fence 3 \"twice\": name: found twice, expected a name of its own",
        "fence 3 \"twice\": polygon: found 2 corners, expected 3 to 10000",
        "fence 4 \"nan\": polygon: corner 3: expected a latitude of -90 to 90 and a longitude of -180 to 180",
        "fence 5 \"both\": expected either circle or polygon",
        "fence 6 \"none\": expected either circle or polygon",
    ];
    assert_eq!(faults.unwrap_err(), expected);
}

proptest! {
    #[test]
    fn a_point_is_in_or_so_many_metres_outside(
        corners in prop::collection::vec((-90.0..=90.0_f64, -180.0..=180.0_f64), 3..20),
        latitude in -90.0..=90.0_f64,
        longitude in -180.0..=180.0_f64,
    ) {
        let corners: Vec<Point> = corners.into_iter().map(|(a, b)| point(a, b)).collect();
        let polygon = Polygon::new(&corners);
        let here = point(latitude, longitude);
        let metres = polygon.outside_m(here);
        prop_assert!(metres.is_finite() && metres >= 0.0);
        if polygon.contains(here) {
            prop_assert_eq!(metres, 0.0);
        }
        // However the ring is turned round, it is the same.
        let reversed: Vec<Point> = corners.iter().rev().copied().collect();
        prop_assert_eq!(Polygon::new(&reversed).contains(here), polygon.contains(here));
    }

    #[test]
    fn a_small_polygon_is_where_it_is_on_every_meridian(shift in -180.0..180.0_f64, x in -2.0..2.0_f64, y in -2.0..2.0_f64) {
        let wrap = |longitude: f64| if longitude > 180.0 { longitude - 360.0 } else if longitude < -180.0 { longitude + 360.0 } else { longitude };
        let corners = [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)];
        let corners = corners.map(|(y, x)| point(y, wrap(x + shift)));
        prop_assume!((x.abs() - 1.0).abs() > 1e-6 && (y.abs() - 1.0).abs() > 1e-6);
        let inside = x.abs() < 1.0 && y.abs() < 1.0;
        prop_assert_eq!(Polygon::new(&corners).contains(point(y, wrap(x + shift))), inside);
    }
}
