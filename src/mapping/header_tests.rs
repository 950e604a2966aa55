//! Header names and values stay safe for NATS framing whatever a device writes.

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// What async-nats and a strict parser of `Name: value\r\n` make of a header; its constructors panic on bad input.
fn through_nats(name: &str, value: &str) -> (String, String) {
    HeaderMap::new().append(name, value);
    let name = HeaderName::try_from(name.to_owned()).unwrap();
    let value = HeaderValue::from(value.to_owned());
    let line = format!("{name}: {}\r\n", value.as_str());
    let (name, value) = line.strip_suffix("\r\n").unwrap().split_once(':').unwrap();
    assert!(!line.trim_end_matches("\r\n").contains(['\r', '\n', '\0']));
    (name.to_owned(), value.trim_matches(' ').to_owned())
}

#[test]
fn what_is_plain_stays_as_it_is() {
    for text in ["application/json", "a: b", "Größe 5", "", "a  b"] {
        assert_eq!(value(&text.into()), text);
    }
}

#[test]
fn what_breaks_framing_is_encoded() {
    for (text, expected) in [
        ("a\r\nNats-Msg-Id: x", "a%0D%0ANats-Msg-Id: x"),
        ("\0\u{7f}\t", "%00%7F%09"),
        ("50%", "50%25"),
        ("  a ", "%20%20a%20"),
        (" ", "%20"),
    ] {
        assert_eq!(value(&text.into()), expected);
    }
    assert_eq!(user_name("a:b c\r\né%"), "Jw-User-a%3Ab%20c%0D%0A%C3%A9%25");
    assert_eq!(user_name(""), "Jw-User-");
}

#[test]
fn a_service_need_not_encode() {
    assert_eq!(text("50%"), "50%");
    assert_eq!(text("50%25"), "50%");
    assert_eq!(text("%FF"), "%FF");
}

#[test]
fn a_device_cannot_claim_a_form_of_ours() {
    for (text, expected) in [
        (
            "application/vnd.jetway.device-message.v1+protobuf",
            "%61pplication/vnd.jetway.device-message.v1+protobuf",
        ),
        (
            "Application/VND.jetway.x\n",
            "%41pplication/VND.jetway.x%0A",
        ),
        ("application/vnd.jetwa", "application/vnd.jetwa"),
    ] {
        assert_eq!(content_type(&text.into()), expected);
        assert_eq!(super::text(expected), text);
    }
}

#[test]
fn only_a_whole_trace_context_is_continued() {
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert!(is_traceparent(good));
    for bad in [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
    ] {
        assert!(!is_traceparent(bad), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_text_goes_through_nats_and_back(text in "(?s).{0,40}|[ -~\\t\\r\\n%]{0,20}") {
        let (name, value) = through_nats(&user_name(&text), &value(&text.as_str().into()));
        prop_assert_eq!(super::text(&value), text.as_str());
        prop_assert_eq!(super::text(name.strip_prefix(USER).unwrap()), text.as_str());
        let value = through_nats(CONTENT_TYPE, &content_type(&text.as_str().into())).1;
        prop_assert_eq!(super::text(&value), text.as_str());
    }
}
