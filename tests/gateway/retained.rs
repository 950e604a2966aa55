//! What a service retains: the last value of each topic, for whoever subscribes later; written once whatever the number of nodes.

use async_nats::HeaderMap;

use crate::offline::forgotten;
use crate::open::{client, start};
use crate::session_present::passed;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Device, Protocol, Publish, Stored, Wire, eventually, packet};

const BUCKET: &str = "KV_jetway_retained";
const RETAIN: (&str, &str) = ("Jw-Retain", "1");

/// Waits until these are the values that are kept under the keys of a filter.
async fn kept(backend: &Backend, filter: &str, expected: &[&str]) -> Vec<Stored> {
    let filter = format!("$KV.jetway_retained.{filter}");
    eventually(&format!("{filter} has {expected:?}"), async || {
        let mut found = backend.messages(BUCKET, &filter).await;
        found.retain(|kept| !kept.payload.is_empty());
        match found.iter().map(Stored::text).eq(expected.iter().copied()) {
            true => Ok(found),
            false => Err(format!("{found:?}")),
        }
    })
    .await
}

/// Subscribes, perhaps again, and gives what is retained: what comes before a message that is sent afterwards.
async fn subscribe(backend: &Backend, device: &mut Device, who: &Registered) -> Vec<String> {
    assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
    let end = [("Jw-Type", "end")];
    let subject = who.subject("device.down.mqtt.thing");
    backend.publish(&subject, &end, "end").await;
    let mut found = Vec::new();
    loop {
        let received = device.next().await;
        if received.text() == "end" {
            assert!(!received.retain);
            return found;
        }
        assert!(received.retain, "{received:?}");
        found.push(received.text().to_owned());
    }
}

#[tokio::test]
async fn who_subscribes_later_gets_the_last_value_of_each_topic_once() {
    // [MQTT-3.3.1-5], [MQTT-3.3.1-8]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let (long, short) = (
            who.subject("device.down.mqtt.thing"),
            who.subject("device.down.thing"),
        );
        let event = ("Jw-Type", "event");
        let lifetime = ("Nats-TTL", "60");
        backend.publish(&long, &[RETAIN, event], "event").await;
        backend.publish(&long, &[RETAIN], "first").await;
        backend.publish(&short, &[RETAIN, lifetime], "second").await;
        backend.publish(&long, &[], "passing").await;
        passed(&site, &backend).await;
        let keys = format!("{long}.*");
        let found = kept(&backend, &keys, &["event", "second"]).await;
        let topic = who.topic("$thing/down/property");
        let key = format!("$KV.jetway_retained.{long}.{topic}");
        assert_eq!(found[1].subject, key);
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.subscribe(&topic).await, 1);
        let received = device.next().await;
        assert_eq!((received.text(), received.retain), ("second", true));
        if protocol == Protocol::V5 {
            let left = received.properties.unwrap().message_expiry_interval;
            assert!(left.is_some_and(|left| left <= 60), "{left:?}");
        }
        let values = subscribe(&backend, &mut device, &who).await;
        assert_eq!(values, ["event", "second"], "{protocol:?}");
    }
}

#[tokio::test]
async fn who_is_connected_gets_it_live_and_it_stays_until_an_empty_one_comes() {
    // [MQTT-3.3.1-6], [MQTT-3.3.1-9], [MQTT-3.3.1-12]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.down.mqtt.thing");
        let keys = format!("{subject}.*");
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(subscribe(&backend, &mut device, &who).await, [""; 0]);
        backend.publish(&subject, &[RETAIN], "value").await;
        let received = device.next().await;
        assert_eq!((received.text(), received.retain), ("value", false));
        assert_eq!(subscribe(&backend, &mut device, &who).await, ["value"]);
        assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
        // What is delivered is removed from the stream, and kept all the same.
        forgotten(&backend, &who).await;
        kept(&backend, &keys, &["value"]).await;
        backend.publish(&subject, &[RETAIN], "").await;
        let received = device.next().await;
        assert_eq!((received.text(), received.retain), ("", false));
        kept(&backend, &keys, &[]).await;
        assert_eq!(subscribe(&backend, &mut device, &who).await, [""; 0]);
    }
}

#[tokio::test]
async fn who_asks_for_retain_as_published_gets_it_live_too() {
    // [MQTT-3.3.1-13]
    const RETAIN_AS_PUBLISHED: u8 = 0x08;
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = Wire::login(Protocol::V5, site.gateway.mqtt(), &who.credentials, 60).await;
    let filter = who.topic("$thing/down/+");
    let filters = [(&*filter, RETAIN_AS_PUBLISHED)];
    wire.send(&packet::subscribe(Protocol::V5, 1, &filters))
        .await;
    assert_eq!(wire.packet().await.unwrap()[0], 0x90);
    let subject = who.subject("device.down.mqtt.thing");
    for (headers, first) in [(&[RETAIN][..], 0x31), (&[], 0x30)] {
        backend.publish(&subject, headers, "value").await;
        assert_eq!(wire.packet().await.unwrap()[0], first);
    }
}

#[tokio::test]
async fn g31_the_copy_has_the_lifetime_of_the_message() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let subject = who.subject("device.down.mqtt.thing");
    let keys = format!("{subject}.*");
    let expires = (jetway::telemetry::now_unix_ms() + 10_000).to_string();
    backend
        .publish(&subject, &[RETAIN, ("Jw-Expires", &expires)], "short")
        .await;
    kept(&backend, &keys, &["short"]).await;
    kept(&backend, &keys, &[]).await;
    let mut device = site.connect(Protocol::V5, &who).await;
    assert_eq!(subscribe(&backend, &mut device, &who).await, [""; 0]);
}

#[tokio::test]
async fn a_value_that_only_just_fits_into_nats_is_not_retained_and_holds_nothing_up() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let (who, other) = (site.device(), site.device());
    let mut device = site.connect(Protocol::V5, &other).await;
    assert_eq!(subscribe(&backend, &mut device, &other).await, [""; 0]);
    let headers = "NATS/1.0\r\nJw-Retain: 1\r\n\r\n".len();
    let bytes = backend.client.server_info().max_payload - headers;
    let thing = |who: &Registered| who.subject("device.down.mqtt.thing");
    backend
        .publish(&thing(&who), &[RETAIN], vec![b'x'; bytes])
        .await;
    backend.publish(&thing(&other), &[RETAIN], "next").await;
    assert_eq!(device.next().await.text(), "next");
    kept(&backend, &(thing(&other) + ".*"), &["next"]).await;
    kept(&backend, &(thing(&who) + ".*"), &[]).await;
}

#[tokio::test]
async fn two_nodes_write_each_copy_once_and_in_order() {
    const COUNT: usize = 60;
    let site = Site::start(&[]).await;
    let other = site.further_gateway().await;
    let backend = site.backend().await;
    let (who, else_where) = (site.device(), site.device());
    let mut one = site.connect(Protocol::V5, &who).await;
    let mut two = Device::connect(Protocol::V311, other.mqtt(), &else_where.credentials).await;
    for (device, who) in [(&mut one, &who), (&mut two, &else_where)] {
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
    }
    let mut headers = HeaderMap::new();
    headers.insert(RETAIN.0, RETAIN.1);
    let mut acks = Vec::new();
    for number in 0..COUNT {
        let subject = who.subject("device.down.thing");
        let publish = (backend.jetstream)
            .publish_with_headers(subject, headers.clone(), number.to_string().into())
            .await;
        acks.push(publish.unwrap());
    }
    for ack in acks {
        ack.await.unwrap();
    }
    // Both nodes have done with all when each has delivered the message behind them.
    backend
        .publish(&else_where.subject("device.down.thing"), &[], "end")
        .await;
    assert_eq!(two.next().await.text(), "end");
    for number in 0..COUNT {
        assert_eq!(one.next().await.text(), number.to_string());
    }
    let last = (COUNT - 1).to_string();
    let keys = who.subject("device.down.mqtt.thing") + ".*";
    let found = kept(&backend, &keys, &[&last]).await;
    assert_eq!(found[0].sequence, u64::try_from(COUNT).unwrap());
    let written = backend
        .stream(BUCKET)
        .await
        .cached_info()
        .state
        .last_sequence;
    assert_eq!(written, found[0].sequence);
}

#[tokio::test]
async fn of_services_and_clients_the_last_one_counts() {
    let gateway = start(None).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    for protocol in BOTH {
        let connect = async |role: &str| {
            let name = format!("{role}{protocol:?}");
            Device::connect(protocol, gateway.mqtt(), &client(&name)).await
        };
        let topic = format!("state/{protocol:?}");
        let subject = format!("mqtt.state.{protocol:?}");
        let mut publisher = connect("publisher").await;
        let mut live = connect("live").await;
        assert_eq!(live.subscribe(&topic).await, 1);
        for (round, value) in ["service", "client", "again"].into_iter().enumerate() {
            if value == "client" {
                let retain = true;
                publisher.publish(Publish {
                    retain,
                    ..Publish::new(&topic, value)
                });
                publisher.acked().await.unwrap();
            } else {
                backend.publish(&subject, &[RETAIN], value).await;
            }
            let received = live.next().await;
            assert_eq!((received.text(), received.retain), (value, false));
            let mut later = connect(&format!("later {round} ")).await;
            assert_eq!(later.subscribe("state/+").await, 1);
            loop {
                let received = later.next().await;
                assert!(received.retain);
                if received.topic == topic {
                    assert_eq!(received.text(), value);
                    break;
                }
            }
        }
    }
}
