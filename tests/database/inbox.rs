//! The inbox of consumers, on each kind of database: an event once per durable, and forgotten in time.

use std::time::Duration;

use jetway::consumer::Inbox;
use jetway::database::{Fate, Kind, fate};

use crate::rig::{Site, commit, number, on_each, run};
use crate::support::lasting;

on_each!(
    an_event_is_admitted_once_per_durable_and_again_after_a_rollback,
    what_a_handler_wrote_is_there_with_its_event_or_not_at_all,
    two_replicas_with_one_event_do_not_both_end_it,
    it_forgets_what_is_old_in_batches_and_nothing_else,
    an_id_that_the_database_does_not_take_is_refused,
);

async fn inbox(site: &Site) -> Inbox {
    Inbox::open(site.pool().await).await.unwrap()
}

/// Whether it was new.
async fn handle(inbox: &Inbox, durable: &str, event: &str) -> bool {
    let admitted = inbox.admit(durable, event).await.unwrap();
    let is_new = admitted.is_some();
    if let Some(transaction) = admitted {
        transaction.commit().await.unwrap();
    }
    is_new
}

async fn an_event_is_admitted_once_per_durable_and_again_after_a_rollback(site: &Site, _: Kind) {
    let inbox = inbox(site).await;
    drop(inbox.admit("a", "1").await.unwrap().unwrap());
    // Ids are told apart by their bytes.
    for (durable, event) in [
        ("a", "1"),
        ("b", "1"),
        ("a", "x"),
        ("a", "X"),
        ("a", "x "),
        ("A", "x"),
    ] {
        assert!(handle(&inbox, durable, event).await, "{durable} {event:?}");
        assert!(!handle(&inbox, durable, event).await, "{durable} {event:?}");
    }
    // Opened again it is the same one.
    let again = Inbox::open(site.pool().await).await.unwrap();
    assert!(!handle(&again, "a", "1").await);
}

async fn what_a_handler_wrote_is_there_with_its_event_or_not_at_all(site: &Site, _: Kind) {
    let pool = site.pool().await;
    commit(&pool, "CREATE TABLE work (n INT)").await.unwrap();
    let inbox = inbox(site).await;
    let mut failed = inbox.admit("a", "1").await.unwrap().unwrap();
    run(&mut failed, "INSERT INTO work VALUES (1)")
        .await
        .unwrap();
    drop(failed);
    let mut handled = inbox.admit("a", "1").await.unwrap().unwrap();
    run(&mut handled, "INSERT INTO work VALUES (2)")
        .await
        .unwrap();
    handled.commit().await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    assert_eq!(
        number(&mut transaction, "SELECT COUNT(*) FROM work").await,
        1
    );
}

async fn two_replicas_with_one_event_do_not_both_end_it(site: &Site, _: Kind) {
    let (one, other) = (inbox(site).await, inbox(site).await);
    for (event, kept) in [("1", true), ("2", false)] {
        let first = one.admit("a", event).await.unwrap().unwrap();
        let second = async {
            let admitted = other.admit("a", event).await.unwrap();
            let is_new = admitted.is_some();
            if let Some(transaction) = admitted {
                transaction.commit().await.unwrap();
            }
            is_new
        };
        let end = async {
            // The other one has asked meanwhile, and waits.
            lasting(Duration::from_millis(250)).await;
            match kept {
                true => first.commit().await.unwrap(),
                false => first.rollback().await.unwrap(),
            }
        };
        let (is_new, ()) = tokio::join!(second, end);
        assert_eq!(is_new, !kept, "event {event}");
        assert!(!handle(&one, "a", event).await);
    }
}

async fn it_forgets_what_is_old_in_batches_and_nothing_else(site: &Site, _: Kind) {
    let inbox = inbox(site).await;
    let rows = (0..2_500_i64).map(|number| format!("('a', '{number}', {})", number / 2));
    let rows = rows.chain([format!("('a', 'new', {})", i64::MAX)]);
    let rows = rows.collect::<Vec<_>>().join(", ");
    let fill =
        format!("INSERT INTO consumer_inbox (durable, event_id, handled_at_ms) VALUES {rows}");
    commit(&site.pool().await, &fill).await.unwrap();
    assert!(handle(&inbox, "b", "1").await);
    let hour = Duration::from_hours(1);
    assert_eq!(inbox.purge("a", hour).await.unwrap(), 2_500);
    assert_eq!(inbox.purge("a", hour).await.unwrap(), 0);
    assert!(!handle(&inbox, "a", "new").await);
    assert!(!handle(&inbox, "b", "1").await);
}

async fn an_id_that_the_database_does_not_take_is_refused(site: &Site, kind: Kind) {
    let inbox = inbox(site).await;
    match kind {
        // It takes any.
        Kind::Sqlite => {}
        Kind::Postgres => {
            let error = inbox.admit("a", "nul\0").await.unwrap_err();
            assert_eq!(fate(&error), Fate::Refused, "{error:?}");
        }
        Kind::MySql => {
            let error = inbox.admit("a", &"x".repeat(65)).await.unwrap_err();
            assert_eq!(fate(&error), Fate::Refused, "{error:?}");
        }
    }
    assert!(handle(&inbox, "a", "1").await);
}
