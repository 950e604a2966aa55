//! Values against definitions.

use super::*;

fn number(
    kind: Kind,
    min: Option<f64>,
    max: Option<f64>,
    start: f64,
    step: Option<f64>,
) -> Definition {
    Definition::Number(Number {
        kind,
        min,
        max,
        start,
        step,
        unit: String::new(),
    })
}

/// The reason and path of the fault.
fn check(definition: &Definition, value: &str) -> Result<(), (&'static str, String)> {
    let raw = RawValue::from_string(value.to_owned()).unwrap();
    let mut path = "/p".to_owned();
    let checked = definition.check(&raw, &mut path);
    checked.map_err(|fault| (fault.reason, fault.path))
}

#[test]
fn a_value_fits_or_says_which_rule_it_breaks() {
    let bool = Definition::Bool;
    let int = number(Kind::Int, Some(-5.0), Some(5.0), 0.0, None);
    let tenth = number(Kind::Float, None, None, 0.0, Some(0.1));
    let odd = number(Kind::Int, None, None, 1.0, Some(2.0));
    let time = number(Kind::Timestamp, None, None, 0.0, None);
    let text = Definition::Text(Some(2));
    let one_of = Definition::Enum(vec!["0".into(), "on".into()]);
    for (definition, good, bad) in [
        (
            &bool,
            vec!["true", "false", "0", "1"],
            vec![("2", "type"), ("\"1\"", "type"), ("null", "type")],
        ),
        (
            &int,
            vec!["-5", "5", "5.0", "1e0"],
            vec![
                ("6", "range"),
                ("-6", "range"),
                ("1.5", "type"),
                ("\"1\"", "type"),
                ("true", "type"),
                ("[]", "type"),
            ],
        ),
        (
            &tenth,
            vec!["0.3", "21.7", "-1000000.1", "123456789012345678"],
            vec![("0.35", "step"), ("21.70001", "step"), ("{}", "type")],
        ),
        (&odd, vec!["1", "-3"], vec![("2", "step")]),
        (
            &time,
            vec!["0", "1754000000123"],
            vec![("-1", "range"), ("1.5", "type")],
        ),
        (
            &text,
            vec!["\"\"", "\"éé\"", r#""\u00e9\n""#],
            vec![
                ("\"abc\"", "length"),
                ("1", "type"),
                (r#""\u00e9\n1""#, "length"),
            ],
        ),
        (
            &one_of,
            vec!["0", "\"0\"", "\"on\""],
            vec![("1", "enum"), ("\"off\"", "enum"), ("true", "type")],
        ),
    ] {
        for value in good {
            assert_eq!(check(definition, value), Ok(()), "{value}");
        }
        for (value, reason) in bad {
            assert_eq!(
                check(definition, value),
                Err((reason, "/p".to_owned())),
                "{value}"
            );
        }
    }
}

#[test]
fn what_is_inside_is_checked_and_named() {
    let int = number(Kind::Int, Some(0.0), None, 0.0, None);
    let array = Definition::Array {
        max: Some(3),
        of: Box::new(int.clone()),
    };
    let object = Definition::Struct([("a".to_owned(), int), ("l".to_owned(), array)].into());
    assert_eq!(check(&object, r#"{"a":1,"l":[1,2],"other":"x"}"#), Ok(()));
    for (value, reason, path) in [
        (r#"{"l":[],"a":-1}"#, "range", "/p/a"),
        (r#"{"l":[0,-1]}"#, "range", "/p/l/1"),
        (r#"{"l":[0,0,0,0]}"#, "length", "/p/l"),
        (r#"{"l":0}"#, "type", "/p/l"),
        ("[]", "type", "/p"),
        ("null", "type", "/p"),
    ] {
        assert_eq!(
            check(&object, value),
            Err((reason, path.to_owned())),
            "{value}"
        );
    }
}

#[test]
fn the_rule_says_what_was_found_and_expected() {
    let float = Definition::Number(Number {
        kind: Kind::Float,
        min: Some(-40.0),
        max: Some(85.0),
        start: 0.0,
        step: Some(0.5),
        unit: "℃".to_owned(),
    });
    let raw = RawValue::from_string(format!("\"{}\"", "é".repeat(100))).unwrap();
    let fault = float.check(&raw, &mut String::new()).unwrap_err();
    let expected = "expected a float from -40 to 85 ℃ in steps of 0.5";
    assert_eq!(
        fault.rule,
        format!("found \"{}, {expected}", "é".repeat(23))
    );
}
