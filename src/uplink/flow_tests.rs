//! Whose a message is, and the trace context that it begins.

use std::collections::HashSet;

use super::*;
use crate::device::Scope;

fn address<'a>(direction: Direction, product: &'a str, name: &'a str) -> Address<'a> {
    Address {
        topic: "t",
        direction,
        handle: "thing",
        kind: "property",
        product,
        name,
    }
}

fn gateway() -> Device {
    let id = |name| DeviceId::new("p", name).unwrap();
    Device {
        id: id("gateway"),
        scope: Scope::Full,
        sub_devices: [id("sub")].into(),
        access: None,
    }
}

#[test]
fn a_message_is_of_the_device_that_its_topic_names() {
    let device = gateway();
    for (name, expected) in [
        ("gateway", Some("gateway")),
        ("sub", Some("sub")),
        ("x", None),
    ] {
        let address = address(Direction::Up, "p", name);
        let found = identity(&device, &address).ok();
        assert_eq!(found.as_ref().map(DeviceId::name), expected);
    }
    let elsewhere = address(Direction::Up, "q", "gateway");
    assert!(identity(&device, &elsewhere).is_err());
    // In the open profile a topic names nobody.
    let open = address(Direction::Both, "", "");
    assert_eq!(identity(&device, &open).unwrap().name(), "gateway");
}

#[test]
fn each_message_of_each_connection_begins_a_trace_of_its_own() {
    let tokens: Arc<str> = "p.gateway".into();
    let mut seen = HashSet::new();
    for connection in 0..20 {
        let id = format!("00000000000000ff.{connection}");
        let sender = Sender::new(gateway(), &tokens, &id, "00000000000000ff", Arc::default());
        for message in 1..20 {
            let traceparent = Traceparent::new(sender.trace, message, &Spans::default());
            let text = traceparent.as_str();
            let parts: Vec<&str> = text.split('-').collect();
            let [version, trace, span, flags] = parts[..] else {
                panic!("{text}");
            };
            assert_eq!((version, flags), ("00", "01"));
            assert_eq!((trace.len(), span.len()), (32, 16), "{text}");
            assert_ne!(u64::from_str_radix(span, 16).unwrap(), 0, "{text}");
            assert!(seen.insert(trace.to_owned()), "{trace} twice");
        }
    }
}
