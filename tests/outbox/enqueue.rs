//! Events in the caller's transaction: there with it, not without it, once, in order, whatever statement fails.

use jetway::database::Kind;
use jetway::outbox::store::Enqueue as _;

use crate::rig::{Database, KINDS, event, events, run, terms};

const WORK: &str = "CREATE TABLE work (number INTEGER PRIMARY KEY)";
const WORK_DONE: &str = "INSERT INTO work (number) VALUES (1)";

/// Makes every statement fail that writes an event of this type.
fn poison(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => {
            "CREATE TRIGGER poison BEFORE INSERT ON outbox_event WHEN NEW.event_type = 'poison' \
             BEGIN SELECT RAISE(ABORT, 'poison'); END"
        }
        Kind::Postgres => {
            "CREATE FUNCTION poison() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER poison BEFORE INSERT ON outbox_event FOR EACH ROW WHEN (NEW.event_type = 'poison') \
             EXECUTE FUNCTION poison()"
        }
        Kind::MySql => {
            "CREATE TRIGGER poison BEFORE INSERT ON outbox_event FOR EACH ROW \
             IF NEW.event_type = 'poison' THEN SIGNAL SQLSTATE '45000'; END IF"
        }
    }
}

#[tokio::test]
async fn events_are_there_with_their_transaction_once_and_in_order() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        // More than one statement takes, and no round number.
        let all = events("d", 0..777);
        let mut transaction = database.store.pool().begin().await.unwrap();
        transaction.enqueue(&all).await.unwrap();
        transaction.rollback().await.unwrap();
        assert_eq!(
            database.numbers("SELECT COUNT(*) FROM outbox_event").await,
            [0],
            "{kind:?}"
        );
        let mut transaction = database.store.pool().begin().await.unwrap();
        transaction.enqueue(&all[..500]).await.unwrap();
        transaction.enqueue(&all).await.unwrap();
        transaction.enqueue(&[]).await.unwrap();
        transaction.commit().await.unwrap();
        database.write(&all).await;
        let claim = database.store.claim(&terms(1_000)).await.unwrap().unwrap();
        let claimed: Vec<_> = claim.rows.into_iter().map(|row| row.event).collect();
        assert!(claimed == all, "{kind:?}: {} events", claimed.len());
    }
}

#[tokio::test]
async fn whichever_statement_fails_neither_work_nor_events_are_there() {
    for kind in KINDS {
        let database = Database::start(kind).await;
        database.run(WORK).await;
        database.run(poison(kind)).await;
        // 777 events are statements of 256, 256, 256, 8 and 1 rows where rows are listed.
        for place in [0, 255, 256, 600, 767, 770, 776] {
            let mut all = events("d", 0..777);
            all[place].event_type = "poison".into();
            let mut transaction = database.store.pool().begin().await.unwrap();
            run(&mut transaction, WORK_DONE).await.unwrap();
            transaction.enqueue(&all).await.unwrap_err();
            // As a caller does that passes on the error.
            drop(transaction);
        }
        let mut transaction = database.store.pool().begin().await.unwrap();
        transaction.enqueue(&events("d", 0..777)).await.unwrap();
        run(&mut transaction, WORK_DONE).await.unwrap();
        run(&mut transaction, WORK_DONE).await.unwrap_err();
        drop(transaction);
        for table in ["work", "outbox_event"] {
            let count = database
                .numbers(&format!("SELECT COUNT(*) FROM {table}"))
                .await;
            assert_eq!(count, [0], "{kind:?} {table}");
        }
        let mut transaction = database.store.pool().begin().await.unwrap();
        run(&mut transaction, WORK_DONE).await.unwrap();
        transaction.enqueue(&[event("d", 1)]).await.unwrap();
        transaction.commit().await.unwrap();
        for table in ["work", "outbox_event"] {
            let count = database
                .numbers(&format!("SELECT COUNT(*) FROM {table}"))
                .await;
            assert_eq!(count, [1], "{kind:?} {table}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_fails_leaves_neither() {
    let database = Database::start(Kind::Postgres).await;
    database.run(WORK).await;
    database
        .run(
            "CREATE FUNCTION late() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'late'; END $$ LANGUAGE plpgsql; \
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON work DEFERRABLE INITIALLY DEFERRED FOR EACH ROW \
             EXECUTE FUNCTION late()",
        )
        .await;
    let mut transaction = database.store.pool().begin().await.unwrap();
    transaction.enqueue(&events("d", 0..10)).await.unwrap();
    run(&mut transaction, WORK_DONE).await.unwrap();
    transaction.commit().await.unwrap_err();
    for table in ["work", "outbox_event"] {
        let count = database
            .numbers(&format!("SELECT COUNT(*) FROM {table}"))
            .await;
        assert_eq!(count, [0], "{table}");
    }
}
