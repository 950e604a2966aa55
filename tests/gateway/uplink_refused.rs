//! What a device may not send: what it is told, that nothing of it is stored, and that nobody else notices.

use crate::site::{BOTH, Site};
use crate::support::{Protocol, Publish, Wire, packet};

const NOT_AUTHORIZED: u8 = 0x87;

#[tokio::test]
async fn g23_a_publish_beyond_the_devices_scope_is_denied_and_the_connection_stays() {
    // G-ISOLATE. MQTT 3.1.1 has no refusal: acknowledged and discarded.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for (protocol, reason) in BOTH.into_iter().zip([0, NOT_AUTHORIZED]) {
        let (who, other) = (site.device(), site.device());
        let mut device = site.connect(protocol, &who).await;
        let denied = [
            other.reports(),
            who.topic("$thing/down/property"),
            who.topic("$thing/up"),
            who.topic("$thing/sideways/property"),
            who.topic("$rpc/up/1/2"),
            who.topic("$sys/up/property"),
            who.topic("/$thing/up/property"),
            who.reports() + "/",
            format!("$thing/up/property/{}//{}", who.product, who.name),
            "custom/topic".to_owned(),
        ];
        let before = site.gateway.metric("jetway_uplink_denied_total").await;
        for topic in &denied {
            assert_eq!(
                device.publish_acked(topic, "denied").await,
                reason,
                "{topic}"
            );
            device.publish(Publish {
                qos: 0,
                ..Publish::new(topic, "denied")
            });
        }
        assert_eq!(device.publish_acked(&who.reports(), "allowed").await, 0);
        let stored = who.stored(&backend).await;
        assert_eq!(stored.len(), 1, "{protocol:?}");
        assert_eq!(stored[0].text(), "allowed");
        assert!(other.stored(&backend).await.is_empty());
        let counted = site.gateway.metric("jetway_uplink_denied_total").await - before;
        assert!(counted >= 2.0 * denied.len() as f64, "{counted}");
    }
}

#[tokio::test]
async fn g18_a_wildcard_in_a_topic_name_ends_the_connection() {
    let site = Site::shared().await;
    // rumqttc does not send it.
    for protocol in BOTH {
        let who = site.device();
        let address = site.gateway.mqtt();
        let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
        let topic = who.reports().replace("property", "+");
        wire.send(&packet::publish(protocol, &topic, Some(1), b"any"))
            .await;
        let goodbye = wire.closed().await;
        match protocol {
            Protocol::V311 => assert!(goodbye.is_empty(), "{goodbye:02x?}"),
            Protocol::V5 => assert_eq!(goodbye, packet::disconnect(0x81)),
        }
    }
}

#[tokio::test]
async fn g14_an_oversize_packet_ends_its_connection_and_disturbs_no_other() {
    // Its length alone is enough: nothing is read, or reserved, for the rest.
    let site = Site::shared().await;
    let backend = site.backend().await;
    let neighbour_is = site.device();
    let mut neighbour = site.connect(Protocol::V5, &neighbour_is).await;
    let limit = neighbour
        .connack_properties
        .as_ref()
        .unwrap()
        .max_packet_size;
    let limit = usize::try_from(limit.unwrap()).unwrap();
    for protocol in BOTH {
        let who = site.device();
        for length_alone in [true, false] {
            let oversize = packet::publish(protocol, &who.reports(), Some(1), &vec![b'x'; limit]);
            let sent = if length_alone { 5 } else { oversize.len() };
            let address = site.gateway.mqtt();
            let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
            wire.send(&oversize[..sent]).await;
            let goodbye = wire.closed().await;
            match protocol {
                Protocol::V311 => assert!(goodbye.is_empty(), "{goodbye:02x?}"),
                Protocol::V5 => assert_eq!(goodbye, packet::disconnect(0x95), "{length_alone}"),
            }
            assert_eq!(
                neighbour
                    .publish_acked(&neighbour_is.reports(), "here")
                    .await,
                0
            );
        }
        assert!(who.stored(&backend).await.is_empty());
    }
    let closed = site
        .gateway
        .metric("jetway_disconnects_total{reason=\"packet_too_large\"}")
        .await;
    assert!(closed >= 4.0, "{closed}");
}

#[tokio::test]
async fn g16_a_device_ends_its_own_connection_alone() {
    let site = Site::shared().await;
    let (who, neighbour_is) = (site.device(), site.device());
    let mut neighbour = site.connect(Protocol::V311, &neighbour_is).await;
    for protocol in BOTH {
        let mut wire = Wire::login(protocol, site.gateway.mqtt(), &who.credentials, 60).await;
        wire.send(&packet::PINGRESP).await;
        wire.closed().await;
        assert_eq!(
            neighbour
                .publish_acked(&neighbour_is.reports(), "here")
                .await,
            0
        );
        // The same device comes back at once.
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "back").await, 0);
    }
}
