//! Services ask sub-devices, which have no connection: their gateway device is asked for them, on whichever node it is, while they are
//! bound to it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::rpc::{answer_topic, ask, listener, refused, reply};
use crate::site::{BOTH, Registered, SECRET, Site};
use crate::sub_devices::{Asking, id, named, operator, signed};
use crate::support::{Backend, Gateway, Protocol, eventually};

const LONG: [(&str, &str); 1] = [("Jw-Timeout-Ms", "20000")];
const QUESTION: &str = r#"{"method":"action","msgToken":"1"}"#;

/// A gateway device with a sub-device behind it, which was not said to be online.
async fn bound(
    site: &Site,
    gateway: &Gateway,
    protocol: Protocol,
) -> (Asking, Registered, Registered) {
    let (who, sub) = (site.device(), site.device());
    let mut asking = Asking::connect(gateway, protocol, &who).await;
    let bind = [signed(&sub, SECRET)];
    assert_eq!(asking.code("topo", "bind", &bind).await, 200);
    (asking, who, sub)
}

/// Has the gateway device answer what comes next.
async fn answered(gateway: &mut Asking, topic: &str) {
    let question = gateway.device.next().await;
    assert_eq!((&*question.topic, question.qos), (topic, 0));
    let answer = answer_topic(&question);
    assert_eq!(gateway.device.publish_acked(&answer, QUESTION).await, 0);
}

#[tokio::test]
async fn a_sub_device_is_asked_through_its_gateway_device_while_it_is_bound() {
    // G22, G23
    let site = Site::shared().await;
    let backend = site.backend().await;
    let started = Instant::now();
    for protocol in BOTH {
        let (mut gateway, who, sub) = bound(&site, &site.gateway, protocol).await;
        let subject = sub.subject("device.rpc.mqtt.thing");
        let not_subscribed = refused(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(not_subscribed, "not_subscribed");
        let filters = ["$thing/down/+", "$rpc/down/+"].map(|head| sub.topic(head));
        for filter in &filters {
            assert_eq!(gateway.device.subscribe(filter).await, 1);
        }
        let asked = ask(&backend, &subject, &[], QUESTION).await;
        answered(&mut gateway, &sub.topic("$thing/down/action")).await;
        assert_eq!(reply(asked).await, (None, QUESTION.to_owned()));
        assert_eq!(sub.stored_count(&backend, 1).await[0].text(), QUESTION);
        // By an RPC topic, which has no message token.
        let of_rpc = sub.subject("device.rpc.mqtt.rpc");
        let asked = ask(&backend, &of_rpc, &[], "?").await;
        let question = gateway.device.next().await;
        assert!(question.topic.ends_with(&sub.topic("")), "{question:?}");
        let answer = answer_topic(&question);
        assert_eq!(gateway.device.publish_acked(&answer, "!").await, 0);
        assert_eq!(reply(asked).await, (None, "!".to_owned()));
        gateway.device.unsubscribe(&filters[1]).await;
        // One that is connected itself is asked itself.
        let mut own = listener(&site.gateway, protocol, &sub, "$thing/down/+").await;
        let asked = ask(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(own.next().await.text(), QUESTION);
        own.disconnect().await;
        assert_eq!(reply(asked).await.0.as_deref(), Some("offline"));
        until(&backend, &sub, "not_subscribed").await;

        // It is unbound while it is asked.
        let asked = ask(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(gateway.device.next().await.text(), QUESTION);
        assert_eq!(gateway.code("topo", "unbind", &[named(&sub)]).await, 200);
        assert_eq!(reply(asked).await.0.as_deref(), Some("offline"));
        let asked = refused(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(asked, "offline");
        // Its gateway device leaves.
        let bind = [signed(&sub, SECRET)];
        assert_eq!(gateway.code("topo", "bind", &bind).await, 200);
        assert_eq!(gateway.device.subscribe(&filters[0]).await, 1);
        let asked = ask(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(gateway.device.next().await.text(), QUESTION);
        gateway.device.disconnect().await;
        assert_eq!(reply(asked).await.0.as_deref(), Some("offline"));
        let asked = refused(&backend, &subject, &LONG, QUESTION).await;
        assert_eq!(asked, "offline");
        assert_eq!(who.stored(&backend).await.len(), 3, "what it asked itself");
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn what_the_operator_takes_away_is_asked_no_longer() {
    let site = Site::shared().await;
    let backend = site.backend().await;
    for protocol in BOTH {
        let (mut gateway, who, sub) = bound(&site, &site.gateway, protocol).await;
        let filter = sub.topic("$thing/down/+");
        let subject = sub.subject("device.rpc.mqtt.thing");
        for (ends, begins) in [
            (
                ["device", "block", &sub.product, &sub.name],
                ["device", "enable", &sub.product, &sub.name],
            ),
            (
                ["binding", "remove", &id(&who), &id(&sub)],
                ["binding", "add", &id(&who), &id(&sub)],
            ),
        ] {
            assert_eq!(gateway.device.subscribe(&filter).await, 1);
            let asked = ask(&backend, &subject, &LONG, QUESTION).await;
            assert_eq!(gateway.device.next().await.text(), QUESTION);
            operator(&site, &ends);
            assert_eq!(reply(asked).await.0.as_deref(), Some("offline"));
            let asked = refused(&backend, &subject, &LONG, QUESTION).await;
            assert_eq!(asked, "offline");
            operator(&site, &begins);
            // Not before the gateway device subscribes again.
            until(&backend, &sub, "not_subscribed").await;
        }
        assert_eq!(gateway.device.subscribe(&filter).await, 1);
        let topic = sub.topic("$thing/down/action");
        let rule = ["product", "rule", "add", &sub.product];
        let rule = [&rule[..], &["deny", "subscribe", &topic]].concat();
        operator(&site, &rule);
        until_asked(&backend, &subject, "not_subscribed").await;
    }
}

#[tokio::test]
async fn a_sub_device_is_asked_through_whichever_node_has_its_gateway_device() {
    let site = Site::start(&[]).await;
    let mut second = site.further_gateway().await;
    let backend = site.backend().await;
    let mut all = Vec::new();
    for (gateway, protocol) in [&site.gateway, &second].into_iter().zip(BOTH) {
        let (mut gateway, _, sub) = bound(&site, gateway, protocol).await;
        let filter = sub.topic("$thing/down/+");
        assert_eq!(gateway.device.subscribe(&filter).await, 1);
        all.push((gateway, sub));
    }
    // Whichever node a request comes to.
    for _ in 0..20 {
        for (gateway, sub) in &mut all {
            let subject = sub.subject("device.rpc.mqtt.thing");
            let asked = ask(&backend, &subject, &[], QUESTION).await;
            answered(gateway, &sub.topic("$thing/down/action")).await;
            assert_eq!(reply(asked).await, (None, QUESTION.to_owned()));
        }
    }
    second.kill9().await;
    until(&backend, &all[1].1, "offline").await;
}

/// Waits until a request that nobody would answer has this outcome.
async fn until(backend: &Backend, sub: &Registered, expected: &str) {
    until_asked(backend, &sub.subject("device.rpc.mqtt.ota"), expected).await;
}

async fn until_asked(backend: &Backend, subject: &str, expected: &str) {
    eventually(expected, async || {
        // What came to a node that died is answered by nobody until the server knows.
        let asked = refused(backend, subject, &LONG, QUESTION);
        match timeout(Duration::from_secs(2), asked).await {
            Ok(outcome) if outcome == expected => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
