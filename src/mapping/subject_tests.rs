//! Tokens and subjects: injective, reversible, canonical.

use proptest::prelude::*;

use super::*;
use crate::message::covers;

fn token(name: &str) -> String {
    let mut out = BytesMut::new();
    encode_token(name, &mut out);
    percent::take(&mut out).to_string()
}

#[test]
fn g12_only_what_a_token_cannot_hold_is_encoded() {
    for (name, expected) in [
        ("dev001", "dev001"),
        ("a.b", "a%2Eb"),
        ("a*b>c d%e", "a%2Ab%3Ec%20d%25e"),
        ("\u{1}\t\u{7f}", "%01%09%7F"),
        ("größe:$#/", "größe:$#/"),
        ("\u{85}", "\u{85}"),
    ] {
        assert_eq!(token(name), expected);
        assert_eq!(decode_token(expected).as_deref(), Some(name));
    }
}

#[test]
fn only_canonical_tokens_are_read_back() {
    for token in [
        "", "a.b", "a b", "*", ">", "a%", "a%2", "a%2e", "a%41", "%FF", "a\u{7f}", "%2G", "a%%2E",
    ] {
        assert_eq!(decode_token(token), None, "{token:?}");
    }
}

proptest! {
    #[test]
    fn g11_a_token_gives_back_its_name(name in ".{1,40}|[ .*>%\u{0}-\u{7f}]{1,40}") {
        let token = token(&name);
        prop_assert!(is_filter(&token) && token != "*" && token != ">" && !token.contains('.'));
        let read = decode_token(&token).map(Cow::into_owned);
        prop_assert_eq!(read, Some(name));
    }

    #[test]
    fn what_is_read_back_is_written_the_same(text in "[a%.2E05F ]{1,12}") {
        if let Some(name) = decode_token(&text) {
            prop_assert_eq!(token(&name), text);
        }
    }

    #[test]
    fn covering_and_meeting_agree_with_matching(
        a in "([ab*]\\.){0,2}[ab*>]", b in "([ab*]\\.){0,2}[ab*>]",
    ) {
        let subjects = ["a", "b"].iter().flat_map(|x| {
            let two = ["a", "b"].map(|y| format!("{x}.{y}"));
            let three = two.clone().into_iter().flat_map(|xy| ["a", "b", "c"].map(|z| format!("{xy}.{z}")));
            let four = two.clone().map(|xy| format!("{xy}.c.d"));
            [(*x).to_owned()].into_iter().chain(two.clone()).chain(three).chain(four).collect::<Vec<_>>()
        });
        let subjects: Vec<_> = subjects.collect();
        let matches = |filter: &str, subject: &str| covers(filter, subject);
        let meets = subjects.iter().any(|s| matches(&a, s) && matches(&b, s));
        prop_assert_eq!(intersect(&a, &b), meets);
        if covers(&a, &b) {
            prop_assert!(subjects.iter().all(|s| !matches(&b, s) || matches(&a, s)));
        }
    }
}

#[test]
fn subjects_without_a_rule() {
    let id = DeviceId::new("P", "D.1").unwrap();
    for (subject, expected) in [
        (
            Presence::Connected.device_subject(),
            "device.up.status.connected",
        ),
        (
            Presence::Disconnected.device_subject(),
            "device.up.status.disconnected",
        ),
        (
            Presence::Connected.application_subject(&id),
            "application.device.P.D%2E1.status.connected",
        ),
        (
            Presence::Disconnected.application_subject(&id),
            "application.device.P.D%2E1.status.disconnected",
        ),
        (status_fix("mqtt"), "device.down.mqtt.status.fix"),
    ] {
        assert_eq!(subject, expected);
    }
}

#[test]
fn services_are_told_nothing_where_the_gateways_own_messages_are() {
    for subject in ["_INBOX.a.1", "receipt.P.d", "_R_.x", "devices", "a"] {
        assert!(is_for_services(subject), "{subject}");
    }
    for subject in [
        "$JS.API.STREAM.PURGE.DEVICE_DOWN",
        "$JS.ACK.DEVICE_UP.iot-core.1.1.1.1.1",
        "$KV.jetway_sessions.P.d",
        "_jw.nodes.protection",
        "application.device.P.d.status.connected",
        "device.down.mqtt.thing.P.d",
        "device",
        "dlq.x",
        "gps.report.created.P.d",
        "jetway.devices.changed",
        "mqtt.a",
        "mqtt_held.P.d.1",
        "replay.iot-core.x",
    ] {
        assert!(!is_for_services(subject), "{subject}");
    }
}
