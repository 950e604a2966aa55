//! What errors of real databases mean for what was asked.

use std::time::{Duration, Instant};

use jetway::database::{Fate, Kind, Pool, fate};

use crate::rig::{Site, begin, commit, impatient, on_each, run};

/// Far longer than an impatient pool waits; without a limit it would be for ever.
const BOUND: Duration = Duration::from_secs(10);

on_each!(
    values_that_do_not_fit_are_refused,
    what_the_database_is_not_ready_for_is_unavailable,
    a_read_only_database_is_unavailable,
    a_full_database_is_unavailable,
    a_pool_in_use_is_unavailable_in_bounded_time,
    a_lock_is_waited_for_in_bounded_time,
    a_deadlock_is_a_conflict,
    a_statement_that_is_too_large_is_refused,
);

async fn table(site: &Site) -> Pool {
    let pool = site.pool().await;
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(4) NOT NULL, n SMALLINT CHECK (n > 0), \
         CONSTRAINT short CHECK (length(name) <= 4))";
    commit(&pool, sql).await.unwrap();
    commit(&pool, "INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 1)")
        .await
        .unwrap();
    pool
}

async fn fate_of(pool: &Pool, sql: &str) -> Fate {
    let error = commit(pool, sql).await.unwrap_err();
    println!("{sql}: {error:?}");
    fate(&error)
}

async fn values_that_do_not_fit_are_refused(site: &Site, kind: Kind) {
    let pool = table(site).await;
    let twice = "INSERT INTO t VALUES (1, 'x', 1)";
    assert_eq!(fate_of(&pool, twice).await, Fate::Duplicate);
    for refused in [
        "INSERT INTO t VALUES (3, 'x', 0)",
        "INSERT INTO t VALUES (3, NULL, 1)",
        // It is not cut.
        "INSERT INTO t VALUES (3, 'toolong', 1)",
        "UPDATE t SET name = 'toolong'",
        "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id)); INSERT INTO child VALUES (1, 9)",
    ] {
        assert_eq!(fate_of(&pool, refused).await, Fate::Refused, "{refused}");
    }
    // SQLite takes any number, and has no type for dates.
    if kind != Kind::Sqlite {
        let range = "INSERT INTO t VALUES (3, 'x', 70000)";
        assert_eq!(fate_of(&pool, range).await, Fate::Refused);
        commit(&pool, "CREATE TABLE day (d DATE)").await.unwrap();
        let day = "INSERT INTO day VALUES ('2024-02-30')";
        assert_eq!(fate_of(&pool, day).await, Fate::Refused);
    }
    let mut transaction = pool.begin().await.unwrap();
    let rows = run(&mut transaction, "UPDATE t SET n = 1").await.unwrap();
    assert_eq!(rows, 2, "nothing of the others is there");
}

async fn what_the_database_is_not_ready_for_is_unavailable(site: &Site, _: Kind) {
    let pool = table(site).await;
    for sql in ["INSERT INTO missing VALUES (1)", "UPDATE t SET missing = 1"] {
        assert_eq!(fate_of(&pool, sql).await, Fate::Unavailable, "{sql}");
    }
}

async fn a_read_only_database_is_unavailable(site: &Site, kind: Kind) {
    let pool = table(site).await;
    let mut transaction = pool.begin().await.unwrap();
    match kind {
        Kind::Sqlite => run(&mut transaction, "PRAGMA query_only = ON")
            .await
            .unwrap(),
        // As on a standby.
        Kind::Postgres => run(&mut transaction, "SET TRANSACTION READ ONLY")
            .await
            .unwrap(),
        Kind::MySql => {
            transaction.rollback().await.unwrap();
            transaction = pool.begin().await.unwrap();
            run(&mut transaction, "COMMIT; START TRANSACTION READ ONLY")
                .await
                .unwrap()
        }
    };
    let error = run(&mut transaction, "DELETE FROM t").await.unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
}

async fn a_full_database_is_unavailable(site: &Site, kind: Kind) {
    let pool = table(site).await;
    let mut transaction = pool.begin().await.unwrap();
    let (limit, fill) = match kind {
        Kind::Sqlite => (
            "PRAGMA max_page_count = 1",
            "CREATE TABLE big AS SELECT randomblob(1000000) AS data",
        ),
        Kind::Postgres => (
            "SET temp_file_limit = '64kB'; SET work_mem = '64kB'",
            "SELECT n FROM generate_series(1, 100000) AS n ORDER BY n DESC",
        ),
        Kind::MySql => (
            "SET max_heap_table_size = 16384; CREATE TEMPORARY TABLE big (d CHAR(200)) ENGINE = MEMORY",
            "INSERT INTO big SELECT seq FROM seq_1_to_10000",
        ),
    };
    run(&mut transaction, limit).await.unwrap();
    let error = run(&mut transaction, fill).await.unwrap_err();
    assert_eq!(fate(&error), Fate::Unavailable, "{error:?}");
}

async fn a_pool_in_use_is_unavailable_in_bounded_time(site: &Site, kind: Kind) {
    let pool = impatient(&site.config).await;
    let mut held = vec![begin(&pool).await];
    // SQLite has one writer; its second connection waits for that one.
    if kind != Kind::Sqlite {
        held.push(begin(&pool).await);
    }
    let begun = Instant::now();
    let error = pool.begin().await.unwrap_err();
    let expected = match kind {
        Kind::Sqlite => Fate::Conflict,
        _ => Fate::Unavailable,
    };
    assert_eq!(fate(&error), expected, "{error:?}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    drop(held);
    begin(&pool).await;
}

async fn a_lock_is_waited_for_in_bounded_time(site: &Site, kind: Kind) {
    let pool = table(site).await;
    let impatient = impatient(&site.config).await;
    let mut first = pool.begin().await.unwrap();
    run(&mut first, "UPDATE t SET n = 2 WHERE id = 1")
        .await
        .unwrap();
    let begun = Instant::now();
    let second = async {
        let mut second = match kind {
            // Here it waits already.
            Kind::Sqlite => impatient.begin().await?,
            Kind::Postgres | Kind::MySql => begin(&impatient).await,
        };
        run(&mut second, "UPDATE t SET n = 3 WHERE id = 1").await
    };
    let error = second.await.unwrap_err();
    assert_eq!(fate(&error), Fate::Conflict, "{kind:?}: {error:?}");
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    first.commit().await.unwrap();
    commit(&pool, "UPDATE t SET n = 3 WHERE id = 1")
        .await
        .unwrap();
}

async fn a_deadlock_is_a_conflict(site: &Site, kind: Kind) {
    if kind == Kind::Sqlite {
        // One writer, who is alone from the beginning on.
        return;
    }
    // PostgreSQL looks for deadlocks after a second, when nobody has given up waiting.
    let pool = table(site).await;
    let mut first = pool.begin().await.unwrap();
    let mut second = pool.begin().await.unwrap();
    run(&mut first, "UPDATE t SET n = 2 WHERE id = 1")
        .await
        .unwrap();
    run(&mut second, "UPDATE t SET n = 2 WHERE id = 2")
        .await
        .unwrap();
    let (first, second) = tokio::join!(
        run(&mut first, "UPDATE t SET n = 3 WHERE id = 2"),
        run(&mut second, "UPDATE t SET n = 3 WHERE id = 1"),
    );
    let error = match (first, second) {
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => error,
        other => panic!("one of them gives way: {other:?}"),
    };
    assert_eq!(fate(&error), Fate::Conflict, "{error:?}");
    let text = format!("{error:?}").to_lowercase();
    assert!(text.contains("deadlock"), "{text}");
}

async fn a_statement_that_is_too_large_is_refused(site: &Site, kind: Kind) {
    if kind != Kind::MySql {
        // They take a gigabyte.
        return;
    }
    let pool = table(site).await;
    let text = "x".repeat(17 << 20);
    let insert = format!("INSERT INTO t VALUES (3, '{text}', 1)");
    let error = commit(&pool, &insert).await.unwrap_err();
    // The server ends the connection after it; there are others.
    assert_eq!(fate(&error), Fate::Refused, "{error:?}");
    commit(&pool, "INSERT INTO t VALUES (3, 'x', 1)")
        .await
        .unwrap();
}
