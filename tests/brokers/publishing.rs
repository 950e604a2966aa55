//! The contract of publishers: everything is stored, in the order of each aggregate, over repeats and outages.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jetway::outbox::{Answer, Broker, Row};

use crate::shelf::{Kept, Publishing, Shelf, row};
use crate::support::{NatsServer, eventually, within_time};
use crate::switching::{all_published, relay};

const AGGREGATES: [&str; 5] = ["d1", "d2", "d3", "d4", "d5"];
/// So many rows are published at a time.
const CLAIM: usize = 50;
/// For all of a test's rows, with an outage in between.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(120);

/// So many rows of each aggregate, mixed.
fn rows(each: u32) -> Vec<Row> {
    let numbers = 1..=each;
    let of_all = numbers.flat_map(|number| AGGREGATES.map(|aggregate| row(aggregate, number)));
    of_all.collect()
}

/// What the first of each id says, by subject.
fn first_of_each(kept: &[Kept]) -> HashMap<String, Vec<String>> {
    let mut seen = HashSet::new();
    let mut payloads: HashMap<String, Vec<String>> = HashMap::new();
    for kept in kept.iter().filter(|kept| seen.insert(&kept.id)) {
        let of = payloads.entry(kept.subject.clone()).or_default();
        of.push(kept.payload.clone());
    }
    payloads
}

/// Each aggregate's numbers from 1 to `each`.
fn assert_complete(kept: &[Kept], each: u32) {
    let expected: Vec<String> = (1..=each).map(|number| number.to_string()).collect();
    let payloads = first_of_each(kept);
    assert_eq!(payloads.len(), AGGREGATES.len());
    for (subject, payloads) in payloads {
        assert_eq!(payloads, expected, "{subject}");
    }
}

async fn contract(mut shelf: Shelf) -> Shelf {
    stores_once(&shelf).await;
    keeps_order_over_an_outage(&mut shelf).await;
    shelf
}

/// The relay reaches it when the configuration says so.
async fn is_relayed_to(shelf: Shelf, publisher: Broker, url: &str) {
    let before = shelf.kept().await.len();
    let nats = NatsServer::start().await;
    assert_eq!(relay(&nats.url(), publisher, url).await, all_published());
    let published = usize::try_from(all_published().published).unwrap();
    assert_eq!(shelf.kept().await.len(), before + published);
}

async fn stores_once(shelf: &Shelf) {
    const EACH: u32 = 20;
    let publisher = shelf.publisher();
    let rows = rows(EACH);
    let so_far = SoFar::default();
    for _ in 0..2 {
        publish(&publisher, rows.clone(), &so_far).await;
    }
    let kept = shelf.kept().await;
    // What was not said to be stored may be there all the same.
    let (times, more) = match shelf.knows_repeats() {
        true => (1, 0),
        false => (2, so_far.failed.into_inner()),
    };
    let least = times * rows.len();
    assert!(
        (least..=least + more).contains(&kept.len()),
        "{}",
        kept.len()
    );
    assert_complete(&kept, EACH);
    let header = |name: &str| {
        let headers = kept[0].headers.iter();
        let mut values = headers.filter_map(|(key, value)| (key == name).then_some(&**value));
        values.next().unwrap_or_default().to_owned()
    };
    assert_eq!(header("Jw-Event"), "gps.report.created");
    assert_eq!(header("Jw-Event-Id"), kept[0].id);
    assert!(header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
}

async fn keeps_order_over_an_outage(shelf: &mut Shelf) {
    const BEFORE: u32 = 20;
    const EACH: u32 = 200;
    let publisher = shelf.publisher();
    let so_far = SoFar::default();
    let rows = rows(EACH).split_off(BEFORE as usize * AGGREGATES.len());
    let all = rows.len();
    let outage = Box::pin(async {
        if shelf.is_a_server() {
            reached(&so_far.stored, all / 4).await;
            shelf.take_away().await;
            reached(&so_far.failed, CLAIM).await;
            shelf.bring_back().await;
        }
    });
    tokio::join!(publish(&publisher, rows, &so_far), outage);
    let kept = shelf.kept().await;
    assert_complete(&kept, EACH);
}

/// How many rows were said to be stored, and not to be, one as often as it was published.
#[derive(Default)]
struct SoFar {
    stored: AtomicUsize,
    failed: AtomicUsize,
}

/// A relay in small: publishes the first rows again and again, until all are stored.
async fn publish(publisher: &Publishing, mut left: Vec<Row>, so_far: &SoFar) {
    let relay = Box::pin(async {
        while !left.is_empty() {
            let claimed = &left[..CLAIM.min(left.len())];
            let answers = publisher.publish(claimed).await;
            let mut answers = answers.into_iter();
            left.retain(|_| match answers.next() {
                Some(Answer::Stored) => {
                    so_far.stored.fetch_add(1, Ordering::Relaxed);
                    false
                }
                Some(Answer::Refused(reason)) => panic!("an attempt is burnt: {reason}"),
                Some(Answer::Unanswered | Answer::Held) => {
                    so_far.failed.fetch_add(1, Ordering::Relaxed);
                    true
                }
                None => true,
            });
            tokio::task::yield_now().await;
        }
    });
    within_time(PUBLISHED_WITHIN, "everything to be stored", relay).await;
}

async fn reached(counter: &AtomicUsize, count: usize) {
    eventually("the relay is so far", async || {
        match counter.load(Ordering::Relaxed) {
            reached if reached >= count => Ok(()),
            reached => Err(reached.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn to_jetstream() {
    contract(Shelf::jetstream().await).await;
}

#[tokio::test]
async fn in_memory() {
    contract(Shelf::memory()).await;
}

#[tokio::test]
async fn to_redis() {
    contract(Shelf::redis().await).await;
}

#[tokio::test]
async fn to_rabbitmq() {
    let shelf = contract(Shelf::rabbitmq().await).await;
    let url = shelf.url();
    is_relayed_to(shelf, Broker::RabbitMq, &url).await;
}

#[tokio::test]
async fn to_kafka() {
    let shelf = contract(Shelf::kafka().await).await;
    let url = shelf.url();
    is_relayed_to(shelf, Broker::Kafka, &url).await;
}
