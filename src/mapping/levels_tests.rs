//! Topics and subjects of the open profile: injective and reversible, and filters that miss nothing.

use bytestring::ByteString;
use proptest::prelude::*;

use super::*;
use crate::mapping::subject::is_filter;
use crate::message::covers;
use crate::mqtt::TopicFilter;

fn subject(topic: &str) -> String {
    let mut out = BytesMut::from("mqtt.");
    write(topic, &mut out);
    take(&mut out).to_string()
}

fn selecting(filter: &str) -> Vec<String> {
    let filters = filters("mqtt", filter).expect("short enough");
    filters.iter().map(ToString::to_string).collect()
}

#[test]
fn g13_topics_and_their_subjects() {
    for (topic, expected) in [
        ("a", "mqtt.a"),
        ("site 1/temp.raw", "mqtt.site%201.temp%2Eraw"),
        ("/", "mqtt.%.%"),
        ("a//b", "mqtt.a.%.b"),
        ("a/%/b/", "mqtt.a.%25.b.%"),
        ("$SYS/größe", "mqtt.$SYS.größe"),
        ("*/>/\u{1}\u{7f}", "mqtt.%2A.%3E.%01%7F"),
    ] {
        assert_eq!(subject(topic), expected);
        assert_eq!(read(&expected["mqtt.".len()..]).as_deref(), Some(topic));
    }
}

#[test]
fn tokens_that_no_topic_has_are_no_topic() {
    for tokens in [
        "%", "", ".", "a.", "a..b", "a/b", "a+", "#", "a%00", "%41", "a%2e", "a%", "%%",
    ] {
        assert_eq!(read(tokens), None, "{tokens:?}");
    }
}

#[test]
fn filters_and_what_they_select() {
    let cases: [(&str, &[&str]); 9] = [
        ("a/b", &["mqtt.a.b"]),
        ("a/+", &["mqtt.a.*"]),
        ("a/#", &["mqtt.a", "mqtt.a.>"]),
        ("#", &["mqtt.>"]),
        ("+", &["mqtt.*"]),
        ("+/#", &["mqtt.*", "mqtt.*.>"]),
        ("/#", &["mqtt.%", "mqtt.%.>"]),
        ("/+/", &["mqtt.%.*.%"]),
        ("$SYS/.*/#", &["mqtt.$SYS.%2E%2A", "mqtt.$SYS.%2E%2A.>"]),
    ];
    for (filter, expected) in cases {
        assert_eq!(selecting(filter), expected);
    }
}

#[test]
fn a_filter_longer_than_any_subject_selects_nothing() {
    let longest = "x".repeat(SUBJECT_BYTES_MAX - "mqtt.".len());
    assert!(filters("mqtt", &longest).is_some());
    assert_eq!(filters("mqtt", &format!("{longest}x")), None);
    assert_eq!(filters("mqtt", &format!("{longest}/#")), None);
}

/// A topic with what is special in MQTT, NATS and percent-encoding.
fn topic() -> impl Strategy<Value = String> {
    let level =
        "|[a%2. E*>$ü]{1,4}|.{0,6}".prop_map(|level| level.replace(['/', '+', '#', '\0'], ""));
    let topic = prop::collection::vec(level, 1..6).prop_map(|levels| levels.join("/"));
    topic.prop_filter("a topic has a character", |topic| !topic.is_empty())
}

/// A topic and a filter, made of the same one half the time, so that they often match.
fn topic_and_filter() -> impl Strategy<Value = (String, String)> {
    let both = (topic(), topic(), any::<bool>());
    let both =
        both.prop_map(|(topic, other, same)| (topic.clone(), if same { topic } else { other }));
    (both, prop::collection::vec(0..4_u8, 6), 0..8_usize).prop_map(
        |((topic, other), kinds, cut)| {
            let mut levels: Vec<&str> = other.split('/').collect();
            for (level, kind) in levels.iter_mut().zip(kinds) {
                *level = if kind == 0 { "+" } else { level };
            }
            if cut <= levels.len() {
                levels.truncate(cut);
                levels.push("#");
            }
            let filter = levels.join("/");
            (topic, filter)
        },
    )
}

proptest! {
    #[test]
    fn g11_a_subject_gives_back_its_topic(topic in topic()) {
        let subject = subject(&topic);
        prop_assert!(is_filter(&subject) && !subject.split('.').any(|token| token == "*" || token == ">"));
        prop_assert_eq!(read(&subject["mqtt.".len()..]), Some(topic));
    }

    #[test]
    fn what_is_read_back_is_written_the_same(tokens in "[a%2.EF05/+ ]{1,12}") {
        if let Some(topic) = read(&tokens) {
            prop_assert_eq!(subject(&topic), format!("mqtt.{tokens}"));
        }
    }

    #[test]
    fn g13_whatever_a_filter_matches_is_selected((topic, filter) in topic_and_filter()) {
        let Ok(filter) = TopicFilter::try_from(ByteString::from(filter)) else {
            return Ok(());
        };
        let subject = subject(&topic);
        let selecting = selecting(filter.as_str());
        let selected = selecting.iter().filter(|f| covers(f, &subject)).count();
        prop_assert!(selected <= 1, "selected once at most: {selecting:?}");
        // What starts with `$` may be selected and not matched [MQTT-4.7.2-1].
        let matches = filter.matches(&topic);
        let allowed = (selected == 1) == matches || (!matches && topic.starts_with('$'));
        prop_assert!(allowed, "selected {selected}, matches {matches}");
    }
}
