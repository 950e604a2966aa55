//! What a device may listen to: SUBACK grants exactly what will be delivered (G09), within the device's scope (G23).

use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Device, Protocol, Wire, packet};

/// SUBACK's code for a filter that another reason of MQTT 5 refuses; 3.1.1 has one failure.
fn failure(protocol: Protocol, reason: u8) -> u8 {
    match protocol {
        Protocol::V311 => 0x80,
        Protocol::V5 => reason,
    }
}

/// Sends a downlink of this type and expects the device to get it next.
async fn assert_hears(backend: &Backend, who: &Registered, device: &mut Device, kind: &str) {
    let subject = who.subject("device.down.thing");
    backend
        .publish(&subject, &[("Jw-Type", kind)], kind.to_owned())
        .await;
    let received = device.next().await;
    assert_eq!(received.topic, who.topic(&format!("$thing/down/{kind}")));
    assert_eq!(received.text(), kind);
}

#[tokio::test]
async fn g09_own_down_topics_are_granted_with_the_qos_that_is_asked_for() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        for (filter, asked, granted) in [
            (who.topic("$thing/down/property"), 0, 0),
            (who.topic("$thing/down/property"), 2, 2),
            (who.topic("$thing/down/+"), 1, 1),
            (who.topic("$ota/down/upgrade"), 1, 1),
            (who.topic("$thing/down/property/custom"), 1, 1),
            (who.topic("$rpc/down/+"), 1, 1),
        ] {
            let code = device.subscribe_qos(&filter, asked).await;
            assert_eq!(code, granted, "{protocol:?} {filter}");
        }
        for kind in ["property", "event", "action"] {
            assert_hears(&backend, &who, &mut device, kind).await;
        }
        assert_eq!(device.waiting(), 0, "overlapping filters deliver once");
    }
}

#[tokio::test]
async fn g23_what_is_beyond_the_devices_scope_is_denied_and_the_connection_stays() {
    const NOT_AUTHORIZED: u8 = 0x87;
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (who, other) = (site.device(), site.device());
        let mut device = site.connect(protocol, &who).await;
        for filter in [
            other.topic("$thing/down/property"),
            other.topic("$thing/down/+"),
            who.topic("$thing/up/property"),
            who.topic("$thing/+/property"),
            who.topic("+/down/property"),
            format!("$thing/down/property/{}/+", who.product),
            format!("$thing/down/property/+/{}", who.name),
            format!("$thing/down/property/{}/#", who.product),
            "$thing/down/#".to_owned(),
            "$thing/down/property/+/+".to_owned(),
            "#".to_owned(),
            "+/+/+/+/+".to_owned(),
            "$SYS/#".to_owned(),
            "custom/topic".to_owned(),
        ] {
            let code = device.subscribe(&filter).await;
            assert_eq!(code, failure(protocol, NOT_AUTHORIZED), "{filter}");
        }
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        // Only the granted one delivers, and only what is this device's.
        for subject in [
            other.subject("device.down.thing"),
            who.subject("device.down.ota"),
        ] {
            backend.publish(&subject, &[], "not for it").await;
        }
        assert_hears(&backend, &who, &mut device, "property").await;
        assert_eq!(device.publish_acked(&who.reports(), "still here").await, 0);
        assert_eq!(device.waiting(), 0);
    }
}

#[tokio::test]
async fn every_filter_of_a_subscribe_gets_its_own_code_in_order() {
    // [MQTT-3.8.4-6]
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let address = site.gateway.mqtt();
        let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
        let own = who.topic("$thing/down/+");
        let ota = who.topic("$ota/down/+");
        let shared = format!("$share/group/{own}");
        let filters = [(&*own, 1), ("#", 1), (&*ota, 0), (&*shared, 1)];
        wire.send(&packet::subscribe(protocol, 7, &filters)).await;
        let suback = wire.packet().await.unwrap();
        let codes = [1, failure(protocol, 0x87), 0, failure(protocol, 0x9E)];
        assert_eq!(suback[0], 0x90);
        assert_eq!(suback[2..4], [0, 7]);
        assert_eq!(suback[suback.len() - 4..], codes, "{suback:02x?}");
    }
}

#[tokio::test]
async fn g09_shared_subscriptions_are_refused() {
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let shared = format!("$share/group/{}", who.topic("$thing/down/property"));
        assert_eq!(device.subscribe(&shared).await, failure(protocol, 0x9E));
        assert_eq!(device.publish_acked(&who.reports(), "still here").await, 0);
    }
}

#[tokio::test]
async fn g09_a_delivery_has_the_identifiers_of_all_subscriptions_that_match() {
    // [MQTT-3.3.4-4], [MQTT-3.8.4-3]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = Wire::login(Protocol::V5, site.gateway.mqtt(), &who.credentials, 60).await;
    let topic = who.topic("$thing/down/property");
    // One more than what a byte of a Variable Byte Integer holds, then replaced.
    for (filter, identifier) in [
        (&*topic, &[5][..]),
        (&who.topic("$thing/down/+"), &[0x80, 0x01]),
        (&topic, &[6]),
    ] {
        let mut body = vec![0, 1, u8::try_from(identifier.len() + 1).unwrap(), 0x0B];
        body.extend(identifier);
        body.extend(packet::string(filter));
        body.push(0);
        wire.send(&packet::packet(0x82, &body)).await;
        let suback = wire.packet().await.unwrap();
        assert_eq!(suback, packet::packet(0x90, &[0, 1, 0, 0]));
    }
    let subject = who.subject("device.down.mqtt.thing");
    backend.publish(&subject, &[], "{}").await;
    let both = [5, 0x0B, 6, 0x0B, 0x80, 0x01];
    let body = [&packet::string(&topic), &both[..], b"{}"].concat();
    assert_eq!(wire.packet().await.unwrap(), packet::packet(0x30, &body));
    assert!(wire.ping().await.is_empty(), "one delivery");
}

#[tokio::test]
async fn g18_misplaced_wildcards_and_empty_subscribes_end_the_connection() {
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        for filters in [
            vec![("$thing/down/pro+/flows/d", 1)],
            vec![("$thing/#/x", 1)],
            vec![("", 1)],
            Vec::new(),
        ] {
            let address = site.gateway.mqtt();
            let mut wire = Wire::login(protocol, address, &who.credentials, 60).await;
            wire.send(&packet::subscribe(protocol, 1, &filters)).await;
            let goodbye = wire.closed().await;
            match protocol {
                Protocol::V311 => assert!(goodbye.is_empty(), "{filters:?}: {goodbye:02x?}"),
                Protocol::V5 => assert_eq!(goodbye.first(), Some(&0xE0), "{filters:?}"),
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_delivered_after_unsubscribe() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let (things, updates) = (who.topic("$thing/down/+"), who.topic("$ota/down/+"));
        assert_eq!(device.subscribe(&things).await, 1);
        assert_eq!(device.subscribe(&updates).await, 1);
        assert_hears(&backend, &who, &mut device, "property").await;
        assert_eq!(device.unsubscribe(&things).await, 0);
        let none = match protocol {
            Protocol::V311 => 0,
            Protocol::V5 => 0x11,
        };
        assert_eq!(device.unsubscribe(&things).await, none);
        backend
            .publish(&who.subject("device.down.mqtt.thing"), &[], "unheard")
            .await;
        backend
            .publish(&who.subject("device.down.mqtt.ota"), &[], "heard")
            .await;
        assert_eq!(device.next().await.text(), "heard");
    }
}
