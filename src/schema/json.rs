//! JSON Schema of a protobuf message: the JSON form of protobuf with two differences, names stay as they are and 64-bit
//! integers are numbers.
//!
//! Additional properties are allowed: readers ignore what they do not know.

use std::collections::HashMap;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// The schema of the event that a message is.
pub(super) fn schema(message: &MessageDescriptor, event: &str, version: &str) -> Value {
    let comments = Comments::of(message);
    let mut schema = object(message, &comments);
    if let Some(schema) = schema.as_object_mut() {
        let head = [
            (
                "$schema",
                "https://json-schema.org/draft/2020-12/schema".to_owned(),
            ),
            ("$id", format!("/schemas/{event}/{version}")),
            ("title", event.to_owned()),
        ];
        for (key, value) in head {
            schema.insert(key.to_owned(), value.into());
        }
    }
    for (field, value) in [("event_name", event), ("event_version", version)] {
        if let Some(Value::Object(field)) = schema.pointer_mut(&format!("/properties/{field}")) {
            field.insert("const".to_owned(), value.into());
        }
    }
    schema
}

/// Comments of a file by the path of what they are about.
struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    fn of(message: &MessageDescriptor) -> Self {
        let file = message.parent_file();
        let source = file.file_descriptor_proto().source_code_info.as_ref();
        let locations = source.into_iter().flat_map(|source| &source.location);
        let comments = locations.filter_map(|location| {
            let text = location.leading_comments.as_ref()?;
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            Some((location.path.clone(), lines.join(" ").trim().to_owned()))
        });
        Self(comments.collect())
    }

    fn describe(&self, path: &[i32], schema: &mut Map<String, Value>) {
        if let Some(text) = self.0.get(path) {
            schema.insert("description".to_owned(), text.clone().into());
        }
    }
}

fn object(message: &MessageDescriptor, comments: &Comments) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    comments.describe(message.path(), &mut schema);
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in message.fields() {
        properties.insert(field.name().to_owned(), property(&field, comments));
        if !is_optional(&field) {
            required.push(Value::from(field.name()));
        }
    }
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("required".to_owned(), required.into());
    schema.into()
}

/// Whether events may be without it.
fn is_optional(field: &FieldDescriptor) -> bool {
    field.field_descriptor_proto().proto3_optional()
}

fn property(field: &FieldDescriptor, comments: &Comments) -> Value {
    let mut schema = match field.kind() {
        Kind::Message(message) => {
            known(message.full_name()).unwrap_or_else(|| object(&message, comments))
        }
        kind => scalar(&kind),
    };
    if let Some(schema) = schema.as_object_mut() {
        for (option, keyword) in [("format", "format"), ("pattern", "pattern")] {
            if let Some(text) = text_option(field, option) {
                let text = match option {
                    "pattern" => format!("^{text}$"),
                    _ => text,
                };
                schema.insert(keyword.to_owned(), text.into());
            }
        }
    }
    if field.is_list() {
        schema = json!({ "type": "array", "items": schema });
    }
    if let Some(schema) = schema.as_object_mut() {
        comments.describe(field.path(), schema);
    }
    schema
}

/// Messages that have a JSON form of their own.
fn known(name: &str) -> Option<Value> {
    match name {
        "google.protobuf.Timestamp" => Some(json!({ "type": "string", "format": "date-time" })),
        "google.protobuf.Struct" => Some(json!({ "type": "object" })),
        _ => None,
    }
}

fn scalar(kind: &Kind) -> Value {
    match kind {
        Kind::String => json!({ "type": "string" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => {
            json!({ "type": "integer", "minimum": 0 })
        }
        Kind::Int32
        | Kind::Int64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Sfixed32
        | Kind::Sfixed64 => {
            json!({ "type": "integer" })
        }
        Kind::Float | Kind::Double => json!({ "type": "number" }),
        // Base64, or the name of an enum's value.
        Kind::Bytes | Kind::Enum(_) | Kind::Message(_) => json!({ "type": "string" }),
    }
}

/// The value of one of our options of fields, `jetway.v1.<name>`.
fn text_option(field: &FieldDescriptor, name: &str) -> Option<String> {
    let pool = field.parent_message().parent_pool().clone();
    let option = pool.get_extension_by_name(&format!("jetway.v1.{name}"))?;
    let options = field.options();
    let is_set = options.has_extension(&option);
    let value = is_set.then(|| options.get_extension(&option))?;
    value.as_str().map(str::to_owned)
}
