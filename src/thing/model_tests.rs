//! Documents of products, as the platform writes them.

use super::*;

fn property(schema: &Schema, id: &str) -> String {
    format!("{:?}", schema.property(id))
}

#[test]
fn a_definition_stands_inline_or_under_its_name_with_numbers_or_texts() {
    let model = Model::parse(
        r#"{"schema":{"properties":[
        {"id":"a","name":"x","mode":"rw","type":"float","min":-40,"max":85.5,"step":0.1,"unit":"℃"},
        {"identifier":"b","define":{"type":"float","min":"-40","max":"85.5","start":"","step":"0.1","unit":"℃"}},
        {"id":"s","type":"struct","specs":[{"identifier":"n","name":"x","dataType":{"type":"string","max":"16"}}]},
        {"id":"l","type":"array","max":"2","arrayInfo":{"type":"enum","mapping":{"0":"off","1":"on"}}},
        {"id":"t","type":"string","maxLen":7,"min":null},
        {"id":"any","type":"array"}
        ],"events":null}}"#
            .as_bytes(),
    )
    .unwrap();
    let schema = model.schema().unwrap();
    assert_eq!(property(schema, "a"), property(schema, "b"));
    assert!(property(schema, "a").contains("max: Some(85.5)"));
    assert_eq!(
        property(schema, "s"),
        r#"Some(Struct({"n": Text(Some(16))}))"#
    );
    assert_eq!(
        property(schema, "l"),
        r#"Some(Array { max: Some(2), of: Enum(["0", "1"]) })"#
    );
    assert_eq!(property(schema, "t"), "Some(Text(Some(7)))");
    assert_eq!(property(schema, "l.1"), r#"Some(Enum(["0", "1"]))"#);
    assert_eq!(property(schema, "any.7"), "Some(Any)");
    for none in ["l.2", "l.x", "l.", "a.0", "other", "other.0"] {
        assert_eq!(property(schema, none), "None", "{none}");
    }
}

#[test]
fn nothing_is_checked_or_answered_without_a_word() {
    let model = Model::parse(b"{}").unwrap();
    assert_eq!(model, Model::default());
    assert!(model.schema().is_none() && !model.answers("property"));
    let model = Model::parse(br#"{"reply":["event"]}"#).unwrap();
    assert!(model.answers("event") && !model.answers("property"));
}

#[test]
fn a_fault_of_a_document_names_its_place() {
    let schema = |inner: &str| format!(r#"{{"schema":{{{inner}}}}}"#);
    for (document, reason, path) in [
        ("[]".to_owned(), "shape", ""),
        (r#"{"reply":7}"#.to_owned(), "shape", ""),
        (r#"{"reply":["ntp","all"]}"#.to_owned(), "enum", "/reply/1"),
        (
            schema(r#""properties":[{"id":"a","type":"float"},{"id":"b","type":"double"}]"#),
            "enum",
            "/schema/properties/1/type",
        ),
        (
            schema(r#""properties":[{"id":"a"}]"#),
            "enum",
            "/schema/properties/0/type",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"bool"},{"id":"a","type":"bool"}]"#),
            "duplicate_key",
            "/schema/properties/1/id",
        ),
        (
            schema(r#""properties":[{"id":"","type":"bool"}]"#),
            "identifier",
            "/schema/properties/0/id",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"int","min":2,"max":"1"}]"#),
            "range",
            "/schema/properties/0/min",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"int","min":"low"}]"#),
            "shape",
            "/schema/properties/0/min",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"string","max":1.5}]"#),
            "shape",
            "/schema/properties/0/max",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"enum","mapping":{}}]"#),
            "shape",
            "/schema/properties/0/mapping",
        ),
        (
            schema(r#""properties":[{"id":"a","type":"array","arrayInfo":{"type":"x"}}]"#),
            "enum",
            "/schema/properties/0/arrayInfo/type",
        ),
        (
            schema(r#""events":[{"id":"a","type":"odd"}]"#),
            "enum",
            "/schema/events/0/type",
        ),
        (
            schema(r#""actions":[{"id":"a","output":[{"id":"x","type":"y"}]}]"#),
            "enum",
            "/schema/actions/0/output/0/type",
        ),
    ] {
        let fault = Model::parse(document.as_bytes()).unwrap_err();
        assert_eq!(
            (fault.reason, &*fault.path),
            (reason, path),
            "{document}: {fault}"
        );
    }
}
