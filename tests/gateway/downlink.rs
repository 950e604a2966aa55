//! To a connected device: both forms of the subject, order, topic, quality of service, properties, and what else
//! a sender can say.

use rumqttc::v5::mqttbytes::v5::PublishProperties;

use crate::site::{BOTH, Registered, Site};
use crate::support::{Device, Protocol, Received, jetway};

/// Of a downlink: names and values.
type Headers = &'static [(&'static str, &'static str)];

/// Connects a device that listens to everything that a handle sends it.
async fn listener(site: &Site, protocol: Protocol, who: &Registered, handle: &str) -> Device {
    let mut device = site.connect(protocol, who).await;
    let filter = who.topic(&format!("${handle}/down/+"));
    assert_eq!(device.subscribe(&filter).await, 1);
    device
}

fn properties(received: &Received) -> PublishProperties {
    received.properties.clone().unwrap_or_default()
}

#[tokio::test]
async fn both_forms_of_the_subject_arrive_in_the_one_stored_order() {
    // G-DOWN
    const COUNT: usize = 200;
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site, protocol, &who, "thing").await;
        let forms = ["device.down.mqtt.thing", "device.down.thing"];
        let (mut stored, mut received) = (Vec::new(), Vec::new());
        for number in 0..COUNT {
            let subject = who.subject(forms[number % 2]);
            let sequence = backend.publish(&subject, &[], format!("{number}")).await;
            stored.push((sequence, number.to_string()));
            // So that neither the mailbox nor the test runs far ahead.
            if number % 50 == 49 {
                while received.len() <= number {
                    let next = device.next().await;
                    assert_eq!((next.qos, next.dup, next.retain), (1, false, false));
                    received.push(next.text().to_owned());
                }
            }
        }
        assert!(stored.is_sorted(), "{stored:?}");
        let stored = stored.into_iter().map(|(_, text)| text);
        assert!(received.into_iter().eq(stored), "{protocol:?}");
    }
}

#[tokio::test]
async fn the_type_comes_from_the_header_else_the_method_else_the_default() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let control = r#"{"method":"control","params":{}}"#;
    let action = r#"{"params":{"method":"no"},"method":"action"}"#;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site, protocol, &who, "thing").await;
        for handle in ["ota", "shadow", "gateway", "config", "log", "ext", "rpc"] {
            let filter = who.topic(&format!("${handle}/down/+"));
            assert_eq!(device.subscribe(&filter).await, 1);
        }
        let cases: [(&str, Headers, &str, &str); 13] = [
            (
                "thing",
                &[("Jw-Type", "event")],
                control,
                "$thing/down/event",
            ),
            ("thing", &[], control, "$thing/down/property"),
            ("thing", &[], action, "$thing/down/action"),
            (
                "thing",
                &[],
                r#"{"method":"unheard of"}"#,
                "$thing/down/property",
            ),
            ("thing", &[], "\u{0}no JSON", "$thing/down/property"),
            ("ota", &[], r#"{"method":"upgrade"}"#, "$ota/down/upgrade"),
            ("shadow", &[], "{}", "$shadow/down/property"),
            (
                "gateway",
                &[],
                r#"{"method":"online"}"#,
                "$gateway/down/status",
            ),
            ("config", &[], "{}", "$config/down/push"),
            ("log", &[], "{}", "$log/down/update"),
            ("ext", &[], r#"{"method":"getNtpReply"}"#, "$ext/down/ntp"),
            ("ota", &[("Jw-Type", "report")], "", "$ota/down/report"),
            ("ext", &[], "", "$ext/down/register"),
        ];
        for (handle, headers, payload, topic) in cases {
            let subject = who.subject(&format!("device.down.mqtt.{handle}"));
            backend.publish(&subject, headers, payload.to_owned()).await;
            let received = device.next().await;
            assert_eq!(received.topic, who.topic(topic), "{handle} {payload}");
            assert_eq!(received.payload, payload, "the payload is not touched");
        }
        let topic = who.topic("$rpc/down/call-17");
        let headers = [("Jw-Topic", &*topic)];
        backend
            .publish(&who.subject("device.down.mqtt.rpc"), &headers, "ask")
            .await;
        assert_eq!(device.next().await.topic, topic);
    }
}

#[tokio::test]
async fn quality_of_service_is_the_lower_of_what_the_sender_and_the_device_ask_for() {
    // [MQTT-3.8.4-8]
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site, protocol, &who, "thing").await;
        let updates = who.topic("$ota/down/+");
        assert_eq!(device.subscribe_qos(&updates, 0).await, 0);
        let cases: [(&str, Headers, u8); 5] = [
            ("thing", &[], 1),
            ("thing", &[("Jw-Qos", "0")], 0),
            ("thing", &[("Jw-Qos", "1")], 1),
            ("thing", &[("Jw-Qos", "2")], 1),
            ("ota", &[("Jw-Qos", "1")], 0),
        ];
        for (handle, headers, qos) in cases {
            let subject = who.subject(&format!("device.down.mqtt.{handle}"));
            backend.publish(&subject, headers, "{}").await;
            let received = device.next().await;
            assert_eq!(received.qos, qos, "{handle} {headers:?}");
            assert_eq!(received.packet_id > 0, qos > 0);
        }
    }
}

#[tokio::test]
async fn g40_headers_become_properties_for_mqtt_5_and_nothing_for_3_1_1() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Jw-Payload-Format", "1"),
        ("Jw-Response-Topic", "replies/17"),
        ("Jw-Correlation", "AP8="),
        ("Jw-User-unit", "°C"),
        ("Jw-User-unit", "K"),
        ("Jw-User-bad%3A%20name", "line%0D%0Abreak"),
        ("Jw-Id", "ours"),
        ("Other", "stays behind"),
    ];
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site, protocol, &who, "thing").await;
        backend
            .publish(&who.subject("device.down.mqtt.thing"), &headers, "{}")
            .await;
        let received = device.next().await;
        assert_eq!(received.text(), "{}");
        if protocol == Protocol::V311 {
            assert_eq!(received.properties, None);
            continue;
        }
        let found = properties(&received);
        assert_eq!(found.content_type.as_deref(), Some("application/json"));
        assert_eq!(found.payload_format_indicator, Some(1));
        assert_eq!(found.response_topic.as_deref(), Some("replies/17"));
        assert_eq!(found.correlation_data.as_deref(), Some(&b"\x00\xff"[..]));
        assert_eq!(found.message_expiry_interval, None);
        assert_eq!(found.topic_alias, None);
        let user: Vec<(&str, &str)> = found
            .user_properties
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let units: Vec<&(&str, &str)> = user.iter().filter(|(name, _)| *name == "unit").collect();
        assert_eq!(units, [&("unit", "°C"), &("unit", "K")]);
        assert!(user.contains(&("bad: name", "line\r\nbreak")), "{user:?}");
        assert_eq!(user.len(), 3, "{user:?}");
    }
}

#[tokio::test]
async fn g31_a_lifetime_is_passed_on_and_an_expired_downlink_is_not_delivered() {
    // [MQTT-3.3.2-6]
    let site = Site::shared().await;
    let backend = site.backend().await;
    let now = jetway::telemetry::now_unix_ms();
    let (later, past) = ((now + 90_000).to_string(), (now - 1).to_string());
    let expired_count = "jetway_downlink_messages_total{outcome=\"expired\"}";
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.down.mqtt.thing");
        let mut device = listener(&site, protocol, &who, "thing").await;
        for (name, value, seconds) in [
            ("Nats-TTL", "60", 50..=60),
            ("Nats-TTL", "2m", 110..=120),
            ("Jw-Expires", &*later, 60..=90),
        ] {
            backend.publish(&subject, &[(name, value)], "lives").await;
            let received = device.next().await;
            assert_eq!(received.text(), "lives");
            match properties(&received).message_expiry_interval {
                Some(left) => assert!(seconds.contains(&left), "{name}: {value} became {left}"),
                None => assert_eq!(protocol, Protocol::V311),
            }
        }
        let before = site.gateway.metric(expired_count).await;
        backend
            .publish(&subject, &[("Jw-Expires", &past)], "expired")
            .await;
        backend.publish(&subject, &[], "next").await;
        assert_eq!(device.next().await.text(), "next", "{protocol:?}");
        site.counted(expired_count, before).await;
    }
}

#[tokio::test]
async fn what_a_device_did_not_subscribe_to_is_a_dead_letter_and_what_comes_next_is_delivered() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let count = "jetway_downlink_messages_total{outcome=\"not_subscribed\"}";
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.down.mqtt.thing");
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.subscribe(&who.topic("$thing/down/event")).await, 1);
        let before = site.gateway.metric(count).await;
        backend.publish(&subject, &[], "unheard").await;
        site.counted(count, before).await;
        backend
            .publish(&subject, &[("Jw-Type", "event")], "heard")
            .await;
        assert_eq!(device.next().await.text(), "heard");
        let dead = backend
            .wait_for("DLQ", &who.subject("dlq.downlink"), 1)
            .await;
        assert_eq!(
            (dead[0].text(), dead[0].header("Jw-Reason")),
            ("unheard", "not_subscribed")
        );
        let topic = who.topic("$thing/down/property");
        assert_eq!(dead[0].header("Jw-Topic"), topic);
    }
}

#[tokio::test]
async fn what_cannot_be_mapped_is_counted_and_what_comes_next_is_delivered() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let count = "jetway_downlink_messages_total{outcome=\"unmapped\"}";
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.down.mqtt.thing");
        let mut device = listener(&site, protocol, &who, "thing").await;
        let before = site.gateway.metric(count).await;
        let wrong = [("Jw-Qos", "3"), ("Jw-Type", "a/b"), ("Jw-Correlation", "?")];
        for header in wrong {
            backend.publish(&subject, &[header], "wrong").await;
        }
        let other = site.device().topic("$thing/down/property");
        backend
            .publish(&subject, &[("Jw-Topic", &other)], "wrong")
            .await;
        backend.publish(&subject, &[], "right").await;
        assert_eq!(device.next().await.text(), "right");
        let counted = site.gateway.metric(count).await - before;
        assert!(counted >= 4.0, "{counted}");
    }
}

#[tokio::test]
async fn jetway_send_delivers_to_the_device() {
    let site = Site::shared().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site, protocol, &who, "ota").await;
        let payload = r#"{"method":"upgrade","params":{"version":"2"}}"#;
        let url = site.nats.url();
        let send = ["send", &who.product, &who.name, payload];
        let options = [
            "--handle", "ota", "--type", "report", "--qos", "0", "--nats", &url,
        ];
        let printed = jetway(&[&send[..], &options[..]].concat(), &[]);
        let expected = format!("{} stored as ", who.subject("device.down.ota"));
        assert!(printed.starts_with(&expected), "{printed}");
        let received = device.next().await;
        assert_eq!(received.topic, who.topic("$ota/down/report"));
        assert_eq!((received.qos, received.text()), (0, payload));

        // Without a type the payload's method decides; without a handle it is thing.
        let send = ["send", &who.product, &who.name, r#"{"method":"action"}"#];
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        jetway(&[&send[..], &["--nats", &url]].concat(), &[]);
        assert_eq!(device.next().await.topic, who.topic("$thing/down/action"));
    }
}
