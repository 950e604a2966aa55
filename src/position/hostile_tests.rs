//! Input of strangers: whatever the bytes are, reading them ends soon, within the bounds, and says nothing that contradicts itself.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::extraction::tests::{RECEIVED_MS, extract_with};
use super::*;

/// Generous for a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(30);

fn shipped() -> Rules {
    Rules::load(SHIPPED, None, Settings::default()).unwrap()
}

/// What holds for every extraction.
fn hold(extraction: &Extraction) {
    assert!(extraction.reports.len() <= POINTS_MAX && extraction.faults.len() <= FAULTS_MAX);
    let mut last = None;
    for report in &extraction.reports {
        assert!(last < Some(report.index), "{report:?}");
        last = Some(report.index);
        assert!(report.latitude.abs() <= 90.0 && report.longitude.abs() <= 180.0);
        assert_eq!(
            report.flags.contains(Flags::NO_TIME),
            report.device_ms.is_none()
        );
        if report.latitude.abs() < 0.001 && report.longitude.abs() < 0.001 {
            assert!(report.flags.contains(Flags::NO_FIX));
        }
        let may = report.flags.moves_latest();
        assert_eq!(report.is_newer(None), may);
        assert!(!(report.is_newer(Some(RECEIVED_MS)) && report.is_late(Some(RECEIVED_MS))));
        let plausible = RECEIVED_MS - 7 * 86_400_000..=RECEIVED_MS + 300_000;
        if may {
            assert!(plausible.contains(&report.device_ms.unwrap()));
        }
        assert!(plausible.contains(&report.at_ms()), "{report:?}");
        assert!(
            report
                .speed_mps
                .is_none_or(|speed| (0.0..=1000.0).contains(&speed))
        );
        assert!(
            report
                .course_deg
                .is_none_or(|course| (0.0..=360.0).contains(&course))
        );
    }
}

#[test]
fn a_message_of_a_hundred_thousand_points_gives_so_many_and_a_fault() {
    let point = r#"{"params":{"lat":1,"lon":2}}"#;
    let message = |count| {
        let points = vec![point; count].join(",");
        format!(r#"{{"method":"packReport","properties":[{points}]}}"#)
    };
    let rules = shipped();
    let extraction = extract_with(&rules, &message(100_000));
    hold(&extraction);
    assert_eq!(extraction.reports.len(), POINTS_MAX);
    assert_eq!(extraction.faults.len(), 1);
    assert_eq!(extraction.faults[0].reason, crate::event::reason::TOO_MANY);
    assert_eq!(extract_with(&rules, &message(POINTS_MAX)).faults, []);
    // The first one too many may be none itself.
    let sparse = message(20_000).replacen(point, "{}", POINTS_MAX + 1);
    let extraction = extract_with(&rules, &sparse);
    assert_eq!((extraction.reports.len(), extraction.faults.len()), (0, 1));
    // Bad ones are counted, and told up to a bound.
    let bad = message(5000).replace("\"lat\":1", "\"lat\":91");
    let extraction = extract_with(&rules, &bad);
    assert_eq!(
        (extraction.reports.len(), extraction.faults.len()),
        (0, FAULTS_MAX)
    );
    assert!(
        extraction.faults[FAULTS_MAX - 1]
            .rule
            .ends_with("; and 4992 more faults")
    );
    // Texts of many fixes have the same bound.
    let rmc = r"$GPRMC,1,A,4807.038,N,01131.000,E,,,,,\n".repeat(256);
    let text = format!(r#"{{"params":{{"n":"{rmc}"}}}}"#);
    let texts = vec![&*text; 50].join(",");
    let extraction = extract_with(
        &rules,
        &format!(r#"{{"method":"packReport","properties":[{texts}]}}"#),
    );
    hold(&extraction);
    assert_eq!(extraction.reports.len(), POINTS_MAX);
    assert_eq!(extraction.faults[0].reason, crate::event::reason::TOO_MANY);
}

/// Some megabytes of what could be looked through again and again. What is quadratic takes minutes.
#[test]
fn big_messages_end_soon() {
    let rules = shipped();
    let wide: String = (0..100_000)
        .map(|at| format!(r#""m{at}":{{"lat":{at}}},"#))
        .collect();
    let sentence = r"$GPGGA,1,4807.038,N,01131.000,E,1,1,1,1,M,,*00\r";
    let entry = r#"{"params":{"a":{"b":{"lat":[[]]}}}}"#;
    let begun = Instant::now();
    for message in [
        format!(r#"{{"method":"report","params":{{{wide}"last":0}}}}"#),
        format!(
            r#"{{"method":"report","params":{{"n":"{}"}}}}"#,
            sentence.repeat(40_000)
        ),
        format!(
            r#"{{"method":"report","params":{{"lat":"{}"}}}}"#,
            r"\u0061".repeat(300_000)
        ),
        format!(
            r#"{{"method":"report","params":{{"lat":[{}0]}}}}"#,
            "0,".repeat(1_000_000)
        ),
        format!(
            r#"{{"method":"packReport","properties":[{}]}}"#,
            vec![entry; 60_000].join(",")
        ),
        format!(
            r#"{{"method":"packReport","subDevices":[{}]}}"#,
            vec![r#"{"productID":"S","deviceName":"lat","properties":[]}"#; 40_000].join(",")
        ),
    ] {
        hold(&extract_with(&rules, &message));
    }
    let took = begun.elapsed();
    assert!(took < TIME_MAX, "{took:?}");
}

#[test]
fn nesting_long_names_and_long_numbers_are_survived() {
    let rules = shipped();
    for payload in [
        format!(
            r#"{{"method":"report","params":{{"lat":{}1{},"lon":1}}}}"#,
            "[".repeat(60),
            "]".repeat(60)
        ),
        format!(
            r#"{{"method":"report","params":{{"lat":{}1{},"lon":1}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        ),
        format!(
            r#"{{"method":"report","params":{{"lat":1{},"lon":1}}}}"#,
            "0".repeat(100_000)
        ),
        format!(
            r#"{{"method":"report","params":{{"lat":"1{}","lon":1}}}}"#,
            "0".repeat(100_000)
        ),
        format!(
            r#"{{"method":"report","params":{{"{}":{{"lat":99,"lon":1}}}}}}"#,
            "é/~".repeat(10_000)
        ),
        r#"{"method":"report","params":{"lat":1,"lon":2,"time":9999999999999999999999999999}}"#
            .to_owned(),
        r#"{"method":"report","params":{"lat":5e-324,"lon":-5e-324}}"#.to_owned(),
        "\"lat\"\0".to_owned(),
    ] {
        hold(&extract_with(&rules, &payload));
    }
}

/// Values that stand where positions, times and other things are.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("{}".to_owned()),
        Just("[1,2,3]".to_owned()),
        Just(r#""""#.to_owned()),
        Just(r#""NaN""#.to_owned()),
        Just(r#""$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,010825,,""#.to_owned()),
        (-100.0..100.0_f64).prop_map(|number| number.to_string()),
        (-0.002..0.002_f64).prop_map(|number| number.to_string()),
        any::<f64>().prop_filter_map("no JSON", |number| number
            .is_finite()
            .then(|| format!("{number:e}"))),
        any::<u64>().prop_map(|number| number.to_string()),
        (1_753_000_000..1_755_000_000_u64).prop_map(|number| number.to_string()),
        (-200.0..200.0_f64).prop_map(|number| format!("\"{number}\"")),
        ".{0,12}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

fn members() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec![
        "lat",
        "latitude",
        "lon",
        "lng",
        "longtitude",
        "altitude",
        "gps_speed",
        "satellites",
        "fix",
        "time",
        "ts",
        "type",
        "coordinates",
        "coordinateSystem",
        "GPS_Info",
        "x",
    ]);
    prop::collection::btree_map(names, value(), 0..8).prop_map(|members| {
        let members = members
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

fn params() -> impl Strategy<Value = String> {
    (members(), members(), any::<bool>()).prop_map(|(outer, inner, nested)| match nested {
        true => format!(r#"{{"position":{inner},"outer":{outer}}}"#),
        false => outer,
    })
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let device = crate::device::DeviceId::new("P", "D").unwrap();
        let source = Source { device: &device, type_: "property", handle: "thing", received_ms: RECEIVED_MS };
        hold(&extract(&bytes.into(), &source, &shipped(), &|_| true));
    }

    #[test]
    fn any_report(params in params(), timestamp in value()) {
        let rules = shipped();
        let message = format!(r#"{{"method":"report","timestamp":{timestamp},"params":{params}}}"#);
        let extraction = extract_with(&rules, &message);
        hold(&extraction);
        prop_assert_eq!(extract_with(&rules, &message), extraction, "the same each time");
    }

    #[test]
    fn any_batch(entries in prop::collection::vec((params(), value()), 0..6)) {
        let entries: Vec<_> = entries.iter().map(|(params, timestamp)| format!(r#"{{"timestamp":{timestamp},"params":{params}}}"#)).collect();
        hold(&extract_with(&shipped(), &format!(r#"{{"method":"packReport","properties":[{}]}}"#, entries.join(","))));
    }

    #[test]
    fn any_sentence(body in "(GP|GN)(GGA|RMC)(,[0-9NSEWAV.]{0,10}){0,14}") {
        let params = format!(r#"{{"method":"report","params":{{"s":"${body}"}}}}"#);
        hold(&extract_with(&shipped(), &params));
    }

    #[test]
    fn every_digit_of_a_coordinate_is_kept(latitude in -90.0..=90.0_f64, longitude in -180.0..=180.0_f64) {
        let message = format!(r#"{{"method":"report","params":{{"lat":{latitude},"lng":"{longitude}"}}}}"#);
        let report = extract_with(&shipped(), &message).reports.remove(0);
        prop_assert_eq!(report.latitude.to_bits(), latitude.to_bits());
        prop_assert_eq!(report.longitude.to_bits(), longitude.to_bits());
    }
}
