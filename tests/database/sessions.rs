//! What holds on every connection, whatever the server's own settings are.

use jetway::database::{Kind, Transaction};
use sqlx::{Executor as _, Row as _};

use crate::rig::{Site, commit, number, on_each, run};

on_each!(
    names_are_told_apart_by_their_bytes,
    an_update_that_changes_nothing_has_met_its_row,
    a_statement_sees_what_was_committed_before_it,
    a_marked_statement_runs,
);

/// Ten names that a collation could take for the same.
const NAMES: [&str; 10] = ["P", "p", "a", "a ", "ä", "a\u{308}", "ss", "ß", "🛰", "🚀"];

async fn names_are_told_apart_by_their_bytes(site: &Site, kind: Kind) {
    let pool = site.pool().await;
    // MySQL and MariaDB have no collation under one name that tells `a` from `a `: names are bytes there.
    let type_ = match kind {
        Kind::MySql => "VARBINARY(128)",
        Kind::Sqlite | Kind::Postgres => "VARCHAR(128)",
    };
    let create = format!("CREATE TABLE named (name {type_} NOT NULL PRIMARY KEY)");
    commit(&pool, &create).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    for name in NAMES {
        let insert = kind.statement("INSERT INTO named VALUES (?)");
        match &mut transaction {
            Transaction::Sqlite(on) => on.execute(sqlx::query(insert).bind(name)).await.map(drop),
            Transaction::Postgres(on) => on.execute(sqlx::query(insert).bind(name)).await.map(drop),
            Transaction::MySql(on) => on.execute(sqlx::query(insert).bind(name)).await.map(drop),
        }
        .unwrap();
    }
    for name in NAMES {
        let find = kind.statement("SELECT name FROM named WHERE name = ?");
        let found: String = match &mut transaction {
            Transaction::Sqlite(on) => sqlx::query_scalar(find)
                .bind(name)
                .fetch_one(&mut **on)
                .await
                .unwrap(),
            Transaction::Postgres(on) => sqlx::query_scalar(find)
                .bind(name)
                .fetch_one(&mut **on)
                .await
                .unwrap(),
            // Bytes, for sqlx.
            Transaction::MySql(on) => {
                let row = sqlx::query(find)
                    .bind(name)
                    .fetch_one(&mut **on)
                    .await
                    .unwrap();
                row.get_unchecked(0)
            }
        };
        assert_eq!(found, name);
    }
}

async fn an_update_that_changes_nothing_has_met_its_row(site: &Site, _: Kind) {
    let pool = site.pool().await;
    commit(&pool, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        .await
        .unwrap();
    commit(&pool, "INSERT INTO t VALUES (1, 7)").await.unwrap();
    let same = "UPDATE t SET n = 7 WHERE id = 1 AND n = 7";
    assert_eq!(commit(&pool, same).await.unwrap(), 1);
    assert_eq!(
        commit(&pool, "UPDATE t SET n = 7 WHERE n = 8")
            .await
            .unwrap(),
        0
    );
}

async fn a_statement_sees_what_was_committed_before_it(site: &Site, kind: Kind) {
    if kind == Kind::Sqlite {
        // Nobody commits beside its one writer.
        return;
    }
    let pool = site.pool().await;
    commit(&pool, "CREATE TABLE t (id INT PRIMARY KEY)")
        .await
        .unwrap();
    let mut reader = pool.begin().await.unwrap();
    assert_eq!(number(&mut reader, "SELECT COUNT(*) FROM t").await, 0);
    commit(&pool, "INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(number(&mut reader, "SELECT COUNT(*) FROM t").await, 1);
    // A claim locks no gap that others insert into.
    let claim = "SELECT id FROM t WHERE id BETWEEN 0 AND 100 FOR UPDATE";
    run(&mut reader, claim).await.unwrap();
    commit(&pool, "INSERT INTO t VALUES (2)").await.unwrap();
}

async fn a_marked_statement_runs(site: &Site, kind: Kind) {
    let pool = site.pool().await;
    commit(&pool, "CREATE TABLE t (a INT, b INT, c INT)")
        .await
        .unwrap();
    commit(&pool, "INSERT INTO t VALUES (1, 2, 3)")
        .await
        .unwrap();
    let sql = kind.statement(
        "SELECT CAST(COUNT(*) AS CHAR(9)) || 'x' FROM t WHERE a = ? AND b = ? AND c = ?",
    );
    let mut transaction = pool.begin().await.unwrap();
    let text: String = match &mut transaction {
        Transaction::Sqlite(on) => sqlx::query_scalar(sql)
            .bind(1)
            .bind(2)
            .bind(3)
            .fetch_one(&mut **on)
            .await
            .unwrap(),
        Transaction::Postgres(on) => sqlx::query_scalar(sql)
            .bind(1)
            .bind(2)
            .bind(3)
            .fetch_one(&mut **on)
            .await
            .unwrap(),
        Transaction::MySql(on) => sqlx::query_scalar(sql)
            .bind(1)
            .bind(2)
            .bind(3)
            .fetch_one(&mut **on)
            .await
            .unwrap(),
    };
    assert_eq!(text.replace(' ', ""), "1x");
}
