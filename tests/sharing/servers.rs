//! The server goes away under the members.

use crate::node::{Node, STREAM, backend, collect, consumers, send};
use crate::support::{NatsServer, eventually};

#[tokio::test]
async fn nothing_is_lost_while_the_server_restarts() {
    let mut server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let members = [nodes[0].join(&backend).await, nodes[1].join(&backend).await];
    send(&backend, 0..20, &[]).await;
    collect(&members.each_ref(), 0..20).await;
    server.stop().await;
    server.restart().await;
    // Who finds the server first may have all that was sent meanwhile; in the end both have their part.
    let mut texts = (20..).step_by(40).map(|text| text..text + 40);
    eventually("both members have a part", async || {
        let texts = texts.next().unwrap();
        send(&backend, texts.clone(), &[]).await;
        let counts = collect(&members.each_ref(), texts).await;
        match counts.iter().all(|count| *count > 0) {
            true => Ok(()),
            false => Err(format!("{counts:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_in_members_hands_is_not_lost_with_the_server() {
    let mut server = NatsServer::start().await;
    let backend = backend(&server).await;
    let nodes = [Node::start(&server).await, Node::start(&server).await];
    let first = nodes[0].join_stored(&backend, "stored").await;
    send(&backend, 0..10, &[]).await;
    let held = first.next().await;
    server.stop().await;
    // Their answers wait for the server.
    nodes[0].leave(first, jetway::downlink::Leave::Away);
    drop(held);
    server.restart().await;
    let second = nodes[1].join(&backend).await;
    collect(&[&second], 0..10).await;
}

#[tokio::test]
async fn a_consumer_that_was_deleted_is_made_again() {
    let server = NatsServer::start().await;
    let backend = backend(&server).await;
    let node = Node::start(&server).await;
    let member = node.join(&backend).await;
    send(&backend, 0..10, &[]).await;
    collect(&[&member], 0..10).await;
    let name = &consumers(&backend).await[0];
    let subject = format!("$JS.API.CONSUMER.DELETE.{STREAM}.{name}");
    backend.request(&subject, "").await;
    send(&backend, 10..20, &[]).await;
    collect(&[&member], 10..20).await;
}
