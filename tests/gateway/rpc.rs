//! Services ask connected devices: `device.rpc.…`, answered by the device over whichever node it is connected to, or refused at
//! once.

use std::time::Duration;

use async_nats::{HeaderMap, Subscriber};
use futures_util::StreamExt as _;
use rumqttc::v5::mqttbytes::v5::{ConnectProperties, PublishProperties};
use tokio::time::{Instant, timeout};

use crate::offline::forgotten;
use crate::site::{BOTH, Registered, Site};
use crate::support::{
    Backend, Connect, Device, Gateway, Protocol, Publish, Received, eventually, within,
};

/// What a service gets: the code of an error, if it is one, and the payload.
pub(crate) type Reply = (Option<String>, String);

/// Asks; the reply comes to what is returned.
pub(crate) async fn ask(
    backend: &Backend,
    subject: &str,
    headers: &[(&str, &str)],
    payload: &str,
) -> Subscriber {
    let mut map = HeaderMap::new();
    headers
        .iter()
        .for_each(|(name, value)| map.append(*name, *value));
    let inbox = backend.client.new_inbox();
    let replies = backend.subscribe(&inbox).await;
    let (subject, payload) = (subject.to_owned(), payload.to_owned().into());
    let client = &backend.client;
    client
        .publish_with_reply_and_headers(subject, inbox, map, payload)
        .await
        .unwrap();
    replies
}

fn read(reply: &async_nats::Message) -> Reply {
    let headers = reply.headers.as_ref();
    let error = headers.and_then(|headers| headers.get("Jw-Error"));
    let payload = String::from_utf8(reply.payload.to_vec()).unwrap();
    (error.map(|error| error.as_str().to_owned()), payload)
}

pub(crate) async fn reply(asked: Subscriber) -> Reply {
    read(&message(asked).await)
}

async fn message(mut asked: Subscriber) -> async_nats::Message {
    within("a reply", asked.next()).await.unwrap()
}

pub(crate) async fn refused(
    backend: &Backend,
    subject: &str,
    headers: &[(&str, &str)],
    payload: &str,
) -> String {
    let (error, body) = reply(ask(backend, subject, headers, payload).await).await;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let error = error.expect("an error");
    assert_eq!(body["error"], error);
    error
}

pub(crate) async fn listener(
    gateway: &Gateway,
    protocol: Protocol,
    who: &Registered,
    head: &str,
) -> Device {
    let mut device = Device::connect(protocol, gateway.mqtt(), &who.credentials).await;
    assert_eq!(device.subscribe(&who.topic(head)).await, 1);
    device
}

pub(crate) fn answer_topic(asked: &Received) -> String {
    asked.topic.replace("/down/", "/up/")
}

#[tokio::test]
async fn a_device_is_asked_by_an_rpc_topic_and_its_answer_is_stored_as_always() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site.gateway, protocol, &who, "$rpc/down/+").await;
        let subject = who.subject("device.rpc.mqtt.rpc");
        let asked = ask(&backend, &subject, &[("Jw-User-a", "b")], "question").await;
        let question = device.next().await;
        assert_eq!((question.text(), question.qos), ("question", 0));
        let topic = answer_topic(&question);
        if protocol == Protocol::V5 {
            let properties = question.properties.unwrap();
            assert_eq!(properties.response_topic.as_ref(), Some(&topic));
            assert!(properties.correlation_data.is_some());
            let user = &properties.user_properties;
            assert_eq!(user, &[("a".to_owned(), "b".to_owned())]);
        }
        let mut answer = Publish::new(&topic, "answer");
        if protocol == Protocol::V5 {
            answer.properties = Some(PublishProperties {
                user_properties: vec![("c".to_owned(), "d".to_owned())],
                ..PublishProperties::default()
            });
        }
        device.publish(answer);
        assert_eq!(device.acked().await.unwrap().reason, 0);
        let answered = message(asked).await;
        assert_eq!(read(&answered), (None, "answer".to_owned()));
        let headers = answered.headers.unwrap();
        assert_eq!(headers.get("Jw-Topic").unwrap().as_str(), topic);
        if protocol == Protocol::V5 {
            assert_eq!(headers.get("Jw-User-c").unwrap().as_str(), "d");
        }
        let stored = who.stored_count(&backend, 1).await;
        assert_eq!(stored[0].text(), "answer");
        // The question was stored nowhere.
        forgotten(&backend, &who).await;
        assert!(
            backend
                .messages("DLQ", &who.subject("dlq.downlink"))
                .await
                .is_empty()
        );
        // The same answer again answers nothing.
        let late = ask(&backend, &subject, &[("Jw-Timeout-Ms", "3000")], "again").await;
        device.next().await;
        assert_eq!(device.publish_acked(&topic, "old").await, 0);
        let (error, _) = reply(late).await;
        assert_eq!(error.as_deref(), Some("timeout"));
    }
}

#[tokio::test]
async fn a_thing_model_method_is_answered_by_its_msg_token() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site.gateway, protocol, &who, "$thing/down/+").await;
        let subject = who.subject("device.rpc.mqtt.thing");
        let of = |token: &str| {
            format!(r#"{{"method":"action","msgToken":"{token}","actionID":"open"}}"#)
        };
        let (first, second) = (
            ask(&backend, &subject, &[], &of("1")).await,
            ask(&backend, &subject, &[], &of("2")).await,
        );
        for _ in 0..2 {
            assert_eq!(device.next().await.topic, who.topic("$thing/down/action"));
        }
        let up = who.topic("$thing/up/action");
        for (topic, token) in [
            (&up, "0"),
            (&who.reports(), "1"),
            (&up, "2"),
            (&up, "1"),
            (&up, "1"),
        ] {
            let payload = format!(r#"{{"msgToken":"{token}","code":200,"on":"{topic}"}}"#);
            assert_eq!(device.publish_acked(topic, payload).await, 0);
        }
        for (asked, token) in [(first, "1"), (second, "2")] {
            let expected = format!(r#"{{"msgToken":"{token}","code":200,"on":"{up}"}}"#);
            assert_eq!(reply(asked).await, (None, expected), "{protocol:?}");
        }
        assert_eq!(who.stored_count(&backend, 5).await.len(), 5);
    }
}

#[tokio::test]
async fn mqtt_5_answers_on_the_response_topic_and_3_1_1_is_asked_by_its_rpc_topic() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let who = site.device();
        let mut device = listener(&site.gateway, protocol, &who, "$ota/down/+").await;
        assert_eq!(device.subscribe(&who.topic("$rpc/down/+")).await, 1);
        let subject = who.subject("device.rpc.mqtt.ota");
        let asked = ask(&backend, &subject, &[("Jw-Type", "report")], "version?").await;
        let question = device.next().await;
        let topic = match question.properties {
            Some(properties) => {
                assert_eq!(question.topic, who.topic("$ota/down/report"));
                properties.response_topic.unwrap()
            }
            None => answer_topic(&question),
        };
        assert_eq!(device.publish_acked(&topic, "7").await, 0);
        assert_eq!(reply(asked).await, (None, "7".to_owned()), "{protocol:?}");
    }
}

#[tokio::test]
async fn who_cannot_be_asked_is_known_at_once() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let long = [("Jw-Timeout-Ms", "20000")];
    let started = Instant::now();
    for protocol in BOTH {
        let who = site.device();
        let subject = who.subject("device.rpc.mqtt.rpc");
        assert_eq!(refused(&backend, &subject, &long, "x").await, "offline");
        let mut device = listener(&site.gateway, protocol, &who, "$thing/down/+").await;
        assert_eq!(
            refused(&backend, &subject, &long, "x").await,
            "not_subscribed"
        );
        let unknown = who.subject("device.rpc.mqtt.none");
        assert_eq!(refused(&backend, &unknown, &long, "x").await, "bad_request");
        let wrong = [("Jw-Timeout-Ms", "soon")];
        assert_eq!(
            refused(&backend, &subject, &wrong, "x").await,
            "bad_request"
        );
        // It leaves while it is asked.
        let thing = who.subject("device.rpc.mqtt.thing");
        let asked = ask(&backend, &thing, &long, r#"{"msgToken":"1"}"#).await;
        device.next().await;
        device.disconnect().await;
        assert_eq!(reply(asked).await.0.as_deref(), Some("offline"));
        assert_eq!(refused(&backend, &thing, &long, "x").await, "offline");
    }
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
    let offline = "jetway_rpc_requests_total{outcome=\"offline\"}";
    assert!(site.gateway.metric(offline).await >= 6.0);
}

#[tokio::test]
async fn g39_a_request_that_is_too_large_for_the_device_is_refused_and_disturbs_nothing() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    let who = site.device();
    let mut connect = Connect::new(Protocol::V5, site.gateway.mqtt(), &who.credentials);
    let mut properties = ConnectProperties::new();
    properties.max_packet_size = Some(300);
    properties.receive_maximum = Some(1);
    connect.properties = Some(properties);
    connect.manual_acks = true;
    let mut device = Device::connect_with(connect).await.unwrap();
    assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
    let down = who.subject("device.down.mqtt.thing");
    for text in ["1", "2"] {
        backend.publish(&down, &[], text).await;
    }
    let first = device.next().await;
    let subject = who.subject("device.rpc.mqtt.thing");
    let large = "x".repeat(300);
    assert_eq!(refused(&backend, &subject, &[], &large).await, "too_large");
    // No window holds a request back.
    let asked = ask(&backend, &subject, &[], r#"{"msgToken":"1"}"#).await;
    assert_eq!(device.next().await.qos, 0);
    assert_eq!(
        device
            .publish_acked(&who.reports(), r#"{"msgToken":"1"}"#)
            .await,
        0
    );
    assert_eq!(reply(asked).await.0, None);
    device.ack(&first);
    let second = device.next().await;
    assert_eq!(second.text(), "2");
    device.ack(&second);
    assert_eq!(device.publish_acked(&who.reports(), "").await, 0);
    forgotten(&backend, &who).await;
}

#[tokio::test]
async fn requests_are_bounded_for_each_device_and_for_a_node() {
    let limits = [
        ("JETWAY_RPC_DEVICE_REQUESTS_MAX", "2"),
        ("JETWAY_RPC_REQUESTS_MAX", "3"),
    ];
    let site = Site::start(&limits).await;
    let backend = site.backend().await;
    let (who, other) = (site.device(), site.device());
    let mut device = listener(&site.gateway, Protocol::V5, &who, "$rpc/down/+").await;
    let mut another = listener(&site.gateway, Protocol::V311, &other, "$rpc/down/+").await;
    let subject = who.subject("device.rpc.mqtt.rpc");
    let mut asked = Vec::new();
    let mut questions = Vec::new();
    for _ in 0..2 {
        asked.push(ask(&backend, &subject, &[], "x").await);
        questions.push(device.next().await);
    }
    assert_eq!(refused(&backend, &subject, &[], "x").await, "busy");
    let others = other.subject("device.rpc.mqtt.rpc");
    let third = ask(&backend, &others, &[], "x").await;
    let question = another.next().await;
    assert_eq!(refused(&backend, &others, &[], "x").await, "busy");
    assert_eq!(another.publish_acked(&answer_topic(&question), "").await, 0);
    assert_eq!(reply(third).await.0, None);
    for (asked, question) in asked.into_iter().zip(questions) {
        assert_eq!(device.publish_acked(&answer_topic(&question), "").await, 0);
        assert_eq!(reply(asked).await.0, None);
    }
    let again = ask(&backend, &subject, &[], "x").await;
    let question = device.next().await;
    assert_eq!(device.publish_acked(&answer_topic(&question), "y").await, 0);
    assert_eq!(reply(again).await, (None, "y".to_owned()));
}

#[tokio::test]
async fn a_device_is_asked_through_whichever_node_has_it() {
    let site = Site::start(&[]).await;
    let mut second = site.further_gateway().await;
    let backend = site.backend().await;
    let here = [site.device(), site.device()];
    let mut devices = Vec::new();
    for (who, (gateway, protocol)) in here
        .iter()
        .zip([&site.gateway, &second].into_iter().zip(BOTH))
    {
        devices.push(listener(gateway, protocol, who, "$rpc/down/+").await);
    }
    // Whichever node a request comes to.
    for round in 0..20 {
        for (who, device) in here.iter().zip(&mut devices) {
            let asked = ask(&backend, &who.subject("device.rpc.mqtt.rpc"), &[], "x").await;
            let question = device.next().await;
            let answer = format!("{round}");
            let topic = answer_topic(&question);
            assert_eq!(device.publish_acked(&topic, answer.clone()).await, 0);
            assert_eq!(reply(asked).await, (None, answer));
        }
    }
    // A node that is gone, and still said to have the device.
    second.kill9().await;
    let subject = here[1].subject("device.rpc.mqtt.rpc");
    // One that came to the dead node before the server knew is answered by nobody.
    eventually("the device is known to be gone", async || {
        let asked = refused(&backend, &subject, &[], "x");
        match timeout(Duration::from_secs(2), asked).await.as_deref() {
            Ok("offline") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
