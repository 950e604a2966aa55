//! One owner per device, and a mailbox with limits.

use std::task::Waker;

use super::*;
use crate::device::DeviceId;

fn connection(number: u64) -> Connection {
    Connection {
        device: DeviceId::new("p", "d").unwrap(),
        client_id: "p&d".into(),
        connection_id: format!("run.{number}").into(),
        epoch: number,
        version: "5.0",
        peer: Some("127.0.0.1:1".parse().unwrap()),
        connected_at_ms: 0,
    }
}

fn mailbox(number: u64) -> Mailbox<&'static str> {
    let limit = Limit {
        messages: 3,
        bytes: 100,
    };
    Mailbox::new(connection(number), limit)
}

fn mail(mailbox: &Mailbox<&'static str>, has_room: bool) -> Option<Mail<&'static str>> {
    let context = Context::from_waker(Waker::noop());
    match mailbox.poll_mail(&context, has_room) {
        Poll::Ready(mail) => Some(mail),
        Poll::Pending => None,
    }
}

#[test]
fn a_device_has_one_owner_and_the_one_before_it_is_told() {
    let registry = Registry::default();
    let first = registry.take("p.d", |previous| {
        assert_eq!(previous, None);
        mailbox(1)
    });
    let second = registry.take("p.d", |previous| {
        assert_eq!(previous.map(|previous| previous.epoch), Some(1));
        mailbox(2)
    });
    assert_eq!(mail(&first, true), Some(Mail::Command(Command::TakenOver)));
    assert_eq!(mail(&second, true), None);
    assert!(Arc::ptr_eq(&registry.find("p.d").unwrap(), &second));
    assert!(registry.find("p.e").is_none());
}

#[test]
fn who_was_taken_over_touches_nothing_when_it_leaves() {
    let registry = Registry::default();
    let first = registry.take("p.d", |_| mailbox(1));
    let second = registry.take("p.d", |_| mailbox(2));
    registry.leave("p.d", &first, || panic!("not the owner"));
    assert!(registry.find("p.d").is_some());
    let mut left = false;
    registry.leave("p.d", &second, || left = true);
    assert!(left);
    assert!(registry.find("p.d").is_none());
}

#[test]
fn commands_come_before_messages_and_the_first_one_counts() {
    let registry = Registry::default();
    let owner = registry.take("p.d", |_| mailbox(1));
    owner.deliver("a", 1).unwrap();
    registry.broadcast(Command::Drain);
    owner.command(Command::TakenOver);
    assert_eq!(mail(&owner, true), Some(Mail::Command(Command::Drain)));
    assert_eq!(mail(&owner, false), None, "messages wait for room");
    assert_eq!(mail(&owner, true), Some(Mail::Message("a")));
}

#[test]
fn a_mailbox_is_bounded_by_messages_and_by_bytes() {
    let owner = mailbox(1);
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
    let owner = mailbox(1);
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
