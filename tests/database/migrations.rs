//! Tables brought up to date by many programs, by older ones, and after a program that was cut off.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jetway::database::{Error, Fate, Kind, Schema};
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::rig::{Site, commit, number, on_each};

on_each!(
    programs_that_start_at_once_wait_for_each_other,
    a_newer_schema_is_refused_and_nobody_is_kept_out,
    a_migration_that_failed_runs_again,
);

fn schema(applied: &'static str, migrations: &[&'static str]) -> Schema {
    let migrator = || {
        let numbered = (1..).zip(migrations);
        let migrations = numbered.map(|(version, sql)| {
            let sql = sql.into_sql_str();
            Migration::new(version, "test".into(), MigrationType::Simple, sql, false)
        });
        Migrator::with_migrations(migrations.collect())
    };
    Schema {
        applied,
        sqlite: migrator(),
        postgres: migrator(),
        mysql: migrator(),
    }
}

const FIRST: &str = "CREATE TABLE first (id INT PRIMARY KEY); INSERT INTO first VALUES (1)";
const SECOND: &str = "ALTER TABLE first ADD COLUMN n INT; INSERT INTO first VALUES (2, 2)";

async fn programs_that_start_at_once_wait_for_each_other(site: &Site, _: Kind) {
    let programs = (0..8).map(async |_| {
        let pool = site.pool().await;
        pool.migrate(schema("owner", &[FIRST, SECOND])).await
    });
    for migrated in join_all(programs).await {
        migrated.unwrap();
    }
    let mut transaction = site.pool().await.begin().await.unwrap();
    assert_eq!(
        number(&mut transaction, "SELECT COUNT(*) FROM first").await,
        2
    );
}

async fn a_newer_schema_is_refused_and_nobody_is_kept_out(site: &Site, _: Kind) {
    let newer = site.pool().await;
    newer
        .migrate(schema("owner", &[FIRST, SECOND]))
        .await
        .unwrap();
    let older = site.pool().await;
    let error = older.migrate(schema("owner", &[FIRST])).await.unwrap_err();
    assert!(matches!(error, Error::Schema(_)), "{error:?}");
    assert_eq!(error.fate(), Fate::Refused);
    // The program that was refused still runs.
    let begun = Instant::now();
    let other = schema("other", &["CREATE TABLE theirs (id INT PRIMARY KEY)"]);
    newer.migrate(other).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    drop(older);
}

async fn a_migration_that_failed_runs_again(site: &Site, _: Kind) {
    let pool = site.pool().await;
    let copies = || {
        let sql = "CREATE TABLE IF NOT EXISTS copy (id INT PRIMARY KEY); INSERT INTO copy SELECT id FROM later";
        schema("owner", &[sql])
    };
    let error = pool.migrate(copies()).await.unwrap_err();
    assert_eq!(error.fate(), Fate::Unavailable, "{error:?}");
    commit(&pool, "CREATE TABLE later (id INT PRIMARY KEY)")
        .await
        .unwrap();
    commit(&pool, "INSERT INTO later VALUES (1)").await.unwrap();
    pool.migrate(copies()).await.unwrap();
    pool.migrate(copies()).await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    assert_eq!(
        number(&mut transaction, "SELECT COUNT(*) FROM copy").await,
        1
    );
}
