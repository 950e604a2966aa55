//! Payloads that want to hurt: whatever comes, it ends soon, in little memory, in events that are well-formed and a fault that says why.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::event::Received;
use crate::message::Message;
use crate::thing::asked_tests::*;
use crate::thing::{EVENTS_MAX, Interpretation, Settings, Unknown};

/// How long each big payload starts; they are some bytes longer.
const BIG: usize = 1_000_000;
/// Generous for a debug build on a busy machine; what is quadratic takes minutes.
const TIME_MAX: Duration = Duration::from_secs(20);
/// What an event takes beside what the device wrote.
const AROUND_EVENT_BYTES: usize = 2_048;

const STRICT: Asked<'static> = Asked {
    settings: Settings {
        each_property: true,
        unknown_property: Unknown::DeadLetter,
        ..PLAIN.settings
    },
    model: Some(MODEL),
    ..PLAIN
};
const LENIENT: Asked<'static> = Asked {
    settings: Settings {
        each_property: true,
        ..PLAIN.settings
    },
    ..PLAIN
};

fn repeated(unit: &str) -> String {
    unit.repeat(BIG / unit.len())
}

fn report(params: &str) -> String {
    format!(r#"{{"method":"report","params":{{{params}"x":0}}}}"#)
}

fn pack(field: &str, entries: &str) -> String {
    format!(r#"{{"method":"packReport","{field}":[{entries}0]}}"#)
}

/// What every interpretation holds to.
fn assert_sane(interpretation: &Interpretation, payload_len: usize) {
    let events = &interpretation.events;
    assert!(events.len() <= EVENTS_MAX);
    let bytes: usize = events.iter().map(Message::wire_bytes).sum();
    // Each property stands in two events, and `false` and escapes may take some bytes more than they did.
    let most = 4 * payload_len + events.len() * AROUND_EVENT_BYTES;
    assert!(bytes <= most, "{bytes} of {payload_len}");
    for event in events {
        let is_token = |token: &str| {
            !token.is_empty()
                && !token.contains(|c: char| c <= ' ' || matches!(c, '*' | '>' | '\x7F'))
        };
        assert!(event.subject.split('.').all(is_token), "{}", event.subject);
        let is_framed = |value: &str| !value.contains(['\r', '\n', '\0']);
        assert!(event.headers.iter().all(|(_, value)| is_framed(value)));
    }
    if let Some(fault) = &interpretation.fault {
        assert!(fault.path.len() <= 256 && fault.rule.len() <= 600);
    }
}

#[test]
fn a_megabyte_of_anything_ends_soon_in_little_memory_and_says_why() {
    // G08
    let many_names: String = (0..BIG / 10).map(|at| format!(r#""{at}":0,"#)).collect();
    let begun = Instant::now();
    for (payload, reason) in [
        (report(&format!(r#""a":{},"#, repeated("1"))), "number"),
        (report(&format!(r#""a":0.{},"#, repeated("0"))), "number"),
        (report(&format!(r#""a":1e{},"#, repeated("9"))), "number"),
        (repeated("["), "depth"),
        (repeated(r#"{"a":"#), "depth"),
        (
            report(&format!(r#""a":[{}NaN],"#, repeated("0,"))),
            "malformed",
        ),
        (
            report(&format!(r#""arr":[{}0],"#, repeated("0,"))),
            "length",
        ),
        (report(&many_names), "unknown"),
        (report(&format!(r#"{many_names}"7":0,"#)), "duplicate_key"),
        (report(&format!(r#""{}":0,"#, repeated("a"))), "identifier"),
        (
            report(&format!(r#""{}":0,"#, repeated(r"\u002e"))),
            "identifier",
        ),
        (
            report(&format!(r#""temp":"{}","#, repeated(r"\u00e9"))),
            "type",
        ),
        (report(&repeated(" ")), "unknown"),
        (format!(r#"{{"method":"{}"}}"#, repeated("a")), "length"),
        (pack("properties", &repeated("{},")), "shape"),
        (pack("properties", &repeated("[],")), "shape"),
        (
            pack("properties", &repeated(r#"{"params":{"temp":1}},"#)),
            "shape",
        ),
        (
            pack(
                "events",
                &repeated(r#"{"eventID":"low","params":{"v":1}},"#),
            ),
            "shape",
        ),
        (
            pack(
                "subDevices",
                &repeated(
                    r#"{"productID":"0S1","deviceName":"b","properties":[{"params":{"temp":1}}]},"#,
                ),
            ),
            "shape",
        ),
    ] {
        let interpretation = STRICT.interpret(payload.clone());
        assert_sane(&interpretation, payload.len());
        let start: String = payload.chars().take(80).collect();
        assert_eq!(interpretation.fault.unwrap().reason, reason, "{start}");
        assert_sane(&LENIENT.interpret(payload.clone()), payload.len());
    }
    assert!(begun.elapsed() < TIME_MAX, "{:?}", begun.elapsed());
}

#[test]
fn more_events_than_one_batch_takes_are_none() {
    let entries = |count: usize| r#"{"params":{"a":1}},"#.repeat(count - 1);
    let pack = |count| {
        format!(
            r#"{{"method":"packReport","properties":[{}{{"params":{{"a":1}}}}]}}"#,
            entries(count)
        )
    };
    let all = PLAIN.interpret(pack(EVENTS_MAX));
    assert_eq!((all.events.len(), all.fault), (EVENTS_MAX, None));
    assert_eq!(
        PLAIN.fault(&pack(EVENTS_MAX + 1)),
        (vec![], "too_many", String::new())
    );
    let answered = Asked {
        model: Some(r#"{"reply":["property"]}"#),
        ..PLAIN
    };
    let reply = answered.reply(&pack(EVENTS_MAX + 1)).unwrap();
    assert_eq!(reply.1, r#"{"method":"packReportReply","code":100006}"#);
}

#[test]
fn an_event_that_no_server_would_take_is_a_fault_and_the_others_go_out() {
    let asked = Asked {
        settings: Settings {
            message_bytes_max: 1_000,
            ..PLAIN.settings
        },
        ..PLAIN
    };
    let entry = |length| format!(r#"{{"params":{{"a":"{}"}}}},"#, "x".repeat(length));
    let pack = pack("properties", &(entry(10) + &entry(1_000) + &entry(20)));
    let interpretation = asked.interpret(pack);
    assert_eq!(interpretation.events.len(), 2);
    assert!(
        interpretation
            .events
            .iter()
            .all(|event| event.wire_bytes() <= 1_000)
    );
    let fault = interpretation.fault.unwrap();
    assert_eq!(
        (fault.reason, &*fault.path),
        ("too_large", "/properties/1/params")
    );
    let one = asked.interpret(report(&format!(r#""a":"{}","#, "x".repeat(1_000))));
    assert_eq!(
        (one.events, one.fault.unwrap().reason),
        (vec![], "too_large")
    );
}

#[test]
fn the_deepest_report_is_an_event_that_consumers_can_read() {
    let deepest = format!("{}{}", "[".repeat(62), "]".repeat(62));
    let events = LENIENT
        .interpret(report(&format!(r#""a":{deepest},"#)))
        .events;
    assert_eq!(events.len(), 3);
    for event in events {
        Received::parse(&event.payload).unwrap();
    }
}

/// JSON in the words of messages.
fn any_message() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 20] = [
        "method",
        "msgToken",
        "timestamp",
        "params",
        "properties",
        "events",
        "subDevices",
        "eventID",
        "type",
        "actionID",
        "code",
        "msg",
        "data",
        "sys",
        "productID",
        "deviceName",
        "noAsk",
        "temp",
        "arr.1",
        "v",
    ];
    let name =
        prop_oneof![9 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned), 1 => ".{0,12}"];
    let words = [
        "report",
        "packReport",
        "eventPost",
        "action",
        "actionReply",
        "getReportReply",
        "low",
        "open",
        "alert",
        "0S1",
    ];
    let leaf = prop_oneof![
        4 => prop::sample::select(words.to_vec()).prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => ".{0,12}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::hash_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let methods = [
        "report",
        "packReport",
        "eventPost",
        "action",
        "actionReply",
        "getReportReply",
    ];
    (prop::sample::select(methods.to_vec()), inner).prop_map(|(method, mut message)| {
        if let Some(message) = message.as_object_mut() {
            message.insert("method".to_owned(), json!(method));
        }
        message
    })
}

fn interpreted(payload: &[u8]) {
    for (handle, type_) in [
        ("thing", "property"),
        ("thing", "event"),
        ("thing", "action"),
        ("ext", "ntp"),
    ] {
        for asked in [&PLAIN, &STRICT, &LENIENT, &PLATFORM] {
            let asked = Asked {
                handle,
                type_,
                ..*asked
            };
            let interpretation = asked.interpret(payload.to_vec());
            assert_sane(&interpretation, payload.len());
            assert_eq!(interpretation, asked.interpret(payload.to_vec()));
            let is_envelope = asked.settings.shape == crate::thing::Shape::Envelope;
            for event in interpretation.events.iter().filter(|_| is_envelope) {
                Received::parse(&event.payload).unwrap();
            }
        }
    }
}

proptest! {
    #[test]
    fn no_message_makes_it_panic(message in any_message()) {
        interpreted(message.to_string().as_bytes());
    }

    #[test]
    fn no_bytes_make_it_panic(
        good in prop::sample::select(vec![REPORT, PACK]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut payload = good.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        interpreted(&payload);
        payload.truncate(end.index(payload.len()));
        interpreted(&payload);
    }
}
