//! The current schemas against the released ones in `proto/released/`: what a reader of those could read it still can.
//!
//! A release replaces the files there. Whatever this forbids needs a new version of the event, beside the old one.

use std::path::Path;

use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use tempfile::TempDir;

const FILES: [&str; 2] = ["jetway/v1/events.proto", "jetway/v1/device_message.proto"];

fn compile(folder: &Path) -> DescriptorPool {
    let mut compiler = protox::Compiler::new([folder]).unwrap();
    compiler.include_imports(true);
    for file in FILES.iter().filter(|file| folder.join(file).exists()) {
        compiler.open_file(folder.join(file)).unwrap();
    }
    compiler.descriptor_pool()
}

/// What of the released messages is not in the current ones any more, or is there in another way.
fn breaks(released: &DescriptorPool, current: &DescriptorPool) -> Vec<String> {
    let mut breaks = Vec::new();
    let ours = |message: &MessageDescriptor| message.package_name() == "jetway.v1";
    for before in released.all_messages().filter(ours) {
        let name = before.full_name();
        let Some(now) = current.get_message_by_name(name) else {
            breaks.push(format!("{name}: removed"));
            continue;
        };
        if before.options().to_string() != now.options().to_string() {
            breaks.push(format!("{name}: options changed"));
        }
        for field in before.fields() {
            let place = format!("{name}.{}", field.name());
            match now.get_field_by_name(field.name()) {
                None => breaks.push(format!("{place}: removed")),
                Some(same) if said(&same) != said(&field) => {
                    let (before, now) = (said(&field), said(&same));
                    breaks.push(format!("{place}: changed from {before} to {now}"));
                }
                Some(_) => {}
            }
        }
        let new = now
            .fields()
            .filter(|field| before.get_field_by_name(field.name()).is_none());
        for field in new {
            let place = format!("{name}.{}", field.name());
            let number = field.number();
            if before.get_field(number).is_some() {
                breaks.push(format!("{place}: takes number {number}"));
            }
            // An older event does not have it.
            if is_event_part(&now) && !field.field_descriptor_proto().proto3_optional() {
                breaks.push(format!("{place}: new and not optional"));
            }
        }
    }
    breaks
}

/// Whether a message is written as JSON, where a field that is not optional is required.
fn is_event_part(message: &MessageDescriptor) -> bool {
    message.parent_file().name() == "jetway/v1/events.proto"
}

/// Everything about a field that a reader relies on.
fn said(field: &FieldDescriptor) -> String {
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    };
    let presence = match (
        field.cardinality(),
        field.field_descriptor_proto().proto3_optional(),
    ) {
        (Cardinality::Repeated, _) => "repeated",
        (_, true) => "optional",
        (_, false) => "required",
    };
    format!("{presence} {kind} = {} {}", field.number(), field.options())
}

#[test]
fn nothing_that_was_released_is_removed_or_changed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let (released, current) = (compile(&root.join("released")), compile(&root));
    assert_eq!(jetway::schema::read(&released).len(), 6);
    assert_eq!(breaks(&released, &current), Vec::<String>::new());
}

/// The released events with a text replaced, compiled.
fn changed(from: &str, to: &str) -> DescriptorPool {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(FILES[0]);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = jetway::schema::PROTO;
    assert!(text.contains(from), "{from}");
    std::fs::write(file, text.replacen(from, to, 1)).unwrap();
    compile(folder.path())
}

#[test]
fn each_break_is_found_and_an_addition_is_none() {
    let token = "  optional uint64 code = 6;\n";
    let before = changed("", "");
    let is_broken = |from: &str, to: &str, expected: &str| {
        let breaks = breaks(&before, &changed(from, to));
        assert_eq!(breaks.len(), 1, "{breaks:?}");
        assert!(breaks[0].contains(expected), "{breaks:?}");
    };
    is_broken(token, "", "ActionAnswered.code: removed");
    is_broken(
        token,
        "  optional string code = 6;\n",
        "ActionAnswered.code: changed",
    );
    is_broken(
        token,
        "  optional uint64 code = 16;\n",
        "ActionAnswered.code: changed",
    );
    is_broken(
        token,
        "  uint64 code = 6;\n",
        "ActionAnswered.code: changed",
    );
    is_broken("[(format) = \"uuid\"]", "", "event_id: changed");
    is_broken(
        "message ActionAnswered {\n",
        "message ActionAnswered {\n  string added = 11;\n",
        "ActionAnswered.added: new and not optional",
    );
    is_broken(
        "\"device.connection.opened\" version: \"1.0\"",
        "\"device.connection.opened\" version: \"1.1\"",
        "DeviceConnectionOpened: options changed",
    );
    let added = changed(
        "message ActionAnswered {\n",
        "message Added { string a = 1; }\nmessage ActionAnswered {\n  optional string added = 11;\n",
    );
    assert_eq!(breaks(&before, &added), Vec::<String>::new());
}
