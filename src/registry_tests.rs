//! One owner per device, and a mailbox with limits.

use std::task::Waker;

use super::*;
use crate::device::DeviceId;

fn mailbox() -> Arc<Mailbox<&'static str>> {
    let limit = Limit {
        messages: 3,
        bytes: 100,
    };
    Arc::new(Mailbox::new(DeviceId::new("p", "d").unwrap(), limit))
}

/// Whether the connection has left, as someone sees it who looks now.
fn has_left(mailbox: &Mailbox<&'static str>) -> bool {
    let mut left = std::pin::pin!(mailbox.left());
    let mut context = Context::from_waker(Waker::noop());
    left.as_mut().poll(&mut context).is_ready()
}

fn mail(mailbox: &Mailbox<&'static str>, has_room: bool) -> Option<Mail<&'static str>> {
    let context = Context::from_waker(Waker::noop());
    match mailbox.poll_mail(&context, has_room) {
        Poll::Ready(mail) => Some(mail),
        Poll::Pending => None,
    }
}

#[test]
fn a_device_has_one_place_and_who_takes_it_learns_who_had_it() {
    let registry = Registry::default();
    let (first, second) = (mailbox(), mailbox());
    assert!(registry.take("p.d", &first).is_none());
    let previous = registry.take("p.d", &second).unwrap();
    assert!(Arc::ptr_eq(&previous, &first));
    assert!(Arc::ptr_eq(&registry.find("p.d").unwrap(), &second));
    assert!(registry.find("p.e").is_none());
}

#[test]
fn g01_who_was_taken_over_touches_nothing_when_it_leaves() {
    let registry = Registry::default();
    let (first, second) = (mailbox(), mailbox());
    registry.take("p.d", &first);
    registry.take("p.d", &second);
    registry.leave("p.d", &first);
    assert!(Arc::ptr_eq(&registry.find("p.d").unwrap(), &second));
    registry.leave("p.d", &second);
    assert!(registry.find("p.d").is_none());
}

#[tokio::test]
async fn who_follows_goes_on_when_the_one_before_has_left_and_not_sooner() {
    let registry = Registry::default();
    let (first, second) = (mailbox(), mailbox());
    registry.take("p.d", &first);
    registry.take("p.d", &second);
    assert!(!has_left(&first));
    let waits = async {
        first.left().await;
        assert!(has_left(&first), "it stays left");
    };
    let leaves = async { registry.leave("p.d", &first) };
    tokio::join!(biased; waits, leaves);
    assert!(!has_left(&second));
}

#[test]
fn commands_come_before_messages_and_the_first_one_counts() {
    let registry = Registry::default();
    let owner = mailbox();
    registry.take("p.d", &owner);
    owner.deliver("a", 1).unwrap();
    registry.broadcast(Command::Drain);
    owner.command(Command::TakenOver);
    assert_eq!(mail(&owner, true), Some(Mail::Command(Command::Drain)));
    assert_eq!(mail(&owner, false), None, "messages wait for room");
    assert_eq!(mail(&owner, true), Some(Mail::Message("a")));
}

#[test]
fn a_mailbox_is_bounded_by_messages_and_by_bytes() {
    let owner = mailbox();
    for message in ["a", "b", "c"] {
        owner.deliver(message, 10).unwrap();
    }
    assert_eq!(owner.offer("d", 10), Err("d"));
    while mail(&owner, true).is_some() {}
    assert!(owner.is_empty());

    owner.deliver("large", 1_000).unwrap();
    assert_eq!(owner.offer("small", 1), Err("small"));
    assert_eq!(mail(&owner, true), Some(Mail::Message("large")));
    owner.deliver("small", 1).unwrap();
    assert_eq!(owner.len(), 1);
}

#[test]
fn what_overflowed_takes_nothing_until_it_is_reopened() {
    let owner = mailbox();
    for message in ["a", "b", "c"] {
        owner.deliver(message, 10).unwrap();
    }
    assert_eq!(owner.deliver("d", 10), Err("d"));
    assert_eq!(mail(&owner, true), Some(Mail::Message("a")));
    assert_eq!(owner.deliver("e", 10), Err("e"), "it would hide the gap");
    assert_eq!(owner.offer("f", 10), Err("f"));
    assert_eq!(mail(&owner, true), Some(Mail::Message("b")));
    assert_eq!(mail(&owner, true), Some(Mail::Message("c")));
    assert_eq!(mail(&owner, false), None, "reading back needs room");
    assert_eq!(mail(&owner, true), Some(Mail::Overflowed));
    assert_eq!(mail(&owner, true), None, "said once");
    assert_eq!(owner.deliver("g", 10), Err("g"));

    owner.reopen();
    owner.deliver("h", 10).unwrap();
    assert_eq!(mail(&owner, true), Some(Mail::Message("h")));
}
