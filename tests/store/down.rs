//! `DEVICE_DOWN` as it is declared: both forms of a downlink in one order, and a full queue that is told to the sender.

use jetway::jetstream::{Fed, Feed, Reader, provision};
use jetway::mapping::{Mapping, Settings};
use serde_json::Value;

use crate::rig::{Rig, subjects};
use crate::support::{Backend, within};

/// Publishes and gives the sequence, or the number of the error.
async fn publish(backend: &Backend, subject: &str, payload: &'static str) -> Result<u64, u64> {
    let answer = backend.request(subject, payload).await;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    let number = |pointer| answer.pointer(pointer).and_then(Value::as_u64);
    assert_eq!(answer["stream"], "DEVICE_DOWN", "{answer}");
    match number("/error/err_code") {
        Some(error) => Err(error),
        None => Ok(number("/seq").unwrap()),
    }
}

#[tokio::test]
async fn both_forms_of_a_downlink_wait_in_one_order_and_a_full_queue_is_told() {
    let rig = Rig::start().await;
    let three = "[[stream]]\nname = \"DEVICE_DOWN\"\nmax_msgs_per_subject = 3\n";
    let mapping = Mapping::load(&Settings::default(), Some(("own.toml", three))).unwrap();
    let down = mapping.streams.into_iter();
    let down = down.filter(|stream| stream.name == "DEVICE_DOWN");
    let down: Vec<_> = down
        .map(|stream| provision::Stream {
            name: stream.name,
            config: stream.config,
        })
        .collect();
    provision::ensure(&rig.link, &down, false, false)
        .await
        .unwrap();
    let all = subjects(&["device.down.mqtt.*.*.*"]);
    let (mut feed, _) = Feed::start(&rig.link, "DEVICE_DOWN", &all).await.unwrap();

    let (long, short) = ("device.down.mqtt.thing.P.D", "device.down.thing.P.D");
    for (subject, payload, expected) in [
        (short, "1", Ok(1)),
        (long, "2", Ok(2)),
        (short, "3", Ok(3)),
        (short, "no", Err(10_077)),
        (long, "no", Err(10_077)),
        ("device.down.ota.P.D", "4", Ok(4)),
        ("device.down.thing.P.E", "5", Ok(5)),
    ] {
        let published = publish(&rig.backend, subject, payload).await;
        assert_eq!(published, expected, "{subject} {payload}");
    }
    for (sequence, subject) in [
        (1, long),
        (2, long),
        (3, long),
        (4, "device.down.mqtt.ota.P.D"),
        (5, "device.down.mqtt.thing.P.E"),
    ] {
        let Fed::Message(stored) = within("a downlink", feed.next()).await else {
            panic!("the stream is the same");
        };
        let found = (stored.sequence, &*stored.message.subject);
        assert_eq!(found, (sequence, subject));
        assert_eq!(stored.message.payload, sequence.to_string());
    }

    // What is delivered and removed makes room.
    let reader = Reader::new(&rig.link, "DEVICE_DOWN");
    for (sequence, was_there) in [(1, true), (2, true), (2, false)] {
        assert_eq!(reader.remove(sequence).await, Ok(was_there));
    }
    assert_eq!(publish(&rig.backend, short, "6").await, Ok(6));
    assert_eq!(publish(&rig.backend, long, "7").await, Ok(7));
    assert_eq!(publish(&rig.backend, short, "no").await, Err(10_077));
}
