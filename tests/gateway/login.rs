//! Who may connect: the platform's credentials, and what every other CONNECT is told.

use rumqttc::v5::mqttbytes::v5::ConnAckProperties;
use serde::Deserialize;

use crate::site::{BOTH, Registered, Site};
use crate::support::{Connect, Credentials, Device, Protocol, Publish, Wire, packet};

#[derive(Deserialize)]
struct Golden {
    accept: Vec<Vector>,
    reject: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    device_secret_b64: String,
    #[serde(flatten)]
    credentials: Credentials,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/login.json")).unwrap()
}

/// A site whose database holds the devices of the vectors, and nothing else of theirs.
async fn site_of_vectors() -> Site {
    let site = Site::start(&[]).await;
    let mut added: Vec<(String, String)> = Vec::new();
    for vector in golden().accept {
        let client_id = &vector.credentials.client_id;
        let (product, name) = client_id
            .split_once('&')
            .unwrap_or_else(|| client_id.split_at(11));
        let device = (product.to_owned(), name.to_owned());
        if !added.contains(&device) {
            site.add_device(&[product, name, "--secret", &vector.device_secret_b64]);
            added.push(device);
        }
    }
    site
}

/// What the gateway answers to a CONNECT, as bytes; the connection must end with it.
async fn answer(site: &Site, connect: &[u8]) -> Vec<u8> {
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(connect).await;
    let connack = wire.packet().await.expect("a CONNACK");
    assert!(
        wire.closed().await.is_empty(),
        "nothing comes behind a refusal"
    );
    connack
}

/// The refusal that rumqttc reports; the bytes on the wire must say the same and end the connection.
async fn refusal(site: &Site, protocol: Protocol, who: &Credentials) -> u8 {
    let connect = Connect::new(protocol, site.gateway.mqtt(), who);
    let Err(refused) = Device::connect_with(connect).await else {
        panic!("{} is let in", who.client_id);
    };
    let reason = refused.reason.expect("a CONNACK before the close");
    let connack = answer(site, &packet::connect(protocol, who, 60)).await;
    assert_eq!(connack[0], 0x20, "{connack:02x?}");
    assert_eq!(
        connack[2..4],
        [0, reason],
        "no Session Present, and the reason"
    );
    reason
}

fn not_authorized(protocol: Protocol) -> [u8; 2] {
    match protocol {
        Protocol::V311 => [4, 5],
        Protocol::V5 => [0x86, 0x87],
    }
}

#[tokio::test]
async fn vectors_of_the_platform_are_accepted_or_refused() {
    let site = site_of_vectors().await;
    for protocol in BOTH {
        for vector in golden().accept {
            let connect = Connect::new(protocol, site.gateway.mqtt(), &vector.credentials);
            let device = Device::connect_with(connect).await;
            let device = device.unwrap_or_else(|refused| panic!("{}: {refused:?}", vector.name));
            device.disconnect().await;
        }
        for vector in golden().reject {
            let reason = refusal(&site, protocol, &vector.credentials).await;
            let expected = not_authorized(protocol);
            assert!(expected.contains(&reason), "{}: {reason:#x}", vector.name);
        }
    }
}

#[tokio::test]
async fn an_unknown_device_and_a_wrong_secret_look_the_same() {
    let site = Site::shared().await;
    let known = site.device();
    let wrong_secret = Credentials::new(&known.product, &known.name, "BBBBBBBB");
    let unknown = Registered::new(&known.product, "nobody").credentials;
    for protocol in BOTH {
        let wrong = answer(&site, &packet::connect(protocol, &wrong_secret, 60)).await;
        let stranger = answer(&site, &packet::connect(protocol, &unknown, 60)).await;
        assert_eq!(wrong, stranger, "{protocol:?}");
    }
    site.connect(Protocol::V5, &known).await.disconnect().await;
}

#[tokio::test]
async fn a_registration_identity_is_refused() {
    let site = Site::shared().await;
    let mut who = site.device().credentials;
    who.client_id = format!("register&{}", who.client_id);
    for protocol in BOTH {
        let reason = refusal(&site, protocol, &who).await;
        assert!(not_authorized(protocol).contains(&reason), "{reason:#x}");
    }
}

#[tokio::test]
async fn g10_a_will_for_another_device_is_refused_and_leaves_no_trace() {
    // A Will passes the check of the device's ordinary publishes.
    let site = Site::shared().await;
    let backend = site.backend().await;
    let (device, other) = (site.device(), site.device());
    for (protocol, code) in BOTH.into_iter().zip([5, 0x87]) {
        for topic in [other.reports(), device.topic("$thing/down/property")] {
            let mut connect = Connect::new(protocol, site.gateway.mqtt(), &device.credentials);
            connect.will = Some(Publish::new(&topic, "stolen"));
            let refused = Device::connect_with(connect).await.err();
            assert_eq!(refused.and_then(|refused| refused.reason), Some(code));
        }
    }
    let events = device.subject("application.device") + ".status.*";
    assert!(backend.messages("APPLICATION", &events).await.is_empty());
    assert!(other.stored(&backend).await.is_empty());
}

#[tokio::test]
async fn g18_an_empty_client_id_is_refused() {
    // The client id names the device, so the gateway can assign none.
    let site = Site::shared().await;
    let mut who = site.device().credentials;
    who.client_id.clear();
    let clean = answer(&site, &packet::connect(Protocol::V311, &who, 60)).await;
    assert!(
        not_authorized(Protocol::V311).contains(&clean[3]),
        "{clean:02x?}"
    );

    let mut stored_session = packet::connect(Protocol::V311, &who, 60);
    let flags = stored_session
        .iter()
        .position(|byte| *byte == 0xC2)
        .unwrap();
    stored_session[flags] &= !0x02;
    assert_eq!(answer(&site, &stored_session).await, [0x20, 2, 0, 2]);

    let v5 = answer(&site, &packet::connect(Protocol::V5, &who, 60)).await;
    assert!(
        v5[3] == 0x85 || not_authorized(Protocol::V5).contains(&v5[3]),
        "{v5:02x?}"
    );
}

#[tokio::test]
async fn an_unsupported_protocol_level_is_answered_before_the_close() {
    let site = Site::shared().await;
    let who = site.device().credentials;
    let connect = packet::connect(Protocol::V311, &who, 60);
    let level = connect.windows(4).position(|text| text == b"MQTT").unwrap() + 4;
    for unknown in [3, 6, 0x84] {
        let mut connect = connect.clone();
        connect[level] = unknown;
        // [MQTT-3.1.2-2]
        assert_eq!(answer(&site, &connect).await, [0x20, 2, 0, 1], "{unknown}");
    }
}

#[tokio::test]
async fn a_client_of_mqtt_3_1_is_served_as_one_of_3_1_1() {
    let site = Site::shared().await;
    let who = site.device().credentials;
    let mut body = packet::string("MQIsdp");
    body.extend([3, 0xC2, 0, 60]);
    for field in [&who.client_id, &who.username, &who.password] {
        body.extend(packet::string(field));
    }
    let connect = packet::packet(0x10, &body);
    let mut wire = Wire::connect(site.gateway.mqtt()).await;
    wire.send(&connect).await;
    wire.accepted().await;
    wire.send(&[0xC0, 0]).await;
    assert_eq!(wire.packet().await.unwrap(), [0xD0, 0]);
}

#[tokio::test]
async fn g09_what_is_not_offered_is_announced_in_connack() {
    // Everything but shared subscriptions is: what is for one device cannot be shared.
    let site = Site::shared().await;
    let device = site.device();
    for protocol in BOTH {
        let connected = site.connect(protocol, &device).await;
        if let Some(properties) = &connected.connack_properties {
            assert_announced(properties);
        }
        assert_eq!(
            connected.connack_properties.is_some(),
            protocol == Protocol::V5
        );
        connected.disconnect().await;
    }
}

fn assert_announced(properties: &ConnAckProperties) {
    assert_eq!(properties.max_qos, None, "2");
    assert_eq!(properties.retain_available.unwrap_or(1), 1);
    assert_eq!(properties.shared_subscription_available, Some(0));
    assert_eq!(
        properties.subscription_identifiers_available.unwrap_or(1),
        1
    );
    assert_eq!(properties.topic_alias_max, Some(10));
    assert_eq!(properties.session_expiry_interval, None, "as asked for: 0");
    assert!(properties.receive_max.is_some_and(|count| count > 0));
    assert!(properties.max_packet_size.is_some_and(|bytes| bytes > 0));
    assert_eq!(properties.wildcard_subscription_available.unwrap_or(1), 1);
}
