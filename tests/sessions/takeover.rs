//! A client goes from one node to another while its old connection still stands.

use jetway::mqtt::{QoS, ReasonCode, Version};

use crate::client::{Client, Hello, Step};
use crate::site::{BOTH, Site, assert_in_order};

const ID: u16 = 9;

#[tokio::test]
async fn g01_a_session_goes_on_at_another_node_and_the_old_connection_is_told() {
    let site = Site::start().await;
    let (first, second) = (site.node().await, site.node().await);
    for version in BOTH {
        let client_id = format!("mover-{}", version as u8);
        let (down, up) = (format!("down/{client_id}"), format!("up/{client_id}"));
        let hello = Hello::new(version, &client_id).with_will(30);
        let (mut old, present) = Client::connect(first.mqtt(), &hello).await;
        assert!(!present);
        old.subscribe(&down, QoS::ExactlyOnce).await;
        let mut unacknowledged = Vec::new();
        for (text, qos) in [
            ("a", QoS::AtLeastOnce),
            ("b", QoS::ExactlyOnce),
            ("c", QoS::AtLeastOnce),
        ] {
            site.send(&down, qos, text).await;
            let publish = old.message().await;
            unacknowledged.push((publish.packet_id, publish.payload));
        }
        old.publish(&up, QoS::ExactlyOnce, ID, "once").await;
        old.expect(Step::Pubrec, ID).await;

        let (mut new, present) = Client::connect(second.mqtt(), &hello).await;
        assert!(present);
        let told = old.closed().await;
        assert_eq!(
            told,
            (version == Version::V5).then_some(ReasonCode::SessionTakenOver)
        );
        for expected in unacknowledged {
            let publish = new.message().await;
            assert!(publish.dup, "{publish:?}");
            assert_eq!((publish.packet_id, publish.payload), expected);
        }
        // Sent once more, as if PUBREC had been lost: it is still the same message.
        new.publish_again(&up, QoS::ExactlyOnce, ID, "once").await;
        new.expect(Step::Pubrec, ID).await;
        new.step(Step::Pubrel, ID).await;
        new.expect(Step::Pubcomp, ID).await;
        assert_eq!(site.stored(&up).await, ["once"]);
        // The subscription is in force.
        site.send(&down, QoS::AtLeastOnce, "d").await;
        assert_eq!(new.message().await.payload, "d");
        site.story_is(&client_id, &["connected", "taken_over", "connected"])
            .await;
        let will = match version {
            // Its delay is not over, and the session goes on [MQTT-3.1.3-9].
            Version::V5 => vec![],
            Version::V3_1_1 => vec![client_id.clone()],
        };
        assert_eq!(site.stored(&format!("will/{client_id}")).await, will);
    }
    assert_in_order(&of_one(&site, "mover-1").await);
}

async fn of_one(site: &Site, client_id: &str) -> Vec<crate::site::Event> {
    let mut events = site.events().await;
    events.retain(|event| event.client_id == client_id);
    events
}

#[tokio::test]
async fn g01_a_node_killed_during_a_takeover_loses_no_session() {
    let site = Site::start().await;
    let mut nodes = [site.node().await, site.node().await];
    let hello = Hello::new(Version::V5, "mover");
    let (mut client, _) = Client::connect(nodes[0].mqtt(), &hello).await;
    client.subscribe("down", QoS::AtLeastOnce).await;
    // The one that has the session, then the one that takes it.
    for (round, killed) in [0, 1, 0, 1].into_iter().enumerate() {
        let (_old, _) = Client::connect(nodes[0].mqtt(), &hello).await;
        let mut asking = Client::ask(nodes[1].mqtt(), &hello).await;
        nodes[killed].kill9().await;
        nodes[killed] = site.node().await;
        if killed == 0 {
            assert!(asking.connack().await.session_present);
        }
        let (mut client, present) = Client::connect(nodes[killed].mqtt(), &hello).await;
        assert!(present);
        let text = format!("after {round}");
        site.send("down", QoS::AtLeastOnce, &text).await;
        let publish = loop {
            let publish = client.message().await;
            client
                .step(Step::Puback, publish.packet_id.unwrap().get())
                .await;
            if publish.payload == text {
                break publish;
            }
        };
        assert!(!publish.dup);
    }
    assert_in_order(&of_one(&site, "mover").await);
}
