//! When a Will is published, and that it is only then (G10).

use jetway::mqtt::{ReasonCode, Version};

use crate::client::{Client, Hello};
use crate::site::{BOTH, Site};
use crate::support::{Gateway, eventually};

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Normal,
    WithWill,
    SocketClosed,
    ProtocolError,
    Malformed,
    TakenOver,
    KeepAlive,
}

impl End {
    fn publishes(self, version: Version) -> bool {
        match self {
            Self::Normal => false,
            // 3.1.1 has no such reason.
            Self::WithWill => version == Version::V5,
            _ => true,
        }
    }

    async fn bring_about(self, gateway: &Gateway, hello: &Hello, mut client: Client) {
        match self {
            Self::Normal => client.disconnect(ReasonCode::Success).await,
            Self::WithWill => {
                client
                    .disconnect(ReasonCode::DisconnectWithWillMessage)
                    .await
            }
            Self::SocketClosed => drop(client),
            Self::ProtocolError => {
                // A second CONNECT [MQTT-3.1.0-2].
                client.send(hello.packet()).await;
                client.closed().await;
            }
            Self::Malformed => {
                client.send_bytes(&[0xF0, 0x01, 0x00]).await;
                client.closed().await;
            }
            Self::TakenOver => {
                let next = Hello {
                    will: None,
                    ..hello.clone()
                };
                let (next, _) = Client::connect(gateway.mqtt(), &next).await;
                next.disconnect(ReasonCode::Success).await;
            }
            Self::KeepAlive => {
                client.closed().await;
            }
        }
    }
}

const ALL: [End; 7] = [
    End::Normal,
    End::WithWill,
    End::SocketClosed,
    End::ProtocolError,
    End::Malformed,
    End::TakenOver,
    End::KeepAlive,
];

#[tokio::test]
async fn g10_a_will_is_published_once_after_an_abnormal_end_only() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let mut ended = Vec::new();
    for version in BOTH {
        for end in ALL {
            for stored in [false, true] {
                let client_id = format!("{}-{end:?}-{stored}", version as u8);
                let hello = match stored {
                    true => Hello::new(version, &client_id),
                    false => Hello::passing(version, &client_id),
                };
                let mut hello = hello.with_will(0);
                if end == End::KeepAlive {
                    hello.keep_alive = 1;
                }
                let (client, _) = Client::connect(gateway.mqtt(), &hello).await;
                end.bring_about(&gateway, &hello, client).await;
                ended.push((client_id, end.publishes(version)));
            }
        }
    }
    for (client_id, publishes) in &ended {
        eventually("the end is known", async || {
            let story = site.story(client_id).await;
            match story.last().is_some_and(|last| last != "connected") {
                true => Ok(()),
                false => Err(format!("{client_id}: {story:?}")),
            }
        })
        .await;
        if *publishes {
            site.has_will(client_id).await;
        }
    }
    // Not left over for the next connection, which has none.
    for (client_id, publishes) in &ended {
        let hello = Hello::new(Version::V5, client_id);
        let (client, _) = Client::connect(gateway.mqtt(), &hello).await;
        drop(client);
        eventually("it is gone again", async || {
            let story = site.story(client_id).await;
            match story.last().is_some_and(|last| last == "socket_closed") {
                true => Ok(()),
                false => Err(format!("{client_id}: {story:?}")),
            }
        })
        .await;
        let wills = site.stored(&format!("will/{client_id}")).await;
        assert_eq!(wills.len(), usize::from(*publishes), "{client_id}");
    }
    println!("{} ends", ended.len());
}

#[tokio::test]
async fn g10_a_refused_connect_has_no_will() {
    let site = Site::start().await;
    let gateway = site.node().await;
    // Longer than a client identifier may be here, and a topic that nobody may publish to.
    let long = Hello::passing(Version::V5, &"x".repeat(129)).with_will(0);
    let mut denied = Hello::passing(Version::V5, "denied").with_will(0);
    if let Some(will) = &mut denied.will {
        will.topic = bytestring::ByteString::from("$SYS/x").try_into().unwrap();
    }
    for hello in [long, denied] {
        let mut client = Client::ask(gateway.mqtt(), &hello).await;
        assert!(client.connack().await.reason.is_error());
        client.closed().await;
    }
    // A later one on the same topic shows that nothing came before.
    let later = Hello::passing(Version::V5, "later").with_will(0);
    drop(Client::connect(gateway.mqtt(), &later).await);
    site.has_will("later").await;
    let wills = site.backend.messages("MQTT", ">").await;
    assert_eq!(wills.len(), 1, "{wills:?}");
}

#[tokio::test]
async fn g10_a_delayed_will_is_given_up_when_the_client_is_back_in_time() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let hello = Hello::new(Version::V5, "client").with_will(5);
    let late = Hello::new(Version::V5, "late").with_will(5);
    drop(Client::connect(gateway.mqtt(), &hello).await);
    site.story_is("client", &["connected", "socket_closed"])
        .await;
    let back = Hello {
        will: None,
        ..hello.clone()
    };
    let (_client, present) = Client::connect(gateway.mqtt(), &back).await;
    assert!(present);
    // One that began later, and whose time was over: so was that of the other.
    drop(Client::connect(gateway.mqtt(), &late).await);
    site.has_will("late").await;
    assert!(site.stored("will/client").await.is_empty());
}

#[tokio::test]
async fn g10_a_delay_ends_with_the_session() {
    let site = Site::start().await;
    let gateway = site.node().await;
    // [MQTT-3.1.3-9]: by its expiry, by a clean start, or because there is none.
    let expiring = Hello {
        expiry_s: 1,
        ..Hello::new(Version::V5, "expiring").with_will(3_600)
    };
    let discarded = Hello::new(Version::V5, "discarded").with_will(3_600);
    let passing = Hello::passing(Version::V5, "passing").with_will(3_600);
    for hello in [&expiring, &discarded, &passing] {
        drop(Client::connect(gateway.mqtt(), hello).await);
        site.story_is(&hello.client_id, &["connected", "socket_closed"])
            .await;
    }
    site.has_will("passing").await;
    assert!(site.stored("will/discarded").await.is_empty());
    let clean = Hello {
        clean: true,
        will: None,
        ..discarded
    };
    let (_client, present) = Client::connect(gateway.mqtt(), &clean).await;
    assert!(!present);
    site.has_will("discarded").await;
    site.has_will("expiring").await;
    site.session_is_gone("expiring").await;
}

#[tokio::test]
async fn g10_a_taken_over_connection_s_delayed_will_is_given_up_if_the_session_goes_on() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let mut clients = Vec::new();
    // The last one's is published at its end.
    for delay_s in [5, 5, 0] {
        let hello = Hello::new(Version::V5, "client").with_will(delay_s);
        clients.push(Client::connect(gateway.mqtt(), &hello).await.0);
    }
    let marker = Hello::new(Version::V5, "marker").with_will(6);
    drop(Client::connect(gateway.mqtt(), &marker).await);
    site.has_will("marker").await;
    assert!(site.stored("will/client").await.is_empty());
    drop(clients);
    site.has_will("client").await;
}
