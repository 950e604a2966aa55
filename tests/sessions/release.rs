//! The open profile publishes a QoS 2 message at its PUBREL: whoever subscribes before gets it, wherever the sender comes back.

use jetway::mqtt::{QoS, ReasonCode};

use crate::client::{Client, Hello, Step};
use crate::site::{BOTH, Site};

const ONCE: QoS = QoS::ExactlyOnce;

#[tokio::test]
async fn who_subscribes_between_publish_and_pubrel_gets_the_message_also_after_a_restart() {
    // [MQTT-4.3.3-11], G-STORE
    let site = Site::start().await;
    let mut gateway = site.node().await;
    for version in BOTH {
        let client_id = format!("sender-{}", version as u8);
        let (topic, hello) = (format!("to/{client_id}"), Hello::new(version, &client_id));
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        let (mut early, _) =
            Client::connect(gateway.mqtt(), &Hello::passing(version, "early")).await;
        early.subscribe("to/#", ONCE).await;
        for (packet_id, text) in [(1, "first"), (2, "second")] {
            client.publish(&topic, ONCE, packet_id, text).await;
            client.expect(Step::Pubrec, packet_id).await;
        }
        assert_eq!(site.held(&client_id).await, ["1 first", "2 second"]);
        assert!(site.stored(&topic).await.is_empty());
        client.publish_stored(&topic, "between").await;
        assert_eq!(early.message().await.payload, "between");
        assert!(early.ping().await.is_empty());
        drop((client, early));

        gateway = site.killed(gateway).await;
        let (mut late, _) = Client::connect(gateway.mqtt(), &Hello::passing(version, "late")).await;
        late.subscribe("to/#", ONCE).await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(present);
        for (packet_id, text) in [(2, "second"), (1, "first")] {
            client.step(Step::Pubrel, packet_id).await;
            client.expect(Step::Pubcomp, packet_id).await;
            let publish = late.message().await;
            assert_eq!(
                (publish.payload, publish.qos, publish.dup),
                (text.into(), ONCE, false)
            );
        }
        site.holds_nothing(&client_id).await;
        // Once more: there is nothing to publish.
        client.step(Step::Pubrel, 1).await;
        client.expect(Step::Pubcomp, 1).await;
        assert_eq!(site.stored(&topic).await, ["between", "second", "first"]);
    }
}

#[tokio::test]
async fn what_is_sent_again_on_other_connections_and_nodes_is_published_once() {
    // [MQTT-4.3.3-10], [MQTT-4.4.0-1], G06, G-ONCE
    let site = Site::start().await;
    let nodes = [site.node().await, site.node().await];
    for version in BOTH {
        let client_id = format!("again-{}", version as u8);
        let (topic, hello) = (format!("to/{client_id}"), Hello::new(version, &client_id));
        for round in 0..10 {
            let text = round.to_string();
            let (mut client, _) = Client::connect(nodes[0].mqtt(), &hello).await;
            client.publish(&topic, ONCE, 1, &text).await;
            // Nobody waits for its answers.
            for connection in 1..4 {
                let (mut client, _) = Client::connect(nodes[connection % 2].mqtt(), &hello).await;
                client.publish_again(&topic, ONCE, 1, &text).await;
                client.expect(Step::Pubrec, 1).await;
            }
            for connection in 0..3 {
                let (mut client, _) = Client::connect(nodes[connection % 2].mqtt(), &hello).await;
                client.step(Step::Pubrel, 1).await;
            }
            let (mut client, _) = Client::connect(nodes[1].mqtt(), &hello).await;
            client.step(Step::Pubrel, 1).await;
            client.expect(Step::Pubcomp, 1).await;
            site.holds_nothing(&client_id).await;
        }
        let rounds: Vec<_> = (0..10).map(|round| round.to_string()).collect();
        assert_eq!(site.stored(&topic).await, rounds);
    }
}

#[tokio::test]
async fn a_connection_that_ends_right_after_pubrel_leaves_nothing_held() {
    let site = Site::start().await;
    let gateway = site.node().await;
    for version in BOTH {
        for number in 0..10 {
            let client_id = format!("gone-{}-{number}", version as u8);
            let hello = Hello::new(version, &client_id);
            let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
            client.publish("to/all", ONCE, 1, &client_id).await;
            client.expect(Step::Pubrec, 1).await;
            client.step(Step::Pubrel, 1).await;
            drop(client);
            let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
            client.step(Step::Pubrel, 1).await;
            client.expect(Step::Pubcomp, 1).await;
            site.holds_nothing(&client_id).await;
        }
    }
    let stored = site.stored("to/all").await;
    assert_eq!(stored.len(), 20, "{stored:?}");
}

#[tokio::test]
async fn what_an_ended_session_held_is_gone() {
    let site = Site::start().await;
    let gateway = site.node().await;
    for version in BOTH {
        let client_id = format!("ended-{}", version as u8);
        let publish = async |hello: &Hello| {
            let (mut client, present) = Client::connect(gateway.mqtt(), hello).await;
            assert!(!present);
            client.publish("to/nobody", ONCE, 1, "x").await;
            client.expect(Step::Pubrec, 1).await;
            assert_eq!(site.held(&client_id).await, ["1 x"]);
            client
        };
        let (stored, passing) = (
            Hello::new(version, &client_id),
            Hello::passing(version, &client_id),
        );
        // A clean start, while the session before is not even over.
        let _client = publish(&stored).await;
        let (mut client, _) = Client::connect(gateway.mqtt(), &passing).await;
        assert!(site.held(&client_id).await.is_empty());
        client.step(Step::Pubrel, 1).await;
        client.expect(Step::Pubcomp, 1).await;
        client.disconnect(ReasonCode::Success).await;
        // A session that ends with its connection.
        publish(&passing)
            .await
            .disconnect(ReasonCode::Success)
            .await;
        site.holds_nothing(&client_id).await;
    }
    assert!(site.stored("to/nobody").await.is_empty());
}

#[tokio::test]
async fn a_retained_message_is_retained_at_its_release() {
    // [MQTT-3.3.1-5], [MQTT-3.3.1-6]
    let site = Site::start().await;
    let gateway = site.node().await;
    let retained = async || {
        let bucket = "$KV.jetway_retained.mqtt.kept.here";
        let kept = site.backend.messages("KV_jetway_retained", bucket).await;
        kept.iter()
            .map(|stored| stored.text().to_owned())
            .collect::<Vec<_>>()
            .concat()
    };
    for version in BOTH {
        let hello = Hello::passing(version, "sender");
        let (mut client, _) = Client::connect(gateway.mqtt(), &hello).await;
        let mut before = "";
        for text in ["kept", "anew", ""] {
            client.publish_retained("kept/here", ONCE, 1, text).await;
            client.expect(Step::Pubrec, 1).await;
            assert_eq!(retained().await, before);
            client.step(Step::Pubrel, 1).await;
            client.expect(Step::Pubcomp, 1).await;
            assert_eq!(retained().await, text);
            before = text;
        }
    }
}
