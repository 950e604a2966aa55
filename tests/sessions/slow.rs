//! Clients come and go while nats-server answers late or not at all: in the end the sessions, the events and the Wills are
//! those of what happened.

use std::time::{Duration, Instant};

use jetway::mqtt::{Packet, ReasonCode};

use crate::client::{Client, Hello};
use crate::site::{BOTH, Site, assert_in_order};
use crate::support::{eventually, lasting};

const CLIENTS: usize = 20;
/// How long clients wait for CONNACK.
const PATIENCE: Duration = Duration::from_secs(5);
/// How clients are distributed over moments of a pause.
const STEP: Duration = Duration::from_millis(5);

fn hellos() -> Vec<Hello> {
    (0..CLIENTS)
        .map(|number| {
            let (version, client_id) = (BOTH[number % 2], format!("client-{number}"));
            match number % 4 < 2 {
                true => Hello::new(version, &client_id),
                false => Hello::passing(version, &client_id),
            }
            .with_will(0)
        })
        .collect()
}

/// Every client is away, and everything says so.
async fn all_are_away(site: &Site, hellos: &[Hello], connects: &[usize]) {
    for (hello, connects) in hellos.iter().zip(connects) {
        let who = &hello.client_id;
        eventually(&format!("{who} is away"), async || {
            let events = site.events().await.into_iter();
            let events: Vec<_> = events.filter(|event| event.client_id == *who).collect();
            match events.len() >= 2 * connects
                && events.last().is_none_or(|last| last.reason.is_some())
            {
                true => Ok(()),
                false => Err(format!("{events:?}")),
            }
        })
        .await;
        eventually(
            &format!("the session of {who} is left"),
            async || match site.session(who).await {
                None => Ok(()),
                Some(session)
                    if session["node"].is_null() && session["disconnected_at_ms"].is_u64() =>
                {
                    Ok(())
                }
                Some(session) => Err(session.to_string()),
            },
        )
        .await;
        let mut events = site.events().await;
        events.retain(|event| event.client_id == *who);
        if !events.is_empty() {
            assert_in_order(&events);
        }
        // Each connection ended without a word, and each had a Will.
        let wills = site.stored(&format!("will/{who}")).await;
        assert_eq!(wills.len(), events.len() / 2, "{who}: {events:?}");
    }
}

#[tokio::test]
async fn connects_into_a_pause_leave_nothing_behind() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let hellos = hellos();
    let mut connects = vec![0; CLIENTS];
    for round in 0..3 {
        let mut asking = Vec::new();
        let (before, during) = hellos.split_at(CLIENTS / 2);
        for hello in before {
            asking.push(Client::ask(gateway.mqtt(), hello).await);
        }
        // One is in, the others are somewhere on their way.
        let mut answers = vec![asking[0].poll().await];
        site.nats.pause().await;
        for hello in during {
            asking.push(Client::ask(gateway.mqtt(), hello).await);
        }
        let paused = Instant::now();
        for client in &mut asking[1..] {
            answers.push(client.poll().await);
        }
        site.nats.resume();
        let mut accepted = 0;
        for (answer, connects) in answers.iter().zip(&mut connects) {
            let Some(Packet::Connack(connack)) = answer else {
                panic!("no CONNACK: {answer:?}");
            };
            match connack.reason {
                ReasonCode::Success => {
                    accepted += 1;
                    *connects += 1;
                }
                ReasonCode::ServerUnavailable => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(
            paused.elapsed() < PATIENCE,
            "a client that waits is told before it gives up"
        );
        println!(
            "round {round}: {accepted} accepted, all answered within {:?}",
            paused.elapsed()
        );
        drop(asking);
        all_are_away(&site, &hellos, &connects).await;
    }
}

#[tokio::test]
async fn connections_that_end_in_a_pause_are_settled_after_it() {
    let site = Site::start().await;
    let gateway = site.node().await;
    let hellos = hellos();
    let mut connects = vec![0; CLIENTS];
    for pause in [1, 7] {
        let mut clients = Vec::new();
        for (number, hello) in hellos.iter().enumerate() {
            clients.push(Client::connect(gateway.mqtt(), hello).await);
            connects[number] += 1;
        }
        for (number, client) in clients.into_iter().enumerate() {
            if number == CLIENTS / 2 {
                site.nats.pause().await;
            }
            drop(client);
            lasting(STEP).await;
        }
        lasting(Duration::from_secs(pause)).await;
        site.nats.resume();
        all_are_away(&site, &hellos, &connects).await;
    }
}

#[tokio::test]
async fn clients_that_come_back_during_a_pause_are_connected_in_the_end() {
    let site = Site::start().await;
    let nodes = [site.node().await, site.node().await];
    let hellos = hellos();
    let mut clients = Vec::new();
    for (number, hello) in hellos.iter().enumerate() {
        clients.push(Client::connect(nodes[number / 2 % 2].mqtt(), hello).await.0);
    }
    site.nats.pause().await;
    let mut asking = Vec::new();
    for (number, hello) in hellos.iter().enumerate() {
        asking.push(Client::ask(nodes[number % 2].mqtt(), hello).await);
    }
    lasting(Duration::from_secs(5)).await;
    site.nats.resume();
    let mut lasts = Vec::new();
    for (number, (mut client, hello)) in asking.into_iter().zip(&hellos).enumerate() {
        client.poll().await;
        let last = eventually("somebody lets the client in", async || {
            let connected = Client::try_connect(nodes[number % 2].mqtt(), hello).await;
            connected.ok_or_else(|| hello.client_id.clone())
        })
        .await;
        lasts.push(last.0);
    }
    for (hello, client) in hellos.iter().zip(&mut lasts) {
        let who = &hello.client_id;
        assert!(client.ping().await.is_empty(), "{who}");
        let events = eventually("it is connected", async || {
            let mut events = site.events().await;
            events.retain(|event| event.client_id == *who);
            match events.len() % 2 == 1 && events.last().is_some_and(|last| last.reason.is_none()) {
                true => Ok(events),
                false => Err(format!("{events:?}")),
            }
        })
        .await;
        assert_in_order(&events);
        let session = site.session(who).await.expect("a session");
        assert!(session["disconnected_at_ms"].is_null(), "{session}");
    }
    drop(clients);
}
