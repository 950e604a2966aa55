//! Documents of strangers: what is wrong is found, named with its place, and costs no more than its length.

use proptest::prelude::*;

use super::*;

fn fault(document: impl AsRef<[u8]>) -> (&'static str, String) {
    let fault = check(document.as_ref(), DEPTH_MAX).unwrap_err();
    (fault.reason, fault.path)
}

#[test]
fn what_is_json_passes_as_it_is() {
    for document in [
        r#"{"a":[1,-2.5e3,"x",true,null,{}],"b":{"a":"\u00e9\n"}}"#,
        " [ ] ",
        "18446744073709551616",
        r#"{"":{"":1},"~/":2}"#,
        r#""1111111111111111111111111111111111111111111111111111111111111111111111\\\"22222222222""#,
    ] {
        assert_eq!(check(document.as_bytes(), DEPTH_MAX), Ok(document));
    }
}

#[test]
fn a_fault_names_its_place() {
    let long = "1".repeat(NUMBER_BYTES_MAX + 1);
    for (document, reason, path) in [
        ("".to_owned(), "malformed", ""),
        (r#"{"a":{"b":NaN}}"#.to_owned(), "malformed", "/a/b"),
        (r#"{"a":[1,Infinity]}"#.to_owned(), "malformed", "/a/1"),
        (r#"{"a":[1,2"#.to_owned(), "malformed", "/a/2"),
        (r#"{"a":1e999}"#.to_owned(), "malformed", "/a"),
        (r#"{"a":"\ud800"}"#.to_owned(), "malformed", "/a"),
        (r#"{"a":1} {}"#.to_owned(), "malformed", ""),
        (
            r#"{"a":[{"b":1,"\u0062":2}]}"#.to_owned(),
            "duplicate_key",
            "/a/0/b",
        ),
        (format!(r#"{{"a/~":[0,{long}]}}"#), "number", "/a~1~0/1"),
        (format!(r#"{{"a":{long}}}"#), "number", "/a"),
        (long.repeat(100), "number", ""),
        ("\u{FEFF}{}".to_owned(), "encoding", ""),
    ] {
        assert_eq!(fault(&document), (reason, path.to_owned()), "{document}");
    }
    assert_eq!(
        fault(b"{\"a\":[\"x\xFF\"]}"),
        ("encoding", "/a/0".to_owned())
    );
    assert_eq!(fault(b"\xC3"), ("encoding", String::new()));
}

#[test]
fn nesting_ends_at_its_limit() {
    let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
    assert!(check(nested(DEPTH_MAX).as_bytes(), DEPTH_MAX).is_ok());
    let (reason, path) = fault(nested(DEPTH_MAX + 1));
    assert_eq!((reason, path), ("depth", "/0".repeat(DEPTH_MAX)));
    assert_eq!(fault("[".repeat(1_000_000)).0, "depth");
    assert_eq!(fault(r#"{"a":"#.repeat(200_000)).0, "depth");
}

#[test]
fn a_path_is_cut() {
    let name = "é".repeat(1_000);
    let (reason, path) = fault(format!(r#"{{"{name}":NaN}}"#));
    assert_eq!(reason, "malformed");
    assert!(path.len() <= crate::event::PATH_BYTES_MAX && path.starts_with("/éé"));
}

#[test]
fn an_object_of_many_names_has_none_twice() {
    let members = |count| {
        (0..count)
            .map(|at| format!(r#""{at}":0,"#))
            .collect::<String>()
    };
    assert!(
        check(
            format!(r#"{{{}"x":0}}"#, members(10_000)).as_bytes(),
            DEPTH_MAX
        )
        .is_ok()
    );
    for again in [3, 9_999] {
        let document = format!(r#"{{{}"{again}":0}}"#, members(10_000));
        assert_eq!(fault(document), ("duplicate_key", format!("/{again}")));
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::btree_map(".*", inner, 0..8)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_writes_passes_and_what_passes_serde_reads(value in any_json(), cut in any::<usize>()) {
        let document = value.to_string();
        prop_assert_eq!(check(document.as_bytes(), DEPTH_MAX), Ok(&*document));
        let part = document.as_bytes().get(..cut % (document.len() + 1)).unwrap();
        let read = serde_json::from_slice::<serde_json::Value>(part);
        prop_assert_eq!(check(part, DEPTH_MAX).is_ok(), read.is_ok());
    }

    #[test]
    fn no_bytes_make_it_panic(document in prop::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(text) = check(&document, DEPTH_MAX) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
        }
    }
}
