//! Servers that are stopped, killed or cut off: nothing waits for them without a limit, and a pool is whole when they are back.

use std::net::SocketAddr;
use std::ops::Deref;
use std::time::{Duration, Instant};

use jetway::database::{Config, Fate, Pool, fate, within};

use crate::rig::{begin, commit, config, connections, impatient, number, run};
use crate::support::{FaultProxy, MariaDb, Postgres, Server, eventually};

/// What a caller gives a transaction.
const LIMIT: Duration = Duration::from_millis(300);
/// In which a connection that is silent has left its pool, with time for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn postgres_is_silent() {
    let server = Postgres::start().await;
    let url = server.url();
    silent(&url, &server, async || server.restart().await).await;
    server.restart().await;
    severed(&url, server.port()).await;
}

#[tokio::test]
async fn mariadb_is_silent() {
    let server = MariaDb::start().await;
    let url = server.url();
    silent(&url, &server, async || server.restart().await).await;
    severed(&url, server.port()).await;
}

/// Stopped, and then killed.
async fn silent(url: &str, server: &impl Deref<Target = Server>, restart: impl AsyncFn()) {
    let pool = impatient(&config(url.to_owned())).await;
    let mut transaction = begin(&pool).await;
    run(&mut transaction, "CREATE TABLE t (id INT PRIMARY KEY)")
        .await
        .unwrap();
    transaction.commit().await.unwrap();

    let mut transactions = vec![begin(&pool).await, begin(&pool).await];
    server.pause().await;
    let statement = run(&mut transactions[0], "INSERT INTO t VALUES (1)");
    let error = within(LIMIT, statement).await.unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
    let error = within(LIMIT, transactions.remove(1).commit())
        .await
        .unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
    drop(transactions);
    // The server is silent still; what was asked of it is given up, and its connections with it.
    let begun = Instant::now();
    eventually(
        "the silent connections have left the pool",
        async || match connections(&pool) {
            0 => Ok(()),
            left => Err(format!("{left} connections")),
        },
    )
    .await;
    assert!(begun.elapsed() < GONE_WITHIN, "{:?}", begun.elapsed());
    unavailable(&pool).await;
    server.resume();
    let mut transaction = begin(&pool).await;
    assert_eq!(number(&mut transaction, "SELECT COUNT(*) FROM t").await, 0);

    server.kill9().await;
    let statement = run(&mut transaction, "INSERT INTO t VALUES (1)");
    let error = within(LIMIT, statement).await.unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
    drop(transaction);
    unavailable(&pool).await;
    restart().await;
    eventually("the pool is whole", async || begins(&pool).await).await;
    commit(&pool, "INSERT INTO t VALUES (1)").await.unwrap();
    pool.close().await;
}

/// One connection of two goes dark as behind a broken cable, while others can be made.
async fn severed(url: &str, port: u16) {
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await;
    let through = url.replace(&port.to_string(), proxy.url().rsplit(':').next().unwrap());
    let one = Config {
        connections_max: 1,
        ..config(through)
    };
    let pool = impatient(&one).await;
    let mut transaction = begin(&pool).await;
    number(&mut transaction, "SELECT COUNT(*) FROM t").await;
    proxy.hold();
    let statement = run(&mut transaction, "DELETE FROM t");
    within(LIMIT, statement).await.unwrap_err();
    drop(transaction);
    let begun = Instant::now();
    eventually("a new connection is made", async || begins(&pool).await).await;
    assert!(begun.elapsed() < GONE_WITHIN, "{:?}", begun.elapsed());
    // One that was idle when it went dark costs its next user a moment, and nothing else.
    commit(&pool, "DELETE FROM t").await.unwrap();
    proxy.hold();
    crate::support::lasting(Duration::from_secs(1)).await;
    eventually("a new connection is made", async || begins(&pool).await).await;
    assert!(begun.elapsed() < 2 * GONE_WITHIN, "{:?}", begun.elapsed());
}

async fn begins(pool: &Pool) -> Result<(), String> {
    pool.begin()
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

async fn unavailable(pool: &Pool) {
    let begun = Instant::now();
    let error = pool.begin().await.unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
    assert!(begun.elapsed() < 2 * GONE_WITHIN, "{:?}", begun.elapsed());
}
