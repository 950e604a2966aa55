//! Exactly the mailboxes that want a message get it, once; what it costs; where a mailbox begins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::device::DeviceId;
use crate::registry::{Limit, Mail};

fn mailbox(messages: u32) -> Arc<Mailbox<u64>> {
    let device = DeviceId::new("p", "d").unwrap();
    let bytes = u32::MAX;
    Arc::new(Mailbox::new(device, Limit { messages, bytes }))
}

fn mail(mailbox: &Mailbox<u64>) -> Vec<Mail<u64>> {
    let context = Context::from_waker(Waker::noop());
    let next = || match mailbox.poll_mail(&context, true) {
        Poll::Ready(mail) => Some(mail),
        Poll::Pending => None,
    };
    std::iter::from_fn(next).collect()
}

fn filters(texts: &[&str]) -> Vec<Subject> {
    texts.iter().map(|text| Subject::from(*text)).collect()
}

/// NATS's rule, token by token, without a tree.
fn selects(filter: &str, subject: &str) -> bool {
    let filter: Vec<_> = filter.split('.').collect();
    let subject: Vec<_> = subject.split('.').collect();
    match filter.split_last() {
        Some((&">", front)) => subject.len() > front.len() && all_select(front, &subject),
        _ => subject.len() == filter.len() && all_select(&filter, &subject),
    }
}

fn all_select(filter: &[&str], subject: &[&str]) -> bool {
    let mut pairs = filter.iter().zip(subject);
    pairs.all(|(filter, token)| *filter == "*" || filter == token)
}

fn nodes<M>(node: &Node<M>) -> usize {
    let below = node.below.iter();
    1 + below
        .map(|below| {
            nodes(&below.any)
                + nodes(&below.rest)
                + below.literal.values().map(nodes).sum::<usize>()
        })
        .sum::<usize>()
}

#[derive(Debug, Clone)]
enum Step {
    Attach(usize, Vec<String>),
    /// The one attached that many steps ago, if there is one.
    Detach(usize),
    Dispatch(String),
}

fn filter() -> impl Strategy<Value = String> {
    let tokens = prop::collection::vec(prop_oneof!["[ab]", Just("*".to_owned())], 0..4);
    (tokens, any::<bool>()).prop_map(|(mut tokens, rest)| {
        if rest || tokens.is_empty() {
            tokens.push(">".to_owned());
        }
        tokens.join(".")
    })
}

fn step() -> impl Strategy<Value = Step> {
    let subject = prop::collection::vec("[abc]", 1..5).prop_map(|tokens| tokens.join("."));
    prop_oneof![
        (0..4_usize, prop::collection::vec(filter(), 1..3))
            .prop_map(|(who, filters)| Step::Attach(who, filters)),
        (0..8_usize).prop_map(Step::Detach),
        subject.prop_map(Step::Dispatch),
    ]
}

proptest! {
    #[test]
    fn who_wants_a_message_gets_it_once(steps in prop::collection::vec(step(), 1..80)) {
        let router = Router::default();
        let mailboxes: Vec<_> = (0..4).map(|_| mailbox(1)).collect();
        let mut attached: Vec<(usize, Vec<Subject>)> = Vec::new();
        for (step, sequence) in steps.into_iter().zip(1..) {
            match step {
                Step::Attach(who, filters) => {
                    let filters: Vec<Subject> = filters.into_iter().map(Subject::from).collect();
                    router.attach(&filters, &mailboxes[who]);
                    attached.push((who, filters));
                }
                Step::Detach(at) if at < attached.len() => {
                    let (who, filters) = attached.swap_remove(at);
                    router.detach(&filters, &mailboxes[who]);
                }
                Step::Detach(_) => {}
                Step::Dispatch(subject) => {
                    let wants = |who: usize| {
                        let mut filters = attached.iter().filter(|one| one.0 == who).flat_map(|one| &one.1);
                        filters.any(|filter| selects(filter, &subject))
                    };
                    let wanting = (0..4).filter(|who| wants(*who)).count();
                    let made = AtomicUsize::new(0);
                    let message = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        Some(sequence)
                    };
                    prop_assert_eq!(router.dispatch(sequence, &subject, 1, message), wanting);
                    prop_assert_eq!(made.into_inner(), wanting.min(1));
                    for (who, mailbox) in mailboxes.iter().enumerate() {
                        let expected: &[_] = if wants(who) { &[Mail::Message(sequence)] } else { &[] };
                        prop_assert_eq!(&*mail(mailbox), expected);
                    }
                }
            }
        }
        for (who, filters) in attached {
            router.detach(&filters, &mailboxes[who]);
        }
        let state = router.lock();
        prop_assert_eq!(nodes(&state.root), 1);
        prop_assert_eq!(state.root.here.capacity(), 0);
        prop_assert!(mailboxes.iter().all(|mailbox| Arc::strong_count(mailbox) == 1));
    }
}

#[test]
fn a_mailbox_begins_behind_the_position_it_is_given() {
    let router = Router::default();
    let one = mailbox(10);
    router.begin("stream", 6);
    router.dispatch(7, "a.b", 1, || panic!("nobody wants it"));
    assert_eq!(router.attach(&filters(&["a.*"]), &one), 7);
    assert_eq!(router.dispatch(8, "a.b", 1, || Some(8)), 1);
    assert_eq!(router.dispatch(9, "a.b", 1, || None), 0, "cannot be mapped");
    assert_eq!(router.detach(&filters(&["a.*"]), &one), 9);
    assert_eq!(router.dispatch(10, "a.b", 1, || Some(10)), 0);
    assert_eq!(mail(&one), [Mail::Message(8)]);
    assert_eq!(router.position(), 10);
}

#[test]
fn what_overflowed_is_served_from_where_it_rejoins() {
    let router = Router::default();
    let one = mailbox(2);
    router.attach(&filters(&[">"]), &one);
    let dispatch = |sequence| router.dispatch(sequence, "a", 1, || Some(sequence));
    let taken: Vec<_> = (1..=4).map(dispatch).collect();
    assert_eq!(taken, [1, 1, 0, 0]);
    let expected = [Mail::Message(1), Mail::Message(2), Mail::Overflowed];
    assert_eq!(mail(&one), expected);
    assert_eq!(dispatch(5), 0);
    assert_eq!(router.rejoin(&one), 5, "3 to 5 are read back");
    assert_eq!(dispatch(6), 1);
    assert_eq!(mail(&one), [Mail::Message(6)]);
}

#[test]
fn detaching_what_is_not_attached_changes_nothing() {
    let router = Router::default();
    let (one, other) = (mailbox(1), mailbox(1));
    router.attach(&filters(&["a.b"]), &one);
    router.detach(&filters(&["a.b", "a", "a.b.c", "a.*", ">"]), &other);
    router.detach(&filters(&["a", "a.b.c", "a.*", ">"]), &one);
    assert_eq!(router.dispatch(1, "a.b", 1, || Some(1)), 1);
}

#[test]
fn a_dispatch_costs_the_same_however_many_others_there_are() {
    let mut root = Node::default();
    let one = mailbox(1);
    let steps = |root: &Node<u64>| {
        let mut steps = 0;
        root.visit("mqtt.site.7.temperature", &mut |_| steps += 1);
        steps
    };
    root.add("mqtt.site.7.*", &one);
    root.add("mqtt.*.8.>", &one);
    let few = steps(&root);
    for number in 100..20_100 {
        root.add(&format!("mqtt.site.{number}.*"), &one);
        root.add(&format!("mqtt.{number}.>"), &one);
        root.add(&format!("mqtt.site.7.{number}"), &one);
    }
    assert_eq!(steps(&root), few);
    assert_eq!(root.wanting("mqtt.site.7.temperature").len(), 1);
}

#[test]
fn memory_comes_back_while_one_stays() {
    let mut root = Node::default();
    let (one, other) = (mailbox(1), mailbox(1));
    root.add("mqtt.a", &one);
    for number in 0..10_000 {
        root.add(&format!("mqtt.{number}"), &other);
    }
    for number in 0..10_000 {
        root.remove(format!("mqtt.{number}").split('.'), &other);
    }
    assert_eq!(Arc::strong_count(&other), 1);
    let level = &root.below.as_ref().unwrap().literal["mqtt"];
    let tokens = &level.below.as_ref().unwrap().literal;
    assert_eq!(tokens.len(), 1);
    assert!(tokens.capacity() < 64, "{}", tokens.capacity());
}

#[test]
fn the_longest_filter_is_kept_and_no_longer_one() {
    let router = Router::default();
    let one = mailbox(1);
    let deep = "a.".repeat(FILTER_BYTES_MAX / 2 - 1) + ">";
    let deeper = "a.".repeat(100_000) + "a";
    router.attach(&filters(&[&deep, &deeper]), &one);
    let subject = "a.".repeat(FILTER_BYTES_MAX / 2 - 1) + "a";
    assert_eq!(router.dispatch(1, &subject, 1, || Some(1)), 1);
    assert_eq!(router.dispatch(2, &deeper, 1, || Some(2)), 0);
    router.detach(&filters(&[&deep, &deeper]), &one);
    assert_eq!(nodes(&router.lock().root), 1);
}
