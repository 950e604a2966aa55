//! Messages that MQTT takes and NATS does not: each is refused alone, and nobody else notices (G14, G-ISOLATE).

use async_nats::jetstream::stream::Config;

use crate::site::{BOTH, Site};
use crate::support::{Protocol, Wire, packet};

/// A PUBLISH within the gateway's packet limit, of which so little becomes so much in NATS headers that payload and
/// headers are more than the server's `max_payload`.
fn beyond_max_payload(protocol: Protocol, topic_head: &str, device: &str) -> Vec<u8> {
    const PACKET_BYTES: usize = 1_040_000;
    let (topic, properties) = match protocol {
        // Control characters take three bytes each in a header.
        Protocol::V311 => {
            let level = "\u{1}".repeat(20_000);
            (format!("{topic_head}/{level}/{device}"), Vec::new())
        }
        Protocol::V5 => {
            let property = [&[0x26][..], &packet::string("n"), &packet::string("")].concat();
            let properties = property.repeat(4_900);
            let length = packet::variable_byte_integer(properties.len());
            let section = [&length[..], &properties].concat();
            (format!("{topic_head}/{device}"), section)
        }
    };
    let mut body = packet::string(&topic);
    body.extend([0, 7]);
    body.extend(properties);
    body.resize(PACKET_BYTES, b'x');
    packet::packet(0x32, &body)
}

#[tokio::test]
async fn g14_a_message_beyond_max_payload_is_refused_alone_and_at_once() {
    let site = Site::start(&[("JETWAY_PUBLISHER_SHARDS", "1")]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, neighbour_is) = (site.device(), site.device());
        let mut neighbour = site.connect(Protocol::V5, &neighbour_is).await;
        let address = site.gateway.mqtt();
        let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
        let device = format!("{}/{}", who.product, who.name);
        wire.send(&beyond_max_payload(protocol, "$thing/up/property", &device))
            .await;
        let reports = neighbour_is.reports();
        assert_eq!(neighbour.publish_acked(&reports, "here").await, 0);
        match protocol {
            // It has no negative PUBACK.
            Protocol::V311 => assert!(wire.closed().await.is_empty()),
            Protocol::V5 => {
                let puback = wire.packet().await.unwrap();
                assert_eq!((puback[0], &puback[2..5]), (0x40, &[0, 7, 0x97][..]));
            }
        }
        assert!(who.stored(&backend).await.is_empty());
    }
    let retries = site.gateway.metric("jetway_uplink_stream_retries_total");
    assert!(retries.await < 1.0, "nothing was sent again");
}

#[tokio::test]
async fn g14_a_message_larger_than_the_stream_takes_is_refused_and_mqtt_5_stays_connected() {
    // G26. PUBACK cannot say "packet too large" [MQTT-3.4.2-1].
    let site = Site::start(&[]).await;
    let backend = site.backend().await;
    let stream = backend.stream("DEVICE_UP").await;
    let small = Config {
        max_message_size: 2_000,
        ..stream.cached_info().config.clone()
    };
    backend.jetstream.update_stream(&small).await.unwrap();
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    let reports = who.reports();
    assert_eq!(
        device.publish_acked(&reports, vec![b'x'; 3_000]).await,
        0x97
    );
    assert_eq!(device.publish_acked(&reports, "fits").await, 0);
    assert_eq!(who.stored(&backend).await.len(), 1);
}
