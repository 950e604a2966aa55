//! PUBACK means stored: with a nats-server that is paused, full, or lost its streams. Each test has its own servers.

use async_nats::jetstream::stream::{Config, DiscardPolicy};

use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Protocol, Wire, eventually, packet};

/// The Packet Identifiers of PUBACKs that say "stored", in order; anything else is a failure.
fn stored_acks(packets: &[Vec<u8>]) -> Vec<u16> {
    let identifier = |packet: &Vec<u8>| {
        assert_eq!(packet[..2], [0x40, 2], "{packet:02x?}");
        u16::from_be_bytes([packet[2], packet[3]])
    };
    packets.iter().map(identifier).collect()
}

async fn login(site: &Site, protocol: Protocol, who: &Registered) -> Wire {
    Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await
}

/// Reads PUBACKs until there are so many.
async fn acks(wire: &mut Wire, count: u16) -> Vec<u16> {
    let mut packets = Vec::new();
    for _ in 0..count {
        packets.push(wire.packet().await.expect("a PUBACK"));
    }
    stored_acks(&packets)
}

#[tokio::test]
async fn g05_no_puback_comes_while_the_store_does_not_answer_and_pings_are_answered() {
    // G27, G-STORE, G-ONCE: a device beyond its window is held back, not buffered and not cut off.
    const WINDOW: u16 = 10;
    let site = Site::start(&[
        ("JETWAY_SESSION_UPLINK_INFLIGHT_MAX", "10"),
        ("JETWAY_PUBLISHER_ACK_TIMEOUT_MS", "100"),
    ])
    .await;
    let backend = site.backend().await;
    // A 3.1.1 device does not know the window and sends more than it.
    for (protocol, count) in BOTH.into_iter().zip([3 * WINDOW, WINDOW]) {
        let who = site.device();
        let mut wire = login(&site, protocol, &who).await;
        wire.send(&packet::publish(protocol, &who.reports(), Some(1), b"0"))
            .await;
        assert_eq!(acks(&mut wire, 1).await, [1]);

        site.nats.pause().await;
        let retries = site
            .gateway
            .metric("jetway_uplink_stream_retries_total")
            .await;
        for number in 1..=count {
            let payload = number.to_string();
            let publish = packet::publish(
                protocol,
                &who.reports(),
                Some(number + 1),
                payload.as_bytes(),
            );
            wire.send(&publish).await;
            let before = wire.ping().await;
            assert!(
                before.is_empty(),
                "{protocol:?}: acknowledged unstored: {before:02x?}"
            );
        }
        // The gateway sends again what is not answered, and still none is acknowledged.
        site.counted("jetway_uplink_stream_retries_total", retries + 1.0)
            .await;
        let before = wire.ping().await;
        assert!(before.is_empty(), "{protocol:?}: {before:02x?}");
        site.nats.resume();

        let acked = acks(&mut wire, count).await;
        assert!(acked.into_iter().eq(2..=count + 1), "{protocol:?}");
        let stored = who.stored(&backend).await;
        let stored = stored.iter().map(|message| message.text().to_owned());
        assert!(
            stored.eq((0..=count).map(|number| number.to_string())),
            "{protocol:?}: messages are missing, repeated or out of order"
        );
    }
}

#[tokio::test]
async fn g39_a_window_overrun_by_mqtt_5_is_answered_with_receive_maximum_exceeded() {
    // [MQTT-3.3.4-9]
    let site = Site::start(&[("JETWAY_SESSION_UPLINK_INFLIGHT_MAX", "3")]).await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = login(&site, Protocol::V5, &who).await;
    site.nats.pause().await;
    for packet_id in 1..=4 {
        let publish = packet::publish(Protocol::V5, &who.reports(), Some(packet_id), b"x");
        wire.send(&publish).await;
    }
    assert_eq!(wire.closed().await, packet::disconnect(0x93));
    site.nats.resume();
    who.stored_count(&backend, 3).await;
    site.gateway.until_ready().await;
}

#[tokio::test]
async fn g05_a_full_store_refuses_and_heals_without_a_restart() {
    // G26
    const QUOTA_EXCEEDED: u8 = 0x97;
    let site = Site::start(&[]).await;
    let backend = site.backend().await;
    let stream = backend.stream("DEVICE_UP").await;
    let full = Config {
        max_messages: 2,
        discard: DiscardPolicy::New,
        ..stream.cached_info().config.clone()
    };
    backend.jetstream.update_stream(&full).await.unwrap();
    for protocol in BOTH {
        stream.purge().await.unwrap();
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        for _ in 0..2 {
            assert_eq!(device.publish_acked(&who.reports(), "fits").await, 0);
        }
        let refused = site
            .gateway
            .metric("jetway_uplink_stream_refused_total")
            .await;
        match protocol {
            Protocol::V5 => {
                let reason = device.publish_acked(&who.reports(), "too much").await;
                assert_eq!(reason, QUOTA_EXCEEDED);
            }
            // It has no negative PUBACK, so it is cut off without one and sends again later.
            Protocol::V311 => {
                let mut wire = login(&site, protocol, &who).await;
                wire.send(&packet::publish(
                    protocol,
                    &who.reports(),
                    Some(9),
                    b"too much",
                ))
                .await;
                assert!(wire.closed().await.is_empty());
                device = site.connect(protocol, &who).await;
            }
        }
        site.counted("jetway_uplink_stream_refused_total", refused)
            .await;
        stream.purge().await.unwrap();
        assert_eq!(device.publish_acked(&who.reports(), "healed").await, 0);
        let stored = who.stored(&backend).await;
        assert_eq!(stored.len(), 1);
        assert_eq!(stored[0].text(), "healed");
    }
}

/// Deletes a stream; its configuration makes it again.
async fn delete(backend: &Backend, name: &str) -> Config {
    let config = backend.stream(name).await.cached_info().config.clone();
    backend.jetstream.delete_stream(name).await.unwrap();
    config
}

#[tokio::test]
async fn traffic_resumes_when_a_lost_stream_is_made_again() {
    // G25, G26: a missing stream means not ready.
    let site = Site::start(&[]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        assert_eq!(device.publish_acked(&who.reports(), "before").await, 0);

        let up = delete(&backend, "DEVICE_UP").await;
        site.gateway.until_not_ready("DEVICE_UP").await;
        assert_eq!(site.gateway.get("/livez").await.0, 200);
        let retries = site
            .gateway
            .metric("jetway_uplink_stream_retries_total")
            .await;
        let topic = who.reports();
        let made_again = async {
            // The message waits for the stream, for as long as the retry budget lasts.
            site.counted("jetway_uplink_stream_retries_total", retries)
                .await;
            backend.jetstream.create_stream(up).await.unwrap();
        };
        let publish = device.publish_acked(&topic, "meanwhile");
        let (acked, ()) = tokio::join!(publish, made_again);
        assert_eq!(acked, 0);
        let stored = who.stored(&backend).await;
        assert_eq!(stored.len(), 1);
        assert_eq!(stored[0].text(), "meanwhile");

        let subject = who.subject("device.down.thing");
        for number in 0..3 {
            backend.publish(&subject, &[], format!("{number}")).await;
            assert_eq!(device.next().await.text(), format!("{number}"));
        }
        // Its sequences begin again, below those that the session has seen.
        let down = delete(&backend, "DEVICE_DOWN").await;
        site.gateway.until_not_ready("DEVICE_DOWN").await;
        backend.jetstream.create_stream(down).await.unwrap();
        site.gateway.until_ready().await;
        for form in ["device.down.mqtt.thing", "device.down.thing"] {
            backend.publish(&who.subject(form), &[], form).await;
            assert_eq!(device.next().await.text(), form);
        }
    }
}

#[tokio::test]
async fn what_a_lost_stream_had_is_not_removed_from_the_one_in_its_place() {
    // G25: sequences begin again, so what is late for the old stream would remove another message of the new one.
    let site = Site::start(&[]).await;
    let (backend, who) = (site.backend().await, site.device());
    let mut wire = login(&site, Protocol::V311, &who).await;
    let topic = who.topic("$thing/down/property");
    let subscribe = packet::subscribe(Protocol::V311, 1, &[(&topic, 1)]);
    wire.send(&subscribe).await;
    assert_eq!(wire.packet().await.unwrap(), [0x90, 3, 0, 1, 1]);
    let subject = who.subject("device.down.thing");
    backend.publish(&subject, &[], "old".to_owned()).await;
    let publish = wire.packet().await.expect("PUBLISH");

    let down = delete(&backend, "DEVICE_DOWN").await;
    let errors = async || {
        let account = backend.jetstream.query_account().await.unwrap();
        account.requests.errors
    };
    let before = errors().await;
    let removal = "$JS.API.STREAM.MSG.DELETE.DEVICE_DOWN";
    let mut removals = backend.subscribe(removal).await;
    let packet_id = publish.len() - "old".len() - 2;
    wire.send(&[0x40, 2, publish[packet_id], publish[packet_id + 1]])
        .await;
    assert!(wire.ping().await.is_empty());
    // Other requests about the stream are refused, too, perhaps before this one is sent.
    backend.next(&mut removals).await;
    eventually("the removal is refused", async || match errors().await {
        now if now > before => Ok(()),
        now => Err(format!("{now} errors")),
    })
    .await;
    backend.jetstream.create_stream(down).await.unwrap();
    backend.publish(&subject, &[], "new".to_owned()).await;
    let publish = wire.packet().await.expect("PUBLISH");
    assert!(publish.ends_with(b"new"), "{publish:02x?}");
}

#[tokio::test]
async fn tree_handle_stores_the_form_without_the_protocol() {
    let site = Site::start(&[("JETWAY_MAPPING_TREE", "handle")]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        for (handle, head) in [
            ("thing", "$thing/up/property"),
            ("ota", "$ota/up/progress"),
            ("rpc", "$rpc/up/1"),
        ] {
            assert_eq!(device.publish_acked(&who.topic(head), head).await, 0);
            let filter = who.subject(&format!("device.up.{handle}"));
            let stored = backend.messages("DEVICE_UP", &filter).await;
            assert_eq!(stored.len(), 1, "{filter}");
            assert_eq!(stored[0].text(), head);
        }
    }
    let all = backend.messages("DEVICE_UP", ">").await;
    assert_eq!(all.len(), 6, "each is stored once, in this form alone");
}
