//! What becomes of a downlink is said, once and with its bytes: receipts where the sender asks for them, dead letters where it is
//! not delivered.

use async_nats::Subscriber;
use rumqttc::v5::mqttbytes::v5::ConnectProperties;
use serde_json::Value;

use crate::offline::{forgotten, stored, subscribe_and_leave};
use crate::session_present::passed;
use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Connect, Device, Protocol, Stored, Wire, packet};

async fn receipt(backend: &Backend, receipts: &mut Subscriber) -> Value {
    let message = backend.next(receipts).await;
    serde_json::from_slice(&message.payload).unwrap()
}

/// The only dead letter of a device, once it is there and nothing else is stored for the device.
async fn dead_letter(backend: &Backend, who: &Registered) -> Stored {
    let filter = who.subject("dlq.downlink");
    backend.wait_for("DLQ", &filter, 1).await;
    forgotten(backend, who).await;
    let mut dead = backend.messages("DLQ", &filter).await;
    assert_eq!(dead.len(), 1, "{dead:?}");
    dead.remove(0)
}

#[tokio::test]
async fn g30_a_sender_is_told_that_its_downlink_was_sent_and_that_the_device_has_it() {
    // G-DOWN
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let filter = who.topic("$thing/down/+");
        assert_eq!(device.subscribe_qos(&filter, 2).await, 2);
        let subject = who.subject("receipts");
        let mut receipts = backend.subscribe(&subject).await;
        for (qos, expected) in [
            ("0", &["sent"][..]),
            ("1", &["sent", "delivered"]),
            ("2", &["sent", "delivered"]),
        ] {
            let headers = [("Jw-Qos", qos), ("Jw-Receipt", &subject), ("Jw-Id", "17")];
            let down = who.subject("device.down.mqtt.thing");
            let sequence = backend.publish(&down, &headers, "x").await;
            assert_eq!(device.next().await.qos.to_string(), qos);
            // What the device answers is sent inside a call that waits.
            assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
            if qos == "2" {
                assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
            }
            for receipt_expected in expected {
                let receipt = receipt(&backend, &mut receipts).await;
                assert_eq!(receipt["receipt"], *receipt_expected, "{protocol:?} {qos}");
                assert_eq!(receipt["stream_sequence"], sequence);
                assert_eq!(receipt["id"], "17");
                assert_eq!(receipt["device_name"], who.name);
                assert_eq!(receipt["topic"], who.topic("$thing/down/property"));
            }
        }
        forgotten(&backend, &who).await;
        assert!(
            backend
                .messages("DLQ", &who.subject("dlq.downlink"))
                .await
                .is_empty()
        );
    }
}

#[tokio::test]
async fn g30_a_receipt_comes_also_if_the_device_acknowledges_on_its_next_connection() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        for qos in [1, 2] {
            let who = site.device();
            let mut connect = stored(&site, protocol, &who);
            subscribe_and_leave(connect.clone(), &who, qos).await;
            let subject = who.subject("receipts");
            let mut receipts = backend.subscribe(&subject).await;
            let headers = [("Jw-Qos", &*qos.to_string()), ("Jw-Receipt", &subject)];
            let down = who.subject("device.down.mqtt.thing");
            backend.publish(&down, &headers, "x").await;
            connect.manual_acks = true;
            let mut device = Device::connect_with(connect.clone()).await.unwrap();
            device.next().await;
            assert_eq!(receipt(&backend, &mut receipts).await["receipt"], "sent");
            drop(device);
            connect.manual_acks = false;
            let mut device = Device::connect_with(connect).await.unwrap();
            assert!(device.next().await.dup);
            for _ in 0..3 {
                assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
            }
            let receipt = receipt(&backend, &mut receipts).await;
            assert_eq!(receipt["receipt"], "delivered", "{protocol:?} {qos}");
            forgotten(&backend, &who).await;
        }
    }
}

#[tokio::test]
async fn g39_a_downlink_that_is_too_large_is_reported_and_kept_as_a_dead_letter() {
    // [MQTT-3.1.2-24]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for qos in ["0", "1", "2"] {
        let who = site.device();
        let mut connect = Connect::new(Protocol::V5, site.gateway.mqtt(), &who.credentials);
        let mut properties = ConnectProperties::new();
        properties.max_packet_size = Some(300);
        connect.properties = Some(properties);
        let mut device = Device::connect_with(connect).await.unwrap();
        let filter = who.topic("$thing/down/+");
        assert_eq!(device.subscribe_qos(&filter, 2).await, 2);
        let subject = who.subject("receipts");
        let mut receipts = backend.subscribe(&subject).await;
        let down = who.subject("device.down.mqtt.thing");
        let headers = [
            ("Jw-Qos", qos),
            ("Jw-Receipt", &*subject),
            ("Jw-User-a", "kept"),
        ];
        backend.publish(&down, &headers, vec![b'x'; 300]).await;
        backend.publish(&down, &[], "fits").await;
        assert_eq!(device.next().await.text(), "fits");
        assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
        assert_eq!(
            receipt(&backend, &mut receipts).await["receipt"],
            "rejected"
        );
        let dead = dead_letter(&backend, &who).await;
        assert_eq!(dead.payload, vec![b'x'; 300]);
        assert_eq!(dead.header("Jw-Reason"), "too_large");
        assert_eq!(dead.header("Jw-Subject"), down);
        assert_eq!(dead.header("Jw-User-a"), "kept");
    }
}

#[tokio::test]
async fn g30_what_a_device_refuses_is_reported_and_kept_as_a_dead_letter() {
    // [MQTT-4.4.0-2]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut wire = Wire::login(Protocol::V5, site.gateway.mqtt(), &who.credentials, 60).await;
    let filter = who.topic("$thing/down/+");
    wire.send(&packet::subscribe(Protocol::V5, 1, &[(&filter, 2)]))
        .await;
    wire.packet().await.expect("SUBACK");
    let subject = who.subject("receipts");
    let mut receipts = backend.subscribe(&subject).await;
    let down = who.subject("device.down.mqtt.thing");
    for (qos, answer) in [("1", 0x40), ("2", 0x50)] {
        let headers = [("Jw-Qos", qos), ("Jw-Receipt", &*subject)];
        backend.publish(&down, &headers, qos).await;
        let publish = wire.packet().await.expect("PUBLISH");
        let topic = usize::from(publish[3]);
        let packet_id = &publish[4 + topic..6 + topic];
        wire.send(&packet::packet(answer, &[packet_id, &[0x83]].concat()))
            .await;
        for expected in ["sent", "rejected"] {
            let receipt = receipt(&backend, &mut receipts).await;
            assert_eq!(receipt["receipt"], expected, "{qos}");
        }
    }
    forgotten(&backend, &who).await;
    let dead = backend
        .wait_for("DLQ", &who.subject("dlq.downlink"), 2)
        .await;
    let found: Vec<_> = dead
        .iter()
        .map(|dead| (dead.text(), dead.header("Jw-Reason")))
        .collect();
    assert_eq!(found, [("1", "refused"), ("2", "refused")]);
}

#[tokio::test]
async fn g30_what_a_device_did_not_subscribe_to_or_nobody_understands_is_kept_as_a_dead_letter() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        for (headers, handle, reason) in [
            (&[][..], "ota", "not_subscribed"),
            (&[("Jw-Type", "other")], "thing", "not_subscribed"),
            (&[("Jw-Qos", "3")], "thing", "unmapped"),
        ] {
            let who = site.device();
            let mut device = site.connect(protocol, &who).await;
            let filter = who.topic("$thing/down/property");
            assert_eq!(device.subscribe(&filter).await, 1);
            let subject = who.subject(&format!("device.down.mqtt.{handle}"));
            backend.publish(&subject, headers, "unheard").await;
            let dead = dead_letter(&backend, &who).await;
            assert_eq!((dead.text(), dead.header("Jw-Reason")), ("unheard", reason));
        }
    }
}

#[tokio::test]
async fn g30_with_qos_0_nothing_waits_for_a_device_and_that_is_reported() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let connect = stored(&site, protocol, &who);
        subscribe_and_leave(connect.clone(), &who, 1).await;
        let subject = who.subject("device.down.mqtt.thing");
        backend
            .publish(&subject, &[("Jw-Qos", "0")], "missed")
            .await;
        passed(&site, &backend).await;
        let _device = Device::connect_with(connect).await.unwrap();
        let dead = dead_letter(&backend, &who).await;
        assert_eq!(
            (dead.text(), dead.header("Jw-Reason")),
            ("missed", "missed")
        );
    }
}

#[tokio::test]
async fn g30_a_session_that_ends_takes_nothing_along_that_it_was_not_handed() {
    // What was stored before the device subscribed is not removed with what it gets.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.down.mqtt.thing");
        backend.publish(&subject, &[], "before").await;
        passed(&site, &backend).await;
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.manual_acks = true;
        let mut device = Device::connect_with(connect).await.unwrap();
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        backend.publish(&subject, &[], "acknowledged").await;
        backend.publish(&subject, &[], "unacknowledged").await;
        let first = device.next().await;
        assert_eq!(first.text(), "acknowledged");
        device.next().await;
        device.ack(&first);
        device.disconnect().await;
        let filter = who.subject("dlq.downlink");
        let dead = backend.wait_for("DLQ", &filter, 1).await;
        let found = (dead[0].text(), dead[0].header("Jw-Reason"));
        assert_eq!(found, ("unacknowledged", "unacknowledged"));
        crate::support::eventually("one is left", async || {
            let left = backend.messages("DEVICE_DOWN", &subject).await;
            let texts: Vec<_> = left.iter().map(Stored::text).collect();
            match texts == ["before"] {
                true => Ok(()),
                false => Err(format!("{texts:?}")),
            }
        })
        .await;
    }
}
