//! A hundred thousand rows of one device behind one that fails: other devices do not notice.

use std::time::{Duration, Instant};

use jetway::database::Kind;
use jetway::outbox::store::{Answer, Claim, Policy, Terms};

use crate::rig::{Database, KINDS, event, impatient, terms};

const OTHERS: u64 = 200;

/// The longest that a claim took until there was none.
async fn drain(database: &Database, terms: &Terms, rows: &mut usize) -> Duration {
    let mut longest = Duration::ZERO;
    loop {
        let begun = Instant::now();
        let claim: Option<Claim> = database.store.claim(terms).await.unwrap();
        longest = longest.max(begun.elapsed());
        let Some(claim) = claim else {
            return longest;
        };
        *rows += claim.rows.len();
        let stored = vec![Answer::Stored; claim.rows.len()];
        if !claim.rows.is_empty() {
            database
                .store
                .settle(&claim, &stored, &impatient())
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn a_hundred_thousand_rows_behind_a_failing_one_are_in_nobodys_way() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        let others = async |number| {
            let device = |device| event(&format!("d{device}"), number);
            database
                .write(&(0..OTHERS).map(device).collect::<Vec<_>>())
                .await;
        };
        let as_relays_do = Terms {
            shards_max: 16,
            ..terms(1_000)
        };
        // The others show no more of it in less time.
        let doublings = if kind == Kind::Postgres { 17 } else { 14 };
        let mut rows = 0;
        others(1).await;
        let before = drain(&database, &as_relays_do, &mut rows).await;
        database.run("DELETE FROM outbox_event").await;

        database.write(&[event("bad", 0)]).await;
        database.double(doublings).await;
        let claim = database.store.claim(&terms(1)).await.unwrap().unwrap();
        let refused = [Answer::Refused("no".to_owned())];
        let slow = Policy {
            backoff: vec![Duration::from_secs(3_600)],
            ..impatient()
        };
        database
            .store
            .settle(&claim, &refused, &slow)
            .await
            .unwrap();
        others(2).await;
        // They are sent into its lane once, ...
        let mut rows = 0;
        let begun = Instant::now();
        drain(&database, &as_relays_do, &mut rows).await;
        let swept = begun.elapsed();
        assert_eq!(rows as u64, OTHERS, "{kind:?}");
        assert_eq!(
            database.store.stats().await.unwrap().pending,
            1 << doublings,
            "{kind:?}"
        );
        // ... and never seen again until its time comes.
        let mut longest = Duration::MAX;
        for number in 3..8 {
            others(number).await;
            let mut rows = 0;
            // Of the quickest round: whoever walks over them does so in each.
            longest = longest.min(drain(&database, &as_relays_do, &mut rows).await);
            assert_eq!(rows as u64, OTHERS, "{kind:?}");
        }
        println!(
            "{kind:?}: longest claim {before:?} before, {longest:?} with them; sent aside in {swept:?}"
        );
        assert!(
            longest < before * 10 + Duration::from_millis(100),
            "{kind:?}: {before:?} {longest:?}"
        );

        go_on_in_order(&database, before).await;
    }
}

/// They go out in their order when the first one is dead.
async fn go_on_in_order(database: &Database, before: Duration) {
    let kind = database.store.pool().kind();
    let due = "UPDATE outbox_lane SET due_at = 0";
    database.run(due).await;
    let claim = database.store.claim(&terms(1_000)).await.unwrap().unwrap();
    let mut answers = vec![Answer::Held; claim.rows.len()];
    answers[0] = Answer::Refused("no".to_owned());
    let last = Policy {
        attempts_max: 2,
        ..impatient()
    };
    assert_eq!(
        database
            .store
            .settle(&claim, &answers, &last)
            .await
            .unwrap()
            .dead,
        1
    );
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let begun = Instant::now();
        let next = database.store.claim(&terms(1_000)).await.unwrap().unwrap();
        fastest = fastest.min(begun.elapsed());
        assert!(next.rows.len() > 100, "{kind:?}");
        assert!(next.rows.is_sorted_by_key(|row| row.id), "{kind:?}");
        assert_eq!(next.rows[0].id, claim.rows[1].id, "{kind:?}");
        database
            .run("UPDATE outbox_shard SET lease_until = 0")
            .await;
    }
    assert!(
        fastest < before * 10 + Duration::from_millis(200),
        "{kind:?}: {before:?} {fastest:?}"
    );
}
