//! From client to client in the open profile: retained messages, filters, shares, and names that look like patterns.

use std::collections::BTreeSet;

use crate::open::{client, start};
use crate::site::BOTH;
use crate::support::{Backend, Device, Gateway, Protocol, Publish};

async fn connect(gateway: &Gateway, protocol: Protocol, client_id: &str) -> Device {
    Device::connect(protocol, gateway.mqtt(), &client(client_id)).await
}

async fn publish(device: &mut Device, topic: &str, payload: &'static str, retain: bool) {
    let publish = Publish::new(topic, payload);
    let number = device.publish(Publish { retain, ..publish });
    let acked = device.acked().await.unwrap();
    assert_eq!((acked.publish, acked.reason), (number, 0));
}

#[tokio::test]
async fn g09_a_retained_message_is_there_until_a_zero_byte_one_which_goes_out_live() {
    // [MQTT-3.3.1-5], [MQTT-3.3.1-6], [MQTT-3.3.1-7], [MQTT-3.3.1-8], [MQTT-3.3.1-9]
    let gateway = start(None).await;
    for protocol in BOTH {
        let name = |role: &str| format!("{role}{protocol:?}");
        let topic = name("state/");
        let mut publisher = connect(&gateway, protocol, &name("publisher")).await;
        let mut live = connect(&gateway, protocol, &name("live")).await;
        assert_eq!(live.subscribe(&topic).await, 1);
        for value in ["first", "second"] {
            publish(&mut publisher, &topic, value, true).await;
            let received = live.next().await;
            assert_eq!((received.text(), received.retain), (value, false));
        }
        // Not retained: what is retained stays.
        publish(&mut publisher, &topic, "passing", false).await;
        assert_eq!(live.next().await.text(), "passing");
        let mut later = connect(&gateway, protocol, &name("later")).await;
        for filter in [&*topic, "state/#", "+/+"] {
            assert_eq!(later.subscribe(filter).await, 1);
            let received = later.next().await;
            let found = (received.text(), received.retain, &*received.topic);
            assert_eq!(found, ("second", true, &*topic), "{protocol:?} {filter}");
        }
        publish(&mut publisher, &topic, "", true).await;
        let received = live.next().await;
        assert_eq!((received.text(), received.retain), ("", false));
        let mut last = connect(&gateway, protocol, &name("last")).await;
        assert_eq!(last.subscribe(&topic).await, 1);
        publish(&mut publisher, &topic, "live", false).await;
        assert_eq!(last.next().await.text(), "live", "nothing was retained");
    }
}

#[tokio::test]
async fn g09_a_retained_message_outlives_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("state");
    let mut gateway = start(Some(&state_dir)).await;
    let mut publisher = connect(&gateway, Protocol::V5, "publisher").await;
    publish(&mut publisher, "kept", "for ever", true).await;
    gateway.terminate();
    assert!(gateway.wait().await.success());
    let gateway = start(Some(&state_dir)).await;
    let mut later = connect(&gateway, Protocol::V311, "later").await;
    assert_eq!(later.subscribe("kept").await, 1);
    let received = later.next().await;
    assert_eq!((received.text(), received.retain), ("for ever", true));
}

#[tokio::test]
async fn a_part_of_a_share_comes_behind_what_was_stored_before_it() {
    const ROUNDS: u16 = 50;
    for protocol in BOTH {
        let gateway = start(None).await;
        let mut member = connect(&gateway, protocol, "member").await;
        for filter in ["all/#", "$share/group/work"] {
            assert_eq!(member.subscribe(filter).await, 1);
        }
        let mut publisher = connect(&gateway, protocol, "publisher").await;
        for _ in 0..ROUNDS {
            for topic in ["all/news", "work"] {
                publisher.publish(Publish::new(topic, "in turn"));
            }
        }
        publisher.flush().await;
        let (mut news, mut work) = (0, 0);
        while work < ROUNDS {
            let received = member.next().await;
            member.ack(&received);
            match &*received.topic {
                "work" => work += 1,
                _ => news += 1,
            }
            assert!(news >= work, "{protocol:?}: {work} parts, {news} before");
        }
    }
}

#[tokio::test]
async fn g13_topics_that_differ_in_a_slash_are_different() {
    let gateway = start(None).await;
    let topics = ["a/b", "/a/b", "a/b/", "a//b", "//a/b", "a/b//", "/", "//"];
    for protocol in BOTH {
        let mut publisher = connect(&gateway, protocol, "publisher").await;
        let mut listeners = Vec::new();
        for topic in topics {
            let mut listener = connect(&gateway, protocol, &format!("listener {topic}")).await;
            assert_eq!(listener.subscribe(topic).await, 1);
            listeners.push(listener);
        }
        for topic in topics {
            publish(&mut publisher, topic, topic, false).await;
        }
        for (listener, topic) in listeners.iter_mut().zip(topics) {
            let received = listener.next().await;
            assert_eq!((received.text(), &*received.topic), (topic, topic));
            assert_eq!(listener.subscribe("end2").await, 1);
            publish(&mut publisher, "end2", "end", false).await;
            assert_eq!(listener.next().await.text(), "end", "{topic} got another");
            assert_eq!(listener.unsubscribe("end2").await, 0);
        }
    }
}

#[tokio::test]
async fn g13_filters_that_start_with_a_wildcard_do_not_match_topics_of_the_server() {
    // [MQTT-4.7.2-1]
    let gateway = start(None).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    for protocol in BOTH {
        for (filter, expected) in [("#", "seen"), ("+/x", "seen"), ("$sys/#", "hidden")] {
            let mut listener = connect(&gateway, protocol, "listener").await;
            assert_eq!(listener.subscribe(filter).await, 1);
            backend.publish("mqtt.$sys.x", &[], "hidden").await;
            backend.publish("mqtt.sys.x", &[], "seen").await;
            assert_eq!(listener.next().await.text(), expected, "{filter}");
            listener.disconnect().await;
        }
    }
}

#[tokio::test]
async fn g09_a_share_delivers_each_message_to_one_member() {
    // [MQTT-4.8.2-4]
    const COUNT: usize = 40;
    let gateway = start(None).await;
    for protocol in BOTH {
        let mut publisher = connect(&gateway, protocol, "publisher").await;
        let filter = format!("$share/group/{protocol:?}/#");
        let mut members = Vec::new();
        for name in ["one", "two"] {
            let mut member = connect(&gateway, protocol, name).await;
            assert_eq!(member.subscribe(&filter).await, 1);
            members.push(member);
        }
        for number in 0..COUNT {
            let topic = format!("{protocol:?}/{number}");
            publish(&mut publisher, &topic, "x", false).await;
        }
        let [one, two] = &mut members[..] else {
            panic!("two members");
        };
        let mut seen = BTreeSet::new();
        for _ in 0..COUNT {
            let received = tokio::select! {
                received = one.next() => received,
                received = two.next() => received,
            };
            assert!(
                seen.insert(received.topic.clone()),
                "{} twice",
                received.topic
            );
        }
        assert_eq!((one.waiting(), two.waiting()), (0, 0));
    }
}

#[tokio::test]
async fn g22_a_client_identifier_is_no_pattern_and_has_no_separators() {
    let gateway = start(None).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    let names = [
        "*", ">", "a.b", "a", "b", "+", "#", "a/b", "a b", "%2E", "a&b",
    ];
    let mut devices = Vec::new();
    for name in names {
        devices.push(connect(&gateway, Protocol::V5, name).await);
    }
    // Nobody has taken another one's place, nor hears what is for somebody else.
    for (device, name) in devices.iter_mut().zip(names) {
        assert_eq!(device.publish_acked("who", name).await, 0, "{name}");
    }
    let stored = backend.wait_for("MQTT", "mqtt.who", names.len()).await;
    let stored = stored.iter().map(|message| message.text());
    assert_eq!(stored.collect::<Vec<_>>(), names);
    let keys: BTreeSet<String> = backend
        .messages("KV_jetway_sessions", "$KV.jetway_sessions.*.*")
        .await
        .into_iter()
        .map(|message| message.subject)
        .collect();
    assert_eq!(keys.len(), names.len(), "{keys:?}");
}
