//! The shipped rules, an operator's before them, and every fault of a file at once.

use super::*;

fn load(own: &str) -> Result<Rules, Vec<String>> {
    Rules::load(SHIPPED, Some(("own.toml", own)), Settings::default())
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn latitudes(rules: &Rules, product: &str) -> Vec<String> {
    let names = rules.of(product).map(|rule| match &rule.form {
        Form::Nmea => "nmea".to_owned(),
        Form::Numbers(numbers) => numbers.latitude[0].join("/"),
    });
    names.collect()
}

#[test]
fn the_shipped_rules_are_right_and_for_all_products() {
    let rules = Rules::load(SHIPPED, None, Settings::default()).unwrap();
    let shipped = ["latitude", "coordinates/1", "nmea"];
    assert_eq!(latitudes(&rules, "P"), shipped);
    assert_eq!(latitudes(&rules, "*"), shipped);
}

#[test]
fn an_operators_rules_go_before() {
    let rules = load(
        r#"
        [[position]]
        latitude = "/y"
        longitude = "/x"
        [[position]]
        products = ["A", "B"]
        latitude = "/a"
        longitude = "/b"
        [[position]]
        products = "B"
        at = "/*"
        nmea = true
        [[none]]
        products = ["C"]"#,
    );
    let rules = rules.unwrap();
    assert_eq!(
        latitudes(&rules, "P"),
        ["y", "latitude", "coordinates/1", "nmea"]
    );
    assert_eq!(latitudes(&rules, "A"), ["a"]);
    assert_eq!(latitudes(&rules, "B"), ["a", "nmea"]);
    assert_eq!(latitudes(&rules, "C"), [""; 0]);
}

#[test]
fn the_example_of_the_documentation_is_right() {
    let text = include_str!("../../subjects/README.md");
    let examples = text.split("```toml\n").skip(1);
    let example = examples
        .filter_map(|rest| rest.split("```").next())
        .find(|example| example.contains("[[position]]"));
    let rules = load(example.unwrap()).unwrap();
    assert_eq!(latitudes(&rules, "tracker7"), ["0"]);
    assert_eq!(latitudes(&rules, "meter1"), [""; 0]);
}

#[test]
fn every_fault_of_a_file_is_told_with_line_and_table() {
    let faults = load(
        r#"
[[position]]
latitude = "lat"
longitud = "/lng"

[[position]]
at = ["/a", 3]
latitude = "/*/lat"
longitude = ["/l~2ng"]
system = "GPS"
nmea = "yes"

[[position]]
nmea = true
speed = "/v"
when = "Point"

[[position]]
products = ["", "A"]
latitude = ""
longitude = "/1/2/3/4/5/6/7/8/9"
system = 84
when = { "type" = "x" }

[[none]]
product = "A"

[[rule]]
"#,
    );
    let keys = "products, at, when, nmea, latitude, longitude, altitude, altitude_ft, speed, speed_kmh, speed_knots, \
        speed_mph, course, satellites, hdop, accuracy, time, fix, system, system_at";
    let expected = [
        "own.toml:26: none 1: key `product`: unknown, expected one of products".to_owned(),
        "own.toml:26: none 1: key `products`: expected product ids".to_owned(),
        format!("own.toml:4: position 1: key `longitud`: unknown, expected one of {keys}"),
        "own.toml:3: position 1: key `latitude`: found \"lat\", expected a JSON pointer, empty or beginning with `/`".to_owned(),
        "own.toml:3: position 1: key `longitude`: missing, expected JSON pointers".to_owned(),
        "own.toml:7: position 2: key `at`: expected a text or 1 to 64 texts, each of at most 256 bytes".to_owned(),
        "own.toml:11: position 2: key `nmea`: expected true or false".to_owned(),
        "own.toml:8: position 2: key `latitude`: found \"/*/lat\", expected `*` only in key `at`".to_owned(),
        "own.toml:9: position 2: key `longitude`: found \"/l~2ng\", expected `~` only as `~0` or `~1`".to_owned(),
        "own.toml:10: position 2: key `system`: expected WGS84, GCJ02 or BD09".to_owned(),
        "own.toml:16: position 3: key `when`: found string, expected a table".to_owned(),
        "own.toml:15: position 3: key `speed`: expected none beside `nmea`".to_owned(),
        "own.toml:19: position 4: key `products`: expected product ids or \"*\"".to_owned(),
        "own.toml:23: position 4: key `when`: found \"type\", expected a JSON pointer, empty or beginning with `/`".to_owned(),
        "own.toml:21: position 4: key `longitude`: found \"/1/2/3/4/5/6/7/8/9\", expected at most 8 levels".to_owned(),
        "own.toml:20: position 4: key `latitude`: expected pointers to members".to_owned(),
        "own.toml:22: position 4: key `system`: found integer, expected text".to_owned(),
        "own.toml:28: key `rule`: expected only tables [[position]], [[none]]".to_owned(),
    ];
    assert_eq!(faults.unwrap_err(), expected);
}

#[test]
fn a_file_whose_syntax_is_broken_tells_its_lines() {
    let faults = load("[[position]]\nlatitude = \n").unwrap_err();
    assert!(faults[0].starts_with("own.toml:2: "), "{faults:?}");
}

#[test]
fn a_message_without_any_name_of_a_coordinate_is_seen_at_once() {
    let rules = load("").unwrap();
    for (text, expected) in [
        (r#"{"temperature":21.5,"latency":3,"lateral":1}"#, false),
        (r#"{"lat":1}"#, true),
        (r#"{"lng" : 1}"#, true),
        (r#"{"coordinates":[1,2]}"#, true),
        (r#"{"n":"$GPRMC,1"}"#, true),
        (r#"{"l\u0061t":1}"#, true),
        (r#"{"text":"latitude"}"#, true),
        (r#"{"text":"my latitude"}"#, false),
    ] {
        assert_eq!(rules.may_have(text.as_bytes()), expected, "{text}");
    }
    let odd = load("[[position]]\nlatitude = \"/0\"\nlongitude = '/a\"b'").unwrap();
    assert!(odd.may_have(br#"{"0":1}"#) && odd.may_have(br#"[1\/]"#));
}
