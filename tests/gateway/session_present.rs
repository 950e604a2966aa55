//! Session Present says what is true: the subscriptions are in force and nothing stored for the device is lost (G02).

use crate::offline::{stored, subscribe_and_leave};
use crate::site::{BOTH, Registered, Site};
use crate::support::{Backend, Closed, Connect, Device, Protocol, eventually};

async fn send(backend: &Backend, who: &Registered, text: &'static str) {
    let subject = who.subject("device.down.mqtt.thing");
    backend.publish(&subject, &[], text).await;
}

/// Returns when the gateway is past all that is stored by now: somebody else gets what was stored later.
pub(crate) async fn passed(site: &Site, backend: &Backend) {
    let who = site.device();
    let mut witness = site.connect(Protocol::V5, &who).await;
    assert_eq!(witness.subscribe(&who.topic("$thing/down/+")).await, 1);
    send(backend, &who, "seen").await;
    assert_eq!(witness.next().await.text(), "seen");
}

/// Connects, and again as long as the server says that it is unavailable.
///
/// # Errors
/// As [`Device::connect_with`].
pub(crate) async fn come_in(connect: Connect) -> Result<Device, Closed> {
    eventually("the device is not told to come again", async || {
        match Box::pin(Device::connect_with(connect.clone())).await {
            // In 3.1.1 and in 5.
            Err(Closed {
                reason: Some(3 | 0x88),
                error,
            }) => Err(error),
            answered => Ok(answered),
        }
    })
    .await
}

/// Connects; the next downlinks must be these, without a SUBSCRIBE.
async fn assert_goes_on(connect: Connect, expected: &[&str]) -> Device {
    let protocol = connect.protocol;
    let mut device = come_in(connect).await.unwrap();
    assert!(device.session_present, "{protocol:?}");
    for text in expected {
        assert_eq!(device.next().await.text(), *text, "{protocol:?}");
    }
    device
}

#[tokio::test]
async fn g02_a_session_is_in_force_again_after_a_crash_of_the_gateway() {
    // [MQTT-3.1.2-4], [MQTT-3.1.2-5], [MQTT-3.2.2-3]
    let mut site = Site::start(&[]).await;
    let backend = site.backend().await;
    let mut sessions = Vec::new();
    for protocol in BOTH {
        // One that is away when the gateway dies, and one that is connected.
        let away = site.device();
        subscribe_and_leave(stored(&site, protocol, &away), &away, 1).await;
        let connected = site.device();
        let connect = stored(&site, protocol, &connected);
        let mut device = Device::connect_with(connect).await.unwrap();
        assert!(!device.session_present, "{protocol:?}");
        assert_eq!(device.subscribe(&connected.topic("$thing/down/+")).await, 1);
        for who in [&away, &connected] {
            send(&backend, who, "before").await;
        }
        assert_eq!(device.next().await.text(), "before");
        // Behind the PUBACK of what it got.
        assert_eq!(device.publish_acked(&connected.reports(), "").await, 0);
        sessions.push((protocol, away, connected, device));
    }
    site.gateway.kill9().await;
    for (_, away, connected, _) in &sessions {
        for who in [away, connected] {
            send(&backend, who, "meanwhile").await;
        }
    }
    site.restart_gateway().await;
    for (protocol, away, connected, _) in &sessions {
        assert_goes_on(stored(&site, *protocol, away), &["before", "meanwhile"]).await;
        let connect = stored(&site, *protocol, connected);
        let mut device = come_in(connect).await.unwrap();
        assert!(device.session_present, "{protocol:?}");
        // The last second before a crash may be repeated, and says so where the identifier is known.
        let mut next = device.next().await;
        if next.text() == "before" {
            next = device.next().await;
        }
        assert_eq!(next.text(), "meanwhile", "{protocol:?}");
    }
}

#[tokio::test]
async fn g02_a_clean_start_discards_everything_and_the_next_connect_finds_nothing() {
    // [MQTT-3.1.2-4], [MQTT-3.2.2-2]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let connect = stored(&site, protocol, &who);
        subscribe_and_leave(connect.clone(), &who, 1).await;
        assert_goes_on(connect.clone(), &[])
            .await
            .disconnect()
            .await;
        send(&backend, &who, "discarded").await;

        let mut device = site.connect(protocol, &who).await;
        assert!(!device.session_present, "{protocol:?}");
        send(&backend, &who, "not subscribed").await;
        passed(&site, &backend).await;
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        send(&backend, &who, "subscribed").await;
        assert_eq!(device.next().await.text(), "subscribed", "{protocol:?}");
        device.disconnect().await;

        let device = Device::connect_with(connect).await.unwrap();
        assert!(!device.session_present, "{protocol:?}");
        device.disconnect().await;
    }
}

#[tokio::test]
async fn g02_a_session_that_ends_with_its_connection_is_not_there_again() {
    // [MQTT-3.1.2-6]; in MQTT 5 without a Session Expiry Interval, whatever Clean Start says.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = stored(&site, protocol, &who);
        connect.clean = true;
        connect.properties = None;
        subscribe_and_leave(connect.clone(), &who, 1).await;
        send(&backend, &who, "discarded").await;
        connect.clean = false;
        let mut device = Device::connect_with(connect).await.unwrap();
        assert!(!device.session_present, "{protocol:?}");
        assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
        assert_eq!(device.waiting(), 0, "{protocol:?}");
        device.disconnect().await;
    }
}
