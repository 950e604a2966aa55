//! Members come, go, and have room or not.

use jetway::downlink::Leave;

use crate::node::{Member, Node, are_marked, backend, collect, consumers, marks, send, text};
use crate::support::{NatsServer, eventually};

#[tokio::test]
async fn each_message_goes_to_one_member_and_all_have_their_part() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let members = [
        nodes[0].join(&backend).await,
        nodes[0].join(&backend).await,
        nodes[1].join(&backend).await,
    ];
    send(&backend, 0..300, &[]).await;
    let counts = collect(&members.each_ref(), 0..300).await;
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    assert_eq!(consumers(&backend).await.len(), 1);
}

#[tokio::test]
async fn what_a_member_leaves_behind_goes_to_another() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let first = nodes[0].join(&backend).await;
    send(&backend, 0..20, &[]).await;
    let taken = [first.next().await, first.next().await, first.next().await];
    taken[0].token.ack();
    taken[1].token.nak();
    assert_eq!(text(&taken[1]), 1);
    let second = nodes[1].join(&backend).await;
    are_marked(&backend, 2).await;
    drop(taken);
    nodes[0].leave(first, Leave::Away);
    collect(&[&second], 1..20).await;
    nodes[0].rests().await;
}

#[tokio::test]
async fn what_is_sent_while_all_are_away_waits() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let member = nodes[0].join_stored(&backend, "stored").await;
    send(&backend, 0..5, &[]).await;
    collect(&[&member], 0..5).await;
    nodes[0].leave(member, Leave::Away);
    nodes[0].rests().await;
    send(&backend, 5..40, &[]).await;
    let member = nodes[1].join_stored(&backend, "stored").await;
    collect(&[&member], 5..40).await;
}

#[tokio::test]
async fn who_leaves_last_for_good_takes_the_consumer_along() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let first = nodes[0].join(&backend).await;
    let second = nodes[1].join(&backend).await;
    send(&backend, 0..30, &[]).await;
    collect(&[&first, &second], 0..30).await;

    nodes[0].leave(first, Leave::ForGood);
    nodes[0].rests().await;
    assert_eq!(consumers(&backend).await.len(), 1, "the other one uses it");
    send(&backend, 30..40, &[]).await;
    // Also with a message in its hands.
    let held = second.next().await;
    nodes[1].leave(second, Leave::ForGood);
    drop(held);
    nodes[1].rests().await;
    assert!(consumers(&backend).await.is_empty());

    let third = nodes[0].join(&backend).await;
    send(&backend, 40..45, &[]).await;
    collect(&[&third], 40..45).await;
}

#[tokio::test]
async fn a_session_that_is_stored_keeps_the_consumer_while_others_come_and_go() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let stored = nodes[0].join_stored(&backend, "stored").await;
    send(&backend, 0..5, &[]).await;
    collect(&[&stored], 0..5).await;
    nodes[0].leave(stored, Leave::Away);
    nodes[0].rests().await;

    let passing = nodes[1].join(&backend).await;
    nodes[1].leave(passing, Leave::ForGood);
    nodes[1].rests().await;
    send(&backend, 5..30, &[]).await;
    let stored = nodes[1].join_stored(&backend, "stored").await;
    collect(&[&stored], 5..30).await;

    nodes[1].leave(stored, Leave::Away);
    nodes[1].rests().await;
    assert_eq!(consumers(&backend).await.len(), 1);
    nodes[0].forget(&backend, "stored").await;
    nodes[0].rests().await;
    assert!(consumers(&backend).await.is_empty());
    assert_eq!(marks(&backend).await, [""; 0]);
}

#[tokio::test]
async fn a_member_has_no_more_in_its_hands_than_it_has_room_for() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let node = Node::start(&server).await;
    let small = node.join_with_room(&backend, 5).await;
    let idle = node.join(&backend).await;
    send(&backend, 0..200, &[]).await;
    let full = |member: &Member, messages: usize| match member.0.len() == messages {
        true => Ok(()),
        false => Err(member.0.len().to_string()),
    };
    eventually("both are full", async || {
        full(&small, 5).and_then(|()| full(&idle, 32))
    })
    .await;
    collect(&[&small, &idle], 0..200).await;
}

#[tokio::test]
async fn what_the_filter_does_not_match_and_what_goes_at_most_once_is_done_at_once() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let node = Node::start(&server).await;
    let member = node.join_stored(&backend, "stored").await;
    for other in ["event", "action"] {
        let headers = [("Jw-Type", other)];
        let subject = "device.down.mqtt.thing.p.d";
        backend.publish(subject, &headers, "0").await;
    }
    send(&backend, 7..8, &[("Jw-Qos", "0")]).await;
    send(&backend, 8..9, &[]).await;
    let at_most_once = member.next().await;
    assert_eq!(text(&at_most_once), 7);
    node.leave(member, Leave::Away);
    drop(at_most_once);
    node.rests().await;
    let member = node.join_stored(&backend, "stored").await;
    collect(&[&member], 8..9).await;
}
