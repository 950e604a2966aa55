//! Claims and what settles them, on each database: order, leases, rows that are refused, lanes.

use std::time::Duration;

use jetway::outbox::store::{Answer, Claim, Policy, Settled, Stats, Terms};

use crate::rig::{Database, KINDS, event, events, impatient, terms};
use crate::support::lasting;

/// Device and number of each row, as the payload says.
fn told(claim: &Claim) -> Vec<(String, u64)> {
    let told = |payload: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(payload).unwrap();
        let device = value["device"].as_str().unwrap().to_owned();
        (device, value["number"].as_u64().unwrap())
    };
    claim
        .rows
        .iter()
        .map(|row| told(&row.event.payload))
        .collect()
}

fn numbers(claim: &Claim) -> Vec<u64> {
    told(claim).into_iter().map(|(_, number)| number).collect()
}

async fn stats(database: &Database) -> (u64, u64, u64) {
    let Stats {
        pending,
        sending,
        dead,
        ..
    } = database.store.stats().await.unwrap();
    (pending, sending, dead)
}

#[tokio::test]
async fn nothing_is_in_two_claims() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        assert!(database.store.claim(&terms(10)).await.unwrap().is_none());
        let all: Vec<_> = (0..200)
            .flat_map(|device| events(&format!("d{device}"), 0..3))
            .collect();
        database.write(&all).await;
        assert_eq!(stats(&database).await, (600, 0, 0), "{kind:?}");
        // Sixteen shards each, and from several tasks at once.
        let few = Terms {
            shards_max: 16,
            ..terms(1_000)
        };
        let claims = (0..6).map(|_| database.store.claim(&few));
        let mut claims: Vec<_> = futures_util::future::join_all(claims).await;
        loop {
            let more = database.store.claim(&few).await.unwrap();
            match more {
                Some(claim) => claims.push(Ok(Some(claim))),
                None => break,
            }
        }
        let claims: Vec<Claim> = claims
            .into_iter()
            .filter_map(|claim| claim.unwrap())
            .collect();
        let mut ids: Vec<i64> = claims
            .iter()
            .flat_map(|claim| claim.rows.iter().map(|row| row.id))
            .collect();
        assert_eq!(ids.len(), 600, "{kind:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 600, "{kind:?}");
        assert_eq!(stats(&database).await, (0, 600, 0), "{kind:?}");
        for claim in &claims {
            // Of each device in order.
            let mut told = told(claim);
            let given = told.clone();
            told.sort_by(|a, b| a.0.cmp(&b.0));
            let mut expected = told.clone();
            expected.sort();
            assert_eq!(told, expected, "{kind:?} {given:?}");
            let answers = vec![Answer::Stored; claim.rows.len()];
            let settled = database
                .store
                .settle(claim, &answers, &impatient())
                .await
                .unwrap();
            assert_eq!(settled.published, claim.rows.len() as u64, "{kind:?}");
        }
        assert_eq!(stats(&database).await, (0, 0, 0), "{kind:?}");
        assert!(database.store.claim(&terms(10)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_lease_that_ended_is_taken_over_and_the_late_one_changes_nothing() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        database.write(&events("d", 0..3)).await;
        let first = database.store.claim(&terms(10)).await.unwrap().unwrap();
        assert!(
            first.rows.iter().all(|row| row.tried_ms.is_none()),
            "{kind:?}"
        );
        assert!(
            database.store.claim(&terms(10)).await.unwrap().is_none(),
            "{kind:?}"
        );
        database.write(&events("d", 3..4)).await;
        assert!(
            database.store.claim(&terms(10)).await.unwrap().is_none(),
            "{kind:?}: behind a claim"
        );
        // As after a minute.
        database
            .run("UPDATE outbox_shard SET lease_until = 0")
            .await;
        let second = database.store.claim(&terms(10)).await.unwrap().unwrap();
        assert_eq!(numbers(&second), [0, 1, 2, 3], "{kind:?}");
        // It may be with the broker already, all but the last.
        let tried: Vec<bool> = second
            .rows
            .iter()
            .map(|row| row.tried_ms.is_some())
            .collect();
        assert_eq!(tried, [true, true, true, false], "{kind:?}");
        let late = database
            .store
            .settle(&first, &vec![Answer::Stored; 3], &impatient())
            .await
            .unwrap();
        assert_eq!(
            late,
            Settled {
                late: 3,
                ..Settled::default()
            },
            "{kind:?}"
        );
        let refusals = vec![Answer::Refused("no".to_owned()); 3];
        let late = database
            .store
            .settle(&first, &refusals, &impatient())
            .await
            .unwrap();
        assert_eq!(late.late, 3, "{kind:?}");
        assert_eq!(stats(&database).await, (0, 4, 0), "{kind:?}");
        let settled = database
            .store
            .settle(&second, &vec![Answer::Stored; 4], &impatient())
            .await
            .unwrap();
        assert_eq!(settled.published, 4, "{kind:?}");
        let again = database
            .store
            .settle(&second, &vec![Answer::Stored; 4], &impatient())
            .await
            .unwrap();
        assert_eq!((again.published, again.late), (0, 4), "{kind:?}");
    }
}

/// Publishes all that may go out; gives what that was, in order.
async fn drain(database: &Database, policy: &Policy) -> Vec<(String, u64)> {
    let mut drained = Vec::new();
    while let Some(claim) = database.store.claim(&terms(4)).await.unwrap() {
        drained.extend(told(&claim));
        let stored = vec![Answer::Stored; claim.rows.len()];
        let settled = database.store.settle(&claim, &stored, policy).await;
        settled.unwrap();
    }
    drained
}

#[tokio::test]
async fn a_refused_row_holds_up_its_device_alone_and_not_for_ever() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        let policy = Policy {
            backoff: vec![Duration::from_secs(3_600)],
            ..impatient()
        };
        database.write(&events("bad", 0..5)).await;
        database.write(&events("good", 0..5)).await;
        for attempt in 1..=3 {
            // Its time has come.
            database.run("UPDATE outbox_lane SET due_at = 0").await;
            let claim = database.store.claim(&terms(100)).await.unwrap().unwrap();
            let bad: Vec<_> = told(&claim)
                .into_iter()
                .filter(|(device, _)| device == "bad")
                .collect();
            assert_eq!(bad[0].1, 0, "{kind:?} {attempt}: from its first row on");
            let answers: Vec<_> = told(&claim)
                .iter()
                .map(|(device, number)| match (&**device, number) {
                    ("bad", 0) => Answer::Refused(format!("attempt {attempt}\0")),
                    ("bad", _) => Answer::Held,
                    _ => Answer::Stored,
                })
                .collect();
            let settled = database
                .store
                .settle(&claim, &answers, &policy)
                .await
                .unwrap();
            assert_eq!(settled.refused + settled.dead, 1, "{kind:?} {attempt}");
            assert_eq!(settled.dead, u64::from(attempt == 3), "{kind:?} {attempt}");
            // Another device is not in its way meanwhile, nor does it come before its time.
            for device in ["good", "bad"] {
                let numbers = attempt * 10..attempt * 10 + 2;
                database.write(&events(device, numbers)).await;
            }
            if attempt < 3 {
                let others = drain(&database, &policy).await;
                assert!(
                    others.iter().all(|(device, _)| device == "good"),
                    "{kind:?} {attempt}"
                );
                assert_eq!(others.len(), 2, "{kind:?} {attempt}");
            }
        }
        let mut rest = drain(&database, &policy).await;
        rest.retain(|(device, _)| device == "bad");
        let rest: Vec<u64> = rest.into_iter().map(|(_, number)| number).collect();
        assert_eq!(rest, [1, 2, 3, 4, 10, 11, 20, 21, 30, 31], "{kind:?}");
        assert_eq!(stats(&database).await, (0, 0, 1), "{kind:?}");
        assert_eq!(
            database.numbers("SELECT COUNT(*) FROM outbox_lane").await,
            [0],
            "{kind:?}"
        );
        let attempts = "SELECT id FROM outbox_event WHERE status = 'dead' AND attempts = 3 AND last_error = 'attempt 3'";
        assert_eq!(database.numbers(attempts).await.len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn what_was_not_answered_costs_no_attempt_and_keeps_its_doubt() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        database
            .write(&[event("a", 0), event("a", 1), event("b", 0), event("c", 0)])
            .await;
        let doubts = async || {
            let claim = database.store.claim(&terms(100)).await.unwrap().unwrap();
            let doubts = claim.rows.iter().zip(told(&claim));
            let mut doubts: Vec<_> = doubts
                .map(|(row, told)| (told, row.tried_ms.is_some()))
                .collect();
            doubts.sort();
            (
                claim,
                doubts
                    .into_iter()
                    .map(|(_, doubt)| doubt)
                    .collect::<Vec<_>>(),
            )
        };
        let answer = |claim: &Claim| -> Vec<Answer> {
            let answer = |told: (String, u64)| match (&*told.0, told.1) {
                ("a", 0) => Answer::Unanswered,
                ("a", _) | ("b", _) => Answer::Held,
                _ => Answer::Refused("no".to_owned()),
            };
            told(claim).into_iter().map(answer).collect()
        };
        for round in 0..2 {
            let (claim, found) = doubts().await;
            // Once in doubt it stays so until there is an answer; what was not handed over never is.
            assert_eq!(found, [round > 0, false, false, false], "{kind:?} {round}");
            let settled = database
                .store
                .settle(&claim, &answer(&claim), &impatient())
                .await
                .unwrap();
            assert_eq!(
                (settled.unanswered, settled.refused),
                (3, 1),
                "{kind:?} {round}"
            );
        }
        // Nor does a relay that says nothing at all, more often than any row has attempts.
        let short = Terms {
            lease: Duration::from_millis(1),
            ..terms(100)
        };
        for _ in 0..5 {
            lasting(Duration::from_millis(5)).await;
            database.store.claim(&short).await.unwrap().unwrap();
        }
        lasting(Duration::from_millis(5)).await;
        let (claim, found) = doubts().await;
        assert_eq!(found, [true; 4], "{kind:?}");
        let settled = database
            .store
            .settle(&claim, &vec![Answer::Stored; 4], &impatient())
            .await
            .unwrap();
        assert_eq!(settled.published, 4, "{kind:?}");
    }
}
