//! What a device sends, as backend services find it: subject, payload, headers, order, and the live copy.

use std::collections::{BTreeMap, HashSet};

use async_nats::HeaderMap;
use bytes::Bytes;
use jetway::telemetry::now_unix_ms;
use rumqttc::v5::mqttbytes::v5::PublishProperties;

use crate::site::{BOTH, Registered, Site};
use crate::support::{Connect, Device, Protocol, Publish, Stored, eventually};

/// A topic's head for each handle, and the type that a backend service is told.
const HANDLES: [(&str, &str, &str); 8] = [
    ("thing", "$thing/up/event", "event"),
    ("ota", "$ota/up/progress", "progress"),
    ("shadow", "$shadow/up/any", "any"),
    ("gateway", "$gateway/up/topo", "topo"),
    ("config", "$config/up/get", "get"),
    ("log", "$log/up/operation", "operation"),
    ("ext", "$ext/up/ntp", "ntp"),
    ("rpc", "$rpc/up/call-17", ""),
];

fn qos_0(topic: &str, payload: impl Into<Bytes>) -> Publish {
    Publish {
        qos: 0,
        ..Publish::new(topic, payload)
    }
}

/// Connection id and number of the message on it, from `Jw-Id`.
fn identity(message: &Stored) -> (String, u64) {
    let id = message.header("Jw-Id");
    // A batch of many has a guard in place of ids.
    assert!([id, ""].contains(&message.header("Nats-Msg-Id")));
    let (connection, number) = id.rsplit_once('.').unwrap();
    (connection.to_owned(), number.parse().unwrap())
}

fn assert_traceparent(value: &str) {
    let parts: Vec<&str> = value.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!(lengths, [2, 32, 16, 2], "{value}");
    let hex = |part: &&str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    assert!(parts.iter().all(hex), "{value}");
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    assert!(!zero(parts[1]) && !zero(parts[2]), "{value}");
}

#[tokio::test]
async fn every_handle_is_stored_with_its_subject_payload_and_headers() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let before_ms = now_unix_ms();
        for (handle, head, _) in HANDLES {
            for qos in [0, 1] {
                let payload = Bytes::from(format!("{handle} {qos}"));
                let publish = Publish {
                    qos,
                    ..Publish::new(&who.topic(head), payload)
                };
                device.publish(publish);
            }
            assert_eq!(device.acked().await.unwrap().reason, 0);
        }
        let stored = who.stored(&backend).await;
        assert_eq!(stored.len(), 2 * HANDLES.len());
        let mut traces = HashSet::new();
        let sent = HANDLES.iter().flat_map(|handle| [(handle, 0), (handle, 1)]);
        for (number, (message, ((handle, head, kind), qos))) in stored.iter().zip(sent).enumerate()
        {
            assert_eq!(
                message.subject,
                who.subject(&format!("device.up.mqtt.{handle}"))
            );
            assert_eq!(message.text(), format!("{handle} {qos}"));
            assert_eq!(message.header("Jw-Type"), *kind);
            assert_eq!(message.header("Jw-Qos"), qos.to_string());
            let received_ms: u64 = message.header("Jw-Ts").parse().unwrap();
            assert!((before_ms..=now_unix_ms()).contains(&received_ms));
            assert_eq!(identity(message).0, identity(&stored[0]).0);
            assert_eq!(identity(message).1, number as u64 + 1);
            assert_traceparent(message.header("traceparent"));
            assert!(traces.insert(message.header("traceparent").to_owned()));
            // Only where the subject and the type do not give it back.
            let topic = match *handle {
                "rpc" => who.topic(head),
                _ => String::new(),
            };
            assert_eq!(message.header("Jw-Topic"), topic);
        }
    }
}

#[tokio::test]
async fn every_connection_of_a_device_has_an_id_of_its_own() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    for protocol in [Protocol::V311, Protocol::V5, Protocol::V311] {
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.publish_acked(&who.reports(), "same").await, 0);
        device.disconnect().await;
    }
    let stored = who.stored(&backend).await;
    let connections: HashSet<String> = stored.iter().map(|message| identity(message).0).collect();
    assert_eq!(
        (stored.len(), connections.len()),
        (3, 3),
        "equal payloads are all kept"
    );
}

#[tokio::test]
async fn g08_a_payload_of_any_bytes_is_stored_byte_for_byte() {
    // Nothing reads a payload on its way into the stream, so none can be wrong.
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = Connect::new(Protocol::V5, site.gateway.mqtt(), &who.credentials);
        let announced = Device::connect_with(connect.clone()).await.unwrap();
        let limit = announced
            .connack_properties
            .as_ref()
            .unwrap()
            .max_packet_size;
        let limit = usize::try_from(limit.unwrap()).unwrap();
        announced.disconnect().await;

        connect.protocol = protocol;
        let mut device = Device::connect_with(connect).await.unwrap();
        // Type and length take 4 bytes, the topic has a length of 2, then the packet id and the length of properties.
        let overhead = 1 + 4 + 2 + who.reports().len() + 2 + 1;
        let payloads: [Vec<u8>; 4] = [
            Vec::new(),
            (0..=255).collect(),
            b"\r\n\r\nPUB x 0\r\n\0".to_vec(),
            (0..=255).cycle().take(limit - overhead).collect(),
        ];
        for payload in &payloads {
            let reason = device.publish_acked(&who.reports(), payload.clone()).await;
            assert_eq!(reason, 0, "{protocol:?}, {} bytes", payload.len());
        }
        let stored = who.stored(&backend).await;
        let stored: Vec<&[u8]> = stored.iter().map(|message| &*message.payload).collect();
        assert!(
            stored.iter().eq(&payloads),
            "{protocol:?}: a payload has changed"
        );
    }
}

#[tokio::test]
async fn g40_properties_of_mqtt_5_become_headers() {
    // Names and order are kept, and none of them can stand for a header of ours or of JetStream's.
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let user = [
        ("traceparent", traceparent),
        ("unit", "°C"),
        ("unit", "K"),
        ("Nats-Msg-Id", "forged"),
        ("Jw-Id", "forged"),
        ("bad: name\r\n", "line\r\nbreak"),
    ];
    let mut publish = Publish::new(&who.reports(), "{}");
    publish.properties = Some(PublishProperties {
        payload_format_indicator: Some(1),
        message_expiry_interval: Some(60),
        response_topic: Some("replies/17".to_owned()),
        correlation_data: Some(Bytes::from_static(b"\x00\xff")),
        user_properties: user
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        content_type: Some("application/json".to_owned()),
        ..PublishProperties::default()
    });
    device.publish(publish);
    assert_eq!(device.acked().await.unwrap().reason, 0);

    let stored = who.stored(&backend).await;
    let [message] = stored.as_slice() else {
        panic!("{stored:?}");
    };
    assert_eq!(identity(message).1, 1);
    for (name, value) in [
        ("traceparent", traceparent),
        ("Content-Type", "application/json"),
        ("Jw-Payload-Format", "1"),
        ("Jw-Response-Topic", "replies/17"),
        ("Jw-Correlation", "AP8="),
        ("Jw-User-Nats-Msg-Id", "forged"),
        ("Jw-User-Jw-Id", "forged"),
        ("Jw-User-bad%3A%20name%0D%0A", "line%0D%0Abreak"),
    ] {
        assert_eq!(message.header(name), value, "{name}");
    }
    let received_ms: u64 = message.header("Jw-Ts").parse().unwrap();
    assert_eq!(
        message.header("Jw-Expires"),
        (received_ms + 60_000).to_string()
    );
    let units: Vec<&str> = message
        .headers
        .get_all("Jw-User-unit")
        .map(|value| value.as_str())
        .collect();
    assert_eq!(units, ["°C", "K"]);
}

#[tokio::test]
async fn the_handle_subtree_gets_a_live_copy_of_what_is_stored() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = site.connect(protocol, &who).await;
        let mut live = backend.subscribe(&who.subject("device.up.*")).await;
        // rpc has no live subtree: what comes first is what comes behind it.
        device.publish(qos_0(&who.topic("$rpc/up/1"), "answer"));
        for (handle, head, kind) in &HANDLES[..7] {
            device.publish(qos_0(&who.topic(head), format!("{handle}, live")));
            device.flush().await;
            let copy = backend.next(&mut live).await;
            assert_eq!(*copy.subject, who.subject(&format!("device.up.{handle}")));
            assert_eq!(copy.payload, format!("{handle}, live"));
            let headers = copy.headers.expect("the stored message's headers");
            assert_eq!(
                headers.get("Jw-Type").map(|value| value.as_str()),
                Some(*kind)
            );
            let stored = who.stored(&backend).await;
            let stored = stored.last().expect("it is stored before it is copied");
            let said = |headers: &HeaderMap| {
                let values = headers
                    .iter()
                    .map(|(name, values)| (name.to_string(), values.clone()));
                // In a copy that no stream takes an id for its duplicates says nothing.
                values
                    .filter(|(name, _)| name != "Nats-Msg-Id")
                    .collect::<BTreeMap<_, _>>()
            };
            assert!(headers.get("Nats-Msg-Id").is_none(), "{headers:?}");
            assert_eq!(
                (&stored.payload, said(&stored.headers)),
                (&copy.payload, said(&headers))
            );
        }
        assert_eq!(who.stored(&backend).await.len(), 8);
    }
}

/// Publishes with QoS 1, and QoS 0 between, and returns the numbers of the PUBACKs in the order in which they came.
async fn publish_numbered(device: &mut Device, who: &Registered, count: u64) -> Vec<u64> {
    let mut acked = Vec::new();
    for number in 0..count {
        let publish = Publish {
            qos: u8::from(number % 4 != 0),
            ..Publish::new(&who.reports(), number.to_string())
        };
        device.publish(publish);
    }
    while acked.len() as u64 * 4 < count * 3 {
        let ack = device.acked().await.unwrap();
        assert_eq!(ack.reason, 0);
        acked.push(ack.publish);
    }
    acked
}

#[tokio::test]
async fn g07_messages_of_a_device_are_stored_and_acknowledged_in_the_order_sent() {
    // G-ORDER
    const COUNT: u64 = 2_000;
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut connect = Connect::new(protocol, site.gateway.mqtt(), &who.credentials);
        connect.inflight_max = 50;
        let mut device = Device::connect_with(connect).await.unwrap();
        let acked = publish_numbered(&mut device, &who, COUNT).await;
        let expected = (0..COUNT).filter(|number| number % 4 != 0);
        assert!(acked.into_iter().eq(expected), "PUBACKs out of order");
        let stored = who.stored(&backend).await;
        let stored = stored.iter().map(|message| message.text().to_owned());
        assert!(
            stored.eq((0..COUNT).map(|number| number.to_string())),
            "{protocol:?}: messages are missing, repeated or out of order"
        );
    }
}

#[tokio::test]
async fn g08_what_cannot_be_mapped_is_one_dead_letter_and_the_connection_stays() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut device = site.connect(Protocol::V5, &who).await;
    // More than JetStream takes as headers.
    let mut publish = Publish::new(&who.reports(), "too much");
    publish.properties = Some(PublishProperties {
        user_properties: vec![("name".to_owned(), "x".repeat(60_000)); 2],
        content_type: Some("text/plain".to_owned()),
        ..PublishProperties::default()
    });
    for _ in 0..2 {
        device.publish(publish.clone());
        assert_eq!(device.acked().await.unwrap().reason, 0x97);
    }
    // What is not the device's to send is nobody's loss.
    device.publish(Publish::new("$thing/up/property/other/one", "denied"));
    assert_eq!(device.acked().await.unwrap().reason, 0x87);
    assert_eq!(device.publish_acked(&who.reports(), "{}").await, 0);

    let filter = format!("dlq.uplink.*.{}", who.name);
    let dead = eventually("two dead letters", async || {
        let dead = backend.messages("DLQ", &filter).await;
        if dead.len() == 2 {
            Ok(dead)
        } else {
            Err(format!("{dead:?}"))
        }
    })
    .await;
    for dead in &dead {
        assert_eq!(dead.text(), "too much");
        assert_eq!(dead.header("Jw-Reason"), "headers_too_long");
        assert_eq!(dead.header("Jw-Topic"), who.reports());
        assert_eq!(dead.header("Jw-Qos"), "1");
        assert_eq!(dead.header("Content-Type"), "text/plain");
        let rule = dead.header("Jw-Rule");
        assert!(rule.starts_with("headers have"), "{rule}");
    }
}
