//! A node is killed: another one, or the same one after its restart, says so of each of its clients, once.

use std::time::Instant;

use jetway::mqtt::{QoS, ReasonCode, Version};

use crate::client::{Client, Hello};
use crate::site::{BOTH, LEASE_S, Site};
use crate::support::{Gateway, eventually};

/// Clients of one node: with and without a stored session, with and without a Will.
struct Crowd {
    hellos: Vec<Hello>,
    clients: Vec<Client>,
}

impl Crowd {
    async fn connect(gateway: &Gateway) -> Self {
        let mut hellos = Vec::new();
        for version in BOTH {
            for number in 0..3 {
                let name = |kind: &str| format!("{kind}-{}-{number}", version as u8);
                hellos.push(Hello::new(version, &name("stored")));
                hellos.push(Hello::passing(version, &name("passing")));
                hellos.push(Hello::new(version, &name("stored-will")).with_will(0));
                hellos.push(Hello::passing(version, &name("passing-will")).with_will(0));
                hellos.push(Hello::new(version, &name("delayed-will")).with_will(1));
            }
        }
        let mut clients = Vec::new();
        for hello in &hellos {
            let (mut client, _) = Client::connect(gateway.mqtt(), hello).await;
            if hello.client_id.starts_with("stored") {
                client
                    .subscribe(&format!("down/{}", hello.client_id), QoS::AtLeastOnce)
                    .await;
            }
            clients.push(client);
        }
        Self { hellos, clients }
    }

    /// Those that are away have one event more, their Wills are there once, and what is to be left of their sessions is.
    async fn judge(&self, site: &Site, stay_away: impl Fn(usize) -> bool) {
        for (number, hello) in self.hellos.iter().enumerate() {
            let who = &hello.client_id;
            let back: &[&str] = match stay_away(number) {
                true => &[],
                false => &["connected"],
            };
            site.story_is(who, &[&["connected", "node_lost"], back].concat())
                .await;
            if who.contains("will") && stay_away(number) {
                site.has_will(who).await;
            }
        }
        for (number, hello) in self.hellos.iter().enumerate() {
            let who = &hello.client_id;
            let wills = site.stored(&format!("will/{who}")).await.len();
            match (hello.will.is_some(), hello.version, stay_away(number)) {
                (false, _, _) => assert_eq!(wills, 0, "{who}"),
                // Back in time or not: it may be either.
                (true, Version::V5, false) if who.contains("delayed") => assert!(wills <= 1),
                (true, _, _) => assert_eq!(wills, 1, "{who}"),
            }
            if !stay_away(number) {
                continue;
            }
            if hello.clean {
                site.session_is_gone(who).await;
            } else {
                assert!(site.session(who).await.is_some(), "{who}");
            }
        }
    }
}

#[tokio::test]
async fn g29_the_clients_of_a_killed_node_are_reported_by_another_one() {
    let site = Site::start().await;
    let mut first = site.node().await;
    let second = site.node().await;
    let crowd = Crowd::connect(&first).await;
    let killed = Instant::now();
    first.kill9().await;
    // Some come back before anybody noticed.
    let mut back = Vec::new();
    for hello in crowd.hellos.iter().step_by(4) {
        let (client, present) = Client::connect(second.mqtt(), hello).await;
        assert_eq!(present, !hello.clean, "{}", hello.client_id);
        back.push(client);
    }
    crowd.judge(&site, |number| number % 4 != 0).await;
    println!("{} clients in {:?}", crowd.hellos.len(), killed.elapsed());
    for (number, hello) in crowd.hellos.iter().enumerate() {
        if number % 4 != 0 {
            let (mut client, present) = Client::connect(second.mqtt(), hello).await;
            assert_eq!(present, !hello.clean);
            assert!(client.ping().await.is_empty());
        }
    }
    drop(crowd.clients);
}

#[tokio::test]
async fn g29_the_clients_of_a_killed_node_are_reported_by_itself_after_its_restart() {
    let site = Site::start().await;
    let first = site.node().await;
    let crowd = Crowd::connect(&first).await;
    let second = site.killed(first).await;
    let restarted = Instant::now();
    let mut back = Vec::new();
    for hello in crowd.hellos.iter().step_by(4) {
        let (client, present) = Client::connect(second.mqtt(), hello).await;
        assert_eq!(present, !hello.clean, "{}", hello.client_id);
        back.push(client);
    }
    crowd.judge(&site, |number| number % 4 != 0).await;
    println!(
        "{} clients in {:?} after the restart; lease {LEASE_S} s",
        crowd.hellos.len(),
        restarted.elapsed()
    );
    drop(crowd.clients);
}

#[tokio::test]
async fn g02_session_present_is_the_truth_after_a_crash() {
    let site = Site::start().await;
    let mut gateway = site.node().await;
    for version in BOTH {
        let hello = Hello::new(version, &format!("v{}", version as u8));
        let clean = Hello {
            clean: true,
            expiry_s: 0,
            ..hello.clone()
        };
        // Not a packet after CONNACK.
        let (_client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(!present);
        gateway = site.killed(gateway).await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(present);
        client.subscribe("down", QoS::AtLeastOnce).await;
        gateway = site.killed(gateway).await;
        site.send("down", QoS::AtLeastOnce, "before it is back")
            .await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(present);
        assert_eq!(client.message().await.payload, "before it is back");
        // A clean start discards it all, crash or not.
        gateway = site.killed(gateway).await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &clean).await;
        assert!(!present);
        assert!(client.ping().await.is_empty());
        gateway = site.killed(gateway).await;
        let (mut client, present) = Client::connect(gateway.mqtt(), &hello).await;
        assert!(!present);
        site.send("down", QoS::AtLeastOnce, "not subscribed").await;
        assert!(client.ping().await.is_empty());
        client.disconnect(ReasonCode::Success).await;
    }
}

#[tokio::test]
async fn a_share_ends_with_the_node_that_had_its_only_member() {
    let site = Site::start().await;
    let mut first = site.node().await;
    let second = site.node().await;
    let share = "$share/group/down";
    let hello = Hello::passing(Version::V5, "lost");
    let (mut lost, _) = Client::connect(first.mqtt(), &hello).await;
    lost.subscribe(share, QoS::AtLeastOnce).await;
    let marked = async |expected: bool| {
        eventually("the node has the share, or not", async || {
            let filter = "$KV.jetway_sessions.*.%node.*";
            let marks = site.backend.messages("KV_jetway_sessions", filter).await;
            let set = marks
                .iter()
                .any(|mark| mark.header("KV-Operation").is_empty());
            match set == expected {
                true => Ok(()),
                false => Err(format!("{} marks", marks.len())),
            }
        })
        .await;
    };
    marked(true).await;
    first.kill9().await;
    marked(false).await;
    site.send("down", QoS::AtLeastOnce, "nobody's").await;
    // A share begins behind what its node has seen of the stream.
    eventually("the other node has seen that nobody gets it", async || {
        let offline = "jetway_downlink_messages_total{outcome=\"offline\"}";
        match second.metric(offline).await {
            0.0 => Err("it has not".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    let hello = Hello::passing(Version::V5, "next");
    let (mut next, _) = Client::connect(second.mqtt(), &hello).await;
    next.subscribe(share, QoS::AtLeastOnce).await;
    site.send("down", QoS::AtLeastOnce, "the next one's").await;
    assert_eq!(next.message().await.payload, "the next one's");
}
