//! What a broker refuses is refused, holds up its own aggregate and no other; a broker that is full or empty refuses nothing.

use std::time::{Duration, Instant};

use jetway::broker::memory;
use jetway::outbox::Answer::{Held, Refused, Stored, Unanswered};
use jetway::outbox::Row;
use jetway::outbox::publisher::{Publisher, Waves};

use crate::shelf::{Shelf, layout, row};
use crate::support::{Redis, eventually};

/// What is wrong with a row.
type Spoil = fn(&mut Row);

/// A subject that no stream takes, no queue is bound for.
fn nowhere(row: &mut Row) {
    row.event.subject = "other.subject".into();
}

/// The second row of one aggregate is spoilt. Gives the reason for which it is refused.
async fn refused(shelf: &Shelf, spoil: Spoil) -> String {
    let mut rows = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
        .map(|(aggregate, number)| row(aggregate, number));
    spoil(&mut rows[1]);
    let before = shelf.kept().await.len();
    let mut answers = shelf.publisher().publish(&rows).await;
    let answer = std::mem::replace(&mut answers[1], Held);
    let Refused(reason) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(answers, [Stored, Held, Held, Stored, Stored]);
    // One that went with it may be there twice.
    let kept = shelf.kept().await.split_off(before);
    assert!(kept.len() >= 3, "{kept:?}");
    assert!(
        kept.iter()
            .all(|kept| kept.id != rows[1].event.event_id.to_string())
    );
    reason
}

/// A broker that keeps the connection and says nothing is waited for once, and shortly.
async fn is_left_in_time(shelf: &Shelf) {
    let rows = [("c", 1), ("e", 1), ("c", 2)].map(|(aggregate, number)| row(aggregate, number));
    let publisher = shelf.publisher();
    assert_eq!(publisher.publish(&rows[..1]).await, [Stored]);
    shelf.server().pause().await;
    let begun = Instant::now();
    let answers = publisher.publish(&rows[1..]).await;
    // Each row for itself would be twice 3 s.
    assert!(begun.elapsed() < Duration::from_secs(6));
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Unanswered | Held)),
        "{answers:?}"
    );
    shelf.server().resume();
    eventually("it goes on", async || {
        match publisher.publish(&rows[1..]).await {
            answers if answers == [Stored, Stored] => Ok(()),
            answers => Err(format!("{answers:?}")),
        }
    })
    .await;
    let kept = shelf.kept().await;
    for row in &rows {
        let id = row.event.event_id.to_string();
        assert!(kept.iter().any(|kept| kept.id == id), "{id}");
    }
}

#[tokio::test]
async fn in_memory_a_subject_needs_a_stream() {
    let reason = refused(&Shelf::memory(), nowhere).await;
    assert_eq!(reason, "no stream takes the subject other.subject");
}

#[tokio::test]
async fn redis_is_spared_what_would_end_the_connection() {
    let shelf = Shelf::redis().await;
    let reason = refused(&shelf, nowhere).await;
    assert_eq!(reason, "no stream takes the subject other.subject");
    let reason = refused(&shelf, |row| {
        row.event.payload = vec![b' '; 1_048_577].into()
    })
    .await;
    assert!(reason.starts_with("a payload of 1048577 bytes"), "{reason}");
    is_left_in_time(&shelf).await;
}

#[tokio::test]
async fn rabbitmq_wants_a_queue_and_a_message_that_it_can_read() {
    let shelf = Shelf::rabbitmq().await;
    let reason = refused(&shelf, nowhere).await;
    assert_eq!(reason, "312 NO_ROUTE");
    let reason = refused(&shelf, |row| {
        row.event.subject = format!("gps.{}", "x".repeat(255)).into();
    })
    .await;
    assert!(reason.contains("exceeds maximum length"), "{reason}");
    // It closes the channel over this one, with the other aggregate's row on its way.
    let reason = refused(&shelf, |row| row.event.headers.push("CC", "no list")).await;
    assert!(reason.contains("PRECONDITION_FAILED"), "{reason}");
    is_left_in_time(&shelf).await;
}

#[tokio::test]
async fn kafka_has_a_topic_for_each_stream() {
    let shelf = Shelf::kafka().await;
    let reason = refused(&shelf, nowhere).await;
    assert_eq!(reason, "no stream takes the subject other.subject");
    is_left_in_time(&shelf).await;
}

#[tokio::test]
async fn a_stream_in_memory_that_is_full_refuses_nothing() {
    let broker = memory::Broker::default();
    broker.provision(&layout(), 2);
    let rows = [("a", 1), ("b", 1), ("a", 2)].map(|(aggregate, number)| row(aggregate, number));
    let answers = Waves::new(broker, Duration::from_secs(5))
        .publish(&rows)
        .await;
    assert_eq!(answers, [Stored, Stored, Held]);
}

#[tokio::test]
async fn a_redis_that_is_full_refuses_nothing() {
    let server = Redis::start_with(&["--maxmemory", "1"]).await;
    let answers = Shelf::Redis(server)
        .publisher()
        .publish(&[row("a", 1)])
        .await;
    assert_eq!(answers, [Held]);
}
