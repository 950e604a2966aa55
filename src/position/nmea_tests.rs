//! GGA and RMC: together and alone, checksums, no fix, dates, and what is wrong in one.

use super::*;
use crate::position::convert::System;

/// 2002-03-19T12:35:19Z, the moment of the usual example.
const REFERENCE_MS: u64 = 1_016_541_319_000;
const RMC: &str = "$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,190302,003.1,W*6C";
const GGA: &str = "$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47";

fn found(text: &str) -> Vec<Result<Draft, Fault>> {
    match read(text, &|| "/params/n".to_owned(), REFERENCE_MS) {
        Found::Certain(all) => all,
        Found::Nothing => Vec::new(),
        Found::Doubtful(_) => panic!("{text}"),
    }
}

fn one(text: &str) -> Draft {
    let mut all = found(text);
    assert_eq!(all.len(), 1, "{text} {all:?}");
    all.remove(0).unwrap()
}

fn sum(body: &str) -> String {
    let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
    format!("${body}*{sum:02X}")
}

#[test]
fn sentences_of_one_time_are_one_fix() {
    for text in [
        format!("{RMC}\r\n{GGA}\r\n"),
        format!("{GGA}\n{RMC}"),
        format!("{GGA}{RMC}"),
        format!("noise\n$GPGSV,1,1,00*79\n{GGA}\n$GPGSA,A,3,,,,,,,,,,,,,2.5,1.3,2.1*30\n{RMC}\n"),
    ] {
        let draft = one(&text);
        assert_eq!(draft.latitude, 48.0 + 7.038 / 60.0);
        assert_eq!(draft.longitude, 11.0 + 31.0 / 60.0);
        assert_eq!(draft.altitude_m, Some(545.4));
        assert_eq!(draft.speed_mps, Some(22.4 * 1852.0 / 3600.0));
        assert_eq!(draft.course_deg, Some(84.4));
        assert_eq!(draft.satellites, Some(8));
        assert_eq!(draft.hdop, Some(0.9));
        assert_eq!(draft.device_ms, Some(REFERENCE_MS));
        assert_eq!(draft.flags, Flags::NONE);
        assert_eq!(draft.system, System::Wgs84);
    }
}

#[test]
fn sentences_of_other_times_are_other_fixes() {
    let later = RMC.replace("123519", "123520");
    let later = sum(&later[1..later.len() - 3]);
    let fixes = found(&format!("{RMC}\n{GGA}\n{later}"));
    let times: Vec<_> = fixes
        .iter()
        .map(|fix| fix.as_ref().unwrap().device_ms)
        .collect();
    assert_eq!(times, [Some(REFERENCE_MS), Some(REFERENCE_MS + 1000)]);
    assert_eq!(found(&format!("{RMC}\n{RMC}")).len(), 2, "said twice");
}

#[test]
fn a_checksum_that_is_there_must_hold() {
    assert_eq!(
        one("GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,190302,,").flags,
        Flags::NONE
    );
    assert_eq!(one(&GGA.replace("*47", "")).satellites, Some(8));
    for broken in ["*46", "*4", "*", "*XX", "*147", "*4 7", "*+4"] {
        let mut all = found(&GGA.replace("*47", broken));
        let fault = all.remove(0).unwrap_err();
        assert_eq!(
            (fault.reason, &*fault.path),
            (reason::CHECKSUM, "/params/n")
        );
        assert!(all.is_empty());
    }
    // A broken sentence costs itself.
    let all = found(&format!("{RMC}\n{}", GGA.replace("08", "09")));
    assert!(
        all.len() == 2 && all[0].is_ok() && all[1].is_err(),
        "{all:?}"
    );
}

#[test]
fn g35_what_says_that_there_is_no_fix() {
    for sentence in [
        "GPRMC,123519,V,4807.038,N,01131.000,E,022.4,084.4,190302,,",
        "GPRMC,123519,V,,,,,,,190302,,",
        "GPRMC,,V,,,,,,,,,,N",
        "GNRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,190302,,,N",
        "GPGGA,123519,,,,,0,00,99.99,,M,,M,,",
        "GPGGA,123519,4807.038,N,01131.000,E,0,08,0.9,545.4,M,46.9,M,,",
        "GPGGA,123519,4807.038,N,,,0,08,0.9,545.4,M,46.9,M,,",
        "GPGGA,123519,,,,,1,08,0.9,545.4,M,46.9,M,,",
    ] {
        assert_eq!(one(&sum(sentence)).flags, Flags::NO_FIX, "{sentence}");
    }
    // One of two sentences is enough.
    assert!(
        one(&format!("{}\n{GGA}", sum("GPRMC,123519,V,,,,,,,190302,,")))
            .flags
            .contains(Flags::NO_FIX)
    );
}

#[test]
fn hemispheres_and_other_writings() {
    for (fields, latitude, longitude) in [
        (
            "4807.038,S,01131.000,W",
            -(48.0 + 7.038 / 60.0),
            -(11.0 + 31.0 / 60.0),
        ),
        ("0000.000,N,00000.000,E", 0.0, 0.0),
        ("9000.000,N,18000.000,W", 90.0, -180.0),
        ("4807,N,1131.5,E", 48.0 + 7.0 / 60.0, 11.0 + 31.5 / 60.0),
        (
            "4807.03812345678,N,01131.000,E",
            48.0 + 7.038_123_456_78 / 60.0,
            11.0 + 31.0 / 60.0,
        ),
    ] {
        let draft = one(&sum(&format!(
            "GNGGA,123519.00,{fields},4,12,0.6,1.5,M,,M,,"
        )));
        assert_eq!(
            (draft.latitude, draft.longitude),
            (latitude, longitude),
            "{fields}"
        );
    }
}

#[test]
fn what_cannot_be_a_position_is_a_fault() {
    for (fields, expected) in [
        ("9000.001,N,01131.000,E", reason::RANGE),
        ("4807.038,N,18000.001,E", reason::RANGE),
        ("4860.000,N,01131.000,E", reason::TYPE),
        ("4807.038,E,01131.000,E", reason::TYPE),
        ("4807.038,,01131.000,E", reason::TYPE),
        ("48x7.038,N,01131.000,E", reason::TYPE),
        ("7,N,01131.000,E", reason::TYPE),
        ("-4807.038,N,01131.000,E", reason::TYPE),
        ("4807.0e1,N,01131.000,E", reason::TYPE),
        ("4807.038,N,,", reason::MISSING),
        ("é4807.038,N,01131.000,E", reason::TYPE),
        ("4807.038,N,00001131.000,E", reason::TYPE),
    ] {
        let mut all = found(&sum(&format!(
            "GPGGA,123519,{fields},1,08,0.9,545.4,M,46.9,M,,"
        )));
        let fault = all.remove(0).unwrap_err();
        assert_eq!(fault.reason, expected, "{fields} {fault}");
        assert!(fault.rule.contains("GPGGA"), "{fault}");
    }
}

#[test]
fn a_fix_without_a_date_is_on_the_nearest_day() {
    const NOON: u64 = REFERENCE_MS - REFERENCE_MS % DAY_MS + DAY_MS / 2;
    let gga = |time: &str| {
        sum(&format!(
            "GPGGA,{time},4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,"
        ))
    };
    let at = |time: &str, reference_ms: u64| {
        let Found::Certain(all) = read(&gga(time), &String::new, reference_ms) else {
            panic!("{time}");
        };
        all[0].as_ref().unwrap().device_ms
    };
    assert_eq!(at("120000", NOON), Some(NOON));
    assert_eq!(
        at("235959.123", NOON - DAY_MS / 2),
        Some(NOON - DAY_MS / 2 - 877)
    );
    assert_eq!(
        at("000001", NOON + DAY_MS / 2 - 1000),
        Some(NOON + DAY_MS / 2 + 1000)
    );
    for reference_ms in [0, u64::MAX] {
        assert!(at("120000", reference_ms).is_some());
    }
    // Another sentence's date counts before the time of the message.
    let text = format!("{RMC}\n{}", gga("123600"));
    assert_eq!(
        found(&text)[1].as_ref().unwrap().device_ms,
        Some(REFERENCE_MS + 41_000)
    );
    for bad in [
        "",
        "1200",
        "250000",
        "126000",
        "120061",
        "12000x",
        "120000.x",
        "１２００００",
    ] {
        assert_eq!(at(bad, NOON), None, "{bad}");
    }
}

#[test]
fn two_digits_of_a_year_are_1980_to_2079() {
    for (date, expected) in [
        ("060180", Some(315_964_800_000)),
        ("311299", Some(946_598_400_000)),
        ("010100", Some(946_684_800_000)),
        ("311279", Some(3_471_206_400_000)),
        ("290224", Some(1_709_164_800_000)),
        ("290223", None),
        ("001224", None),
        ("011324", None),
        ("", None),
    ] {
        assert_eq!(day_ms(date), expected, "{date}");
    }
}

#[test]
fn optional_numbers_that_cannot_be_are_left_out() {
    let draft = one(&sum(
        "GPRMC,123519,A,4807.038,N,01131.000,E,fast,400,190302,,",
    ));
    assert_eq!((draft.speed_mps, draft.course_deg), (None, None));
    assert_eq!(draft.flags, Flags::RANGE_OF_OPTIONAL);
}

#[test]
fn what_is_none_of_it_is_passed_over() {
    for text in [
        "",
        "GGA,",
        "hello GGA, RMC,",
        "$GPGGAX,1",
        "$PGRMC,123",
        "$日本GGA,1,2",
        "\u{feff}",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
    let many = format!("{RMC}\n").repeat(300);
    let all = found(&many);
    assert_eq!(all.len(), FIXES_MAX + 1);
    assert_eq!(
        all[FIXES_MAX].as_ref().unwrap_err().reason,
        reason::TOO_MANY
    );
}
