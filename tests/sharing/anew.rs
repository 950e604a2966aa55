//! A share that is over ends with what waits in it: who subscribes next begins anew, on the same node at once, on another one as
//! soon as it can know.

use jetway::downlink::Leave;

use crate::node::{Member, Node, are_marked, backend, collect, consumers, expire, marks, send};
use crate::support::{Backend, NatsServer};

/// Who was a member first, and where the next one is.
const PLACES: [(usize, usize); 2] = [(0, 0), (0, 1)];

struct Site {
    _server: NatsServer,
    backend: Backend,
    nodes: [Node; 2],
}

impl Site {
    async fn start() -> Self {
        let server = NatsServer::start().await;
        let backend = backend(&server).await;
        let nodes = [Node::start(&server).await, Node::start(&server).await];
        Self {
            _server: server,
            backend,
            nodes,
        }
    }

    /// Nothing that was sent before comes to a member that joins this node now.
    async fn begins_anew(&self, node: usize, text: u32) {
        let member = self.nodes[node].join(&self.backend).await;
        send(&self.backend, text..text + 3, &[]).await;
        collect(&[&member], text..text + 3).await;
        self.nodes[node].leave(member, Leave::ForGood);
        self.is_over().await;
    }

    /// The last one leaves for good; if another node is `next`, returns when that can know.
    async fn leave_last(&self, node: usize, member: Member, next: usize) {
        self.nodes[node].leave(member, Leave::ForGood);
        if next != node {
            are_marked(&self.backend, 0).await;
        }
    }

    /// It leaves and its session stays; if another node is `next`, returns when that can know.
    async fn leave_for_now(&self, node: usize, member: Member, next: usize) {
        self.nodes[node].leave(member, Leave::Away);
        if next != node {
            self.nodes[node].rests().await;
        }
    }

    async fn is_over(&self) {
        for node in &self.nodes {
            node.rests().await;
        }
        assert!(consumers(&self.backend).await.is_empty());
        assert_eq!(marks(&self.backend).await, [""; 0]);
    }
}

#[tokio::test]
async fn what_is_sent_after_the_last_member_left_for_good_is_nobodys() {
    let site = Site::start().await;
    for (first, next) in PLACES {
        let member = site.nodes[first].join(&site.backend).await;
        send(&site.backend, 0..5, &[]).await;
        collect(&[&member], 0..5).await;
        site.leave_last(first, member, next).await;
        send(&site.backend, 5..10, &[]).await;
        site.begins_anew(next, 10).await;
    }
}

#[tokio::test]
async fn what_the_last_member_had_in_its_hands_ends_with_the_share() {
    let site = Site::start().await;
    for (first, next) in PLACES {
        let member = site.nodes[first].join(&site.backend).await;
        send(&site.backend, 0..40, &[]).await;
        let held = [member.next().await, member.next().await];
        site.leave_last(first, member, next).await;
        let [dropped, _kept_on] = held;
        drop(dropped);
        site.begins_anew(next, 40).await;
    }
}

#[tokio::test]
async fn members_that_come_and_go_within_an_instant_leave_nothing_to_each_other() {
    let site = Site::start().await;
    for round in 0..10 {
        for text in 0..6 {
            let member = site.nodes[0].join(&site.backend).await;
            // So often that the task of the share comes to different points.
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            site.nodes[0].leave(member, Leave::ForGood);
            send(&site.backend, text..text + 1, &[]).await;
        }
        site.begins_anew(0, 6).await;
    }
}

#[tokio::test]
async fn members_that_alternate_between_nodes_leave_nothing_to_each_other() {
    let site = Site::start().await;
    for text in 0..10 {
        let here = usize::from(text % 2 == 1);
        let member = site.nodes[here].join(&site.backend).await;
        send(&site.backend, 2 * text..2 * text + 1, &[]).await;
        collect(&[&member], 2 * text..2 * text + 1).await;
        site.leave_last(here, member, 1 - here).await;
        send(&site.backend, 2 * text + 1..2 * text + 2, &[]).await;
    }
    site.begins_anew(0, 20).await;
}

#[tokio::test]
async fn a_share_that_another_node_has_a_member_of_goes_on() {
    let site = Site::start().await;
    let [here, there] = &site.nodes;
    let member = here.join(&site.backend).await;
    let other = there.join(&site.backend).await;
    send(&site.backend, 0..20, &[]).await;
    collect(&[&member, &other], 0..20).await;
    let held = there.join(&site.backend).await;
    here.leave(member, Leave::ForGood);
    there.leave(held, Leave::ForGood);
    send(&site.backend, 20..60, &[]).await;
    let member = here.join(&site.backend).await;
    collect(&[&member, &other], 20..60).await;
    there.leave(other, Leave::ForGood);
    send(&site.backend, 60..90, &[]).await;
    collect(&[&member], 60..90).await;
    here.leave(member, Leave::ForGood);
    site.is_over().await;
}

#[tokio::test]
async fn a_share_that_a_stored_session_keeps_goes_on() {
    for (first, next) in PLACES {
        let site = Site::start().await;
        let stored = site.nodes[first].join_stored(&site.backend, "stored").await;
        site.leave_for_now(first, stored, next).await;
        send(&site.backend, 0..20, &[]).await;
        let passing = site.nodes[next].join(&site.backend).await;
        site.nodes[next].leave(passing, Leave::ForGood);
        send(&site.backend, 20..40, &[]).await;
        let stored = site.nodes[next].join_stored(&site.backend, "stored").await;
        collect(&[&stored], 0..40).await;
        // It unsubscribes.
        site.leave_last(next, stored, first).await;
        send(&site.backend, 40..50, &[]).await;
        site.begins_anew(first, 50).await;
    }
}

#[tokio::test]
async fn a_device_that_discards_its_session_and_subscribes_again_begins_anew() {
    for (first, next) in PLACES {
        let site = Site::start().await;
        let stored = site.nodes[first].join_stored(&site.backend, "stored").await;
        site.leave_for_now(first, stored, next).await;
        send(&site.backend, 0..20, &[]).await;
        site.nodes[next].forget(&site.backend, "stored").await;
        let stored = site.nodes[next].join_stored(&site.backend, "stored").await;
        send(&site.backend, 20..30, &[]).await;
        collect(&[&stored], 20..30).await;
        // Its new session keeps the share like the old one.
        site.nodes[next].leave(stored, Leave::Away);
        send(&site.backend, 30..40, &[]).await;
        let stored = site.nodes[first].join_stored(&site.backend, "stored").await;
        collect(&[&stored], 30..40).await;
    }
}

#[tokio::test]
async fn a_session_that_expired_keeps_no_share() {
    for (first, next) in PLACES {
        let site = Site::start().await;
        let stored = site.nodes[first].join_stored(&site.backend, "stored").await;
        site.nodes[first].leave(stored, Leave::Away);
        site.nodes[first].rests().await;
        assert_eq!(consumers(&site.backend).await.len(), 1);
        send(&site.backend, 0..20, &[]).await;
        expire(&site.backend, "stored").await;
        site.begins_anew(next, 20).await;
    }
}
