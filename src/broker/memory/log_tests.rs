//! The log alone, with a clock of the test's own.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::message::Headers;

const SECOND: Duration = Duration::from_secs(1);

fn posting(subject: &str) -> Posting {
    Posting {
        id: Uuid::now_v7(),
        key: "k".into(),
        message: Message {
            subject: subject.into(),
            headers: Headers::default(),
            payload: "".into(),
        },
    }
}

/// A stream of three messages, with durable `d` for `a.>`: 1 s, then 7 s, then the end.
fn log(durables: &[&str]) -> Log {
    let stream = json!({"subjects": ["a.>", "b"], "duplicate_window": 10_000_000_000_u64});
    let mut log = Log::new(Stream::read("S", &stream), 3);
    for name in durables {
        let durable = json!({
            "filter_subjects": ["a.>"], "backoff": [1_000_000_000_u64, 7_000_000_000_u64], "max_deliver": 2,
        });
        log.add(&Durable::read("S", name, &durable));
    }
    log
}

/// Sequence and attempt of what there is, or nothing.
fn take(log: &mut Log, durable: &str, now: Instant) -> Option<(u64, u64)> {
    match log.take(durable, now) {
        Take::Message(delivered) => Some((delivered.sequence, delivered.attempt)),
        Take::Nothing(_) | Take::Gone => None,
    }
}

#[test]
fn a_repeated_id_is_stored_once_within_the_window() {
    let (mut log, now) = (log(&[]), Instant::now());
    let posting = posting("a.b");
    for after in [0, 9, 11] {
        log.store(&posting, now + after * SECOND, 0).unwrap();
    }
    assert_eq!(log.end(), 3);
}

#[test]
fn a_full_stream_takes_nothing_before_all_durables_are_done_with_its_oldest() {
    let (mut log, now) = (log(&["d", "e"]), Instant::now());
    for _ in 0..3 {
        log.store(&posting("a.b"), now, 0).unwrap();
    }
    let full = Err(Fault::Away("stream S is full".to_owned()));
    assert_eq!(log.store(&posting("a.b"), now, 0), full);
    let first = take(&mut log, "d", now).unwrap();
    log.answer("d", first, Answer::Ack, now);
    assert_eq!(log.store(&posting("a.b"), now, 0), full);
    let first = take(&mut log, "e", now).unwrap();
    assert_eq!(log.store(&posting("a.b"), now, 0), full);
    log.answer("e", first, Answer::Ack, now);
    assert_eq!(log.store(&posting("a.b"), now, 0), Ok(()));
    assert_eq!(log.store(&posting("a.b"), now, 0), full);
}

#[test]
fn what_is_not_answered_climbs_the_ladder_and_becomes_a_dead_letter() {
    let (mut log, now) = (log(&["d"]), Instant::now());
    for subject in ["b", "a.b"] {
        log.store(&posting(subject), now, 0).unwrap();
    }
    assert_eq!(take(&mut log, "d", now), Some((2, 1)));
    assert_eq!(take(&mut log, "d", now), None);
    assert_eq!(take(&mut log, "d", now + SECOND), Some((2, 2)));
    assert_eq!(take(&mut log, "d", now + 7 * SECOND), None);
    assert!(log.dead_letters("d").is_empty());
    assert_eq!(take(&mut log, "d", now + 8 * SECOND), None);
    let dead = &log.dead_letters("d")[0];
    assert_eq!(
        (dead.sequence, dead.attempts, &*dead.reason),
        (2, 2, USED_UP)
    );
}

#[test]
fn an_answer_counts_for_its_own_delivery() {
    let (mut log, now) = (log(&["d"]), Instant::now());
    log.store(&posting("a.b"), now, 0).unwrap();
    take(&mut log, "d", now).unwrap();
    log.answer("d", (1, 1), Answer::NakAfter(3 * SECOND), now);
    assert_eq!(take(&mut log, "d", now + 2 * SECOND), None);
    log.answer("d", (1, 1), Answer::Progress, now + 2 * SECOND);
    assert_eq!(take(&mut log, "d", now + 3 * SECOND), Some((1, 2)));
    // Too late for all but an acknowledgement.
    let late = now + 4 * SECOND;
    log.answer("d", (1, 1), Answer::Nak, late);
    log.answer("d", (1, 1), Answer::Terminate("late".to_owned()), late);
    assert_eq!(take(&mut log, "d", late), None);
    log.answer("d", (1, 2), Answer::Terminate("bad".to_owned()), late);
    assert_eq!(log.dead_letters("d")[0].reason, "bad");
    assert_eq!(take(&mut log, "d", now + 60 * SECOND), None);
}
