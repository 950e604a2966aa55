//! The Will: once after an abnormal end, through the path of the device's ordinary publishes, and never otherwise (G10).

use bytes::Bytes;

use crate::events::events;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Connect, Credentials, Device, Protocol, Publish, Stored, Wire, packet};

/// A connected device whose Will is a report with these bytes.
async fn with_will(site: &Site, protocol: Protocol, who: &Registered, payload: &str) -> Device {
    let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
    connect.will = Some(Publish::new(
        &who.reports(),
        Bytes::from(payload.to_owned()),
    ));
    Device::connect_with(connect).await.unwrap()
}

fn texts(stored: &[Stored]) -> Vec<&str> {
    stored.iter().map(Stored::text).collect()
}

#[tokio::test]
async fn g10_a_lost_connection_publishes_its_will_once() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = with_will(&site, protocol, &who, "lost").await;
        assert_eq!(device.publish_acked(&who.reports(), "alive").await, 0);
        drop(device);
        let stored = who.stored_count(&backend, 2).await;
        assert_eq!(texts(&stored), ["alive", "lost"], "{protocol:?}");
        assert_eq!(stored[1].subject, who.subject("device.up.mqtt.thing"));
        assert_eq!(
            (stored[1].header("Jw-Type"), stored[1].header("Jw-Qos")),
            ("property", "1")
        );
        // It has one id, whoever publishes it: another node would, if this one died.
        let id = stored[0].header("Jw-Id").strip_suffix(".1").unwrap();
        assert_eq!(stored[1].header("Jw-Id"), format!("{id}.will"));

        // Nothing of it is left over for a later connection, which has no Will.
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "back").await, 0);
        drop(device);
        events(&backend, &who, 4).await;
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "again").await, 0);
        let stored = who.stored(&backend).await;
        assert_eq!(texts(&stored), ["alive", "lost", "back", "again"]);
    }
}

#[tokio::test]
async fn g10_a_protocol_error_and_a_takeover_publish_the_will() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut wire = Wire::connect(site.gateway.mqtt()).await;
        let connect = connect_with_will(protocol, &who, "protocol error");
        wire.send(&connect).await;
        wire.accepted().await;
        wire.send(&connect).await;
        wire.closed().await;
        who.stored_count(&backend, 1).await;

        let mut first = with_will(&site, protocol, &who, "taken over").await;
        let second = with_will(&site, protocol, &who, "not this one").await;
        first.closed().await;
        let stored = who.stored_count(&backend, 2).await;
        assert_eq!(texts(&stored), ["protocol error", "taken over"]);
        second.disconnect().await;
    }
}

#[tokio::test]
async fn g10_silence_beyond_the_keep_alive_publishes_the_will() {
    let site = Site::start(&[("JETWAY_SESSION_KEEP_ALIVE_MAX_S", "1")]).await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        // It says nothing, as it does so only inside calls.
        let device = with_will(&site, protocol, &who, "silent").await;
        let stored = who.stored_count(&backend, 1).await;
        assert_eq!(texts(&stored), ["silent"], "{protocol:?}");
        let all = events(&backend, &who, 2).await;
        assert_eq!(all[1].what(), "keep_alive_timeout");
        drop(device);
    }
}

#[tokio::test]
async fn g10_a_normal_disconnect_discards_the_will() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        with_will(&site, protocol, &who, "discarded")
            .await
            .disconnect()
            .await;
        events(&backend, &who, 2).await;
        // Behind the end of that connection, in the order of this device.
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "later").await, 0);
        assert_eq!(
            texts(&who.stored(&backend).await),
            ["later"],
            "{protocol:?}"
        );
    }
}

#[tokio::test]
async fn g10_a_disconnect_with_reason_4_publishes_the_will() {
    // [MQTT-3.14.4-3]. rumqttc has no way to say it.
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    let connect = connect_with_will(Protocol::V5, &who, "asked for");
    wire.send(&connect).await;
    wire.accepted().await;
    wire.send(&[0xE0, 1, 0x04]).await;
    assert!(wire.closed().await.is_empty());
    let stored = who.stored_count(&backend, 1).await;
    assert_eq!(texts(&stored), ["asked for"]);
    let all = events(&backend, &who, 2).await;
    assert_eq!(all[1].what(), "normal_with_will");
}

/// A CONNECT with a Will of QoS 1.
fn connect_with_will(protocol: Protocol, who: &Registered, payload: &str) -> Vec<u8> {
    let (level, no_properties) = match protocol {
        Protocol::V311 => (4, &[][..]),
        Protocol::V5 => (5, &[0][..]),
    };
    let mut body = packet::string("MQTT");
    body.extend([level, 0xC2 | 0x0C, 0, 60]);
    body.extend(no_properties);
    body.extend(packet::string(&who.credentials.client_id));
    body.extend(no_properties);
    for text in [
        &who.reports(),
        payload,
        &who.credentials.username,
        &who.credentials.password,
    ] {
        body.extend(packet::string(text));
    }
    packet::packet(0x10, &body)
}

#[tokio::test]
async fn g10_the_will_of_a_refused_connect_is_never_published() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let stranger = Credentials::new(&who.product, &who.name, "BBBBBBBB");
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &stranger);
        connect.will = Some(Publish::new(&who.reports(), "forged"));
        let refused = Device::connect_with(connect).await;
        assert!(refused.is_err());
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "own").await, 0);
        assert_eq!(texts(&who.stored(&backend).await), ["own"], "{protocol:?}");
    }
}

#[tokio::test]
async fn g09_a_will_may_be_retained_and_of_qos_2() {
    // [MQTT-3.1.2-16], [MQTT-3.1.2-17]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.will = Some(Publish {
            qos: 2,
            retain: true,
            ..Publish::new(&who.reports(), "last")
        });
        drop(Device::connect_with(connect).await.unwrap());
        let stored = who.stored_count(&backend, 1).await;
        assert_eq!(texts(&stored), ["last"], "{protocol:?}");
        let (qos, retain) = (stored[0].header("Jw-Qos"), stored[0].header("Jw-Retain"));
        assert_eq!((qos, retain), ("2", "1"));
    }
}
