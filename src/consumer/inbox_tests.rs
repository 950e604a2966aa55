//! The inbox on a real database: an event once per durable, and forgotten in time.

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::*;

async fn inbox() -> (Inbox, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("inbox.db"))
        .create_if_missing(true);
    let pool = SqlitePoolOptions::new()
        .connect_with(options)
        .await
        .unwrap();
    (Inbox::open(pool).await.unwrap(), folder)
}

async fn handle(inbox: &Inbox, durable: &str, event: &str) -> bool {
    match inbox.admit(durable, event).await.unwrap() {
        Some(transaction) => {
            transaction.commit().await.unwrap();
            true
        }
        None => false,
    }
}

#[tokio::test]
async fn an_event_is_admitted_once_per_durable_and_again_after_a_rollback() {
    let (inbox, _folder) = inbox().await;
    drop(inbox.admit("a", "1").await.unwrap().unwrap());
    assert!(handle(&inbox, "a", "1").await);
    assert!(!handle(&inbox, "a", "1").await);
    assert!(handle(&inbox, "b", "1").await);
    // Opened again it is the same one.
    let again = Inbox::open(inbox.pool.clone()).await.unwrap();
    assert!(!handle(&again, "a", "1").await);
}

#[tokio::test]
async fn it_forgets_what_is_old_in_batches_and_nothing_else() {
    let (inbox, _folder) = inbox().await;
    let mut transaction = inbox.pool.begin().await.unwrap();
    for (number, at) in (0..2_500_i64)
        .map(|number| (number, number / 2))
        .chain([(9_000, i64::MAX)])
    {
        sqlx::query(ADD)
            .bind("a")
            .bind(number.to_string())
            .bind(at)
            .execute(&mut *transaction)
            .await
            .unwrap();
    }
    transaction.commit().await.unwrap();
    assert!(handle(&inbox, "b", "1").await);
    assert_eq!(
        inbox.purge("a", Duration::from_hours(1)).await.unwrap(),
        2_500
    );
    assert_eq!(inbox.purge("a", Duration::from_hours(1)).await.unwrap(), 0);
    assert!(!handle(&inbox, "a", "9000").await);
    assert!(!handle(&inbox, "b", "1").await);
}
