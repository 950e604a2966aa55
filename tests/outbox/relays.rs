//! Several relays at work that are killed and stopped at random: no row twice, none lost, none stuck, each device in order.
//!
//! `JETWAY_SOAK_SECONDS=300` makes each of them go on for so long.

use std::time::{Duration, Instant};

use jetway::database::Kind;
use jetway::outbox::store::Store;
use jetway::telemetry::now_unix_ms;
use rustix::process::Signal;
use tokio::process::Child;

use crate::rig::{Database, pool};
use crate::site::{LEASE, Site, signal};
use crate::support::{Postgres, Random, eventually, goes_on, lasting};

const DEVICES: u64 = 100;
/// The stream knows repeats for longer than any test.
const WINDOW: Duration = Duration::from_secs(3_600);

async fn killed(kind: Kind, relays: usize) {
    let mut site = Site::start(kind, WINDOW).await;
    let mut random = Random::new("killed relays");
    let mut processes: Vec<Child> = (0..relays).map(|_| site.process()).collect();
    let started = Instant::now();
    let mut round = 0;
    while goes_on(started, round, 8) {
        round += 1;
        for _ in 0..1 + random.below(3) {
            site.write(DEVICES, 1 + random.below(3)).await;
            lasting(Duration::from_millis(random.below(100))).await;
        }
        // More than they can do would only be a longer way to the end.
        eventually("they keep up", async || {
            match site.database.store.stats().await {
                Ok(stats) if stats.pending < 5_000 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let victim = usize::try_from(random.below(relays as u64)).unwrap();
        processes[victim].kill().await.unwrap();
        processes[victim] = site.process();
    }
    // What the last victims had in hand is somebody else's when their leases end, and none is longer than it should be.
    let longest = "SELECT MAX(lease_until) FROM outbox_shard WHERE shard >= 0";
    let longest = site.database.numbers(longest).await[0];
    let latest = Duration::from_millis(now_unix_ms()) + LEASE;
    let longest = Duration::from_millis(longest.try_into().unwrap());
    assert!(
        longest <= latest,
        "{longest:?}, expected {latest:?} at most"
    );
    site.check(DEVICES).await;
}

#[tokio::test]
async fn two_relays_killed_at_work_on_postgresql() {
    killed(Kind::Postgres, 2).await;
}

#[tokio::test]
async fn five_relays_killed_at_work_on_postgresql() {
    killed(Kind::Postgres, 5).await;
}

#[tokio::test]
async fn two_relays_killed_at_work_on_mariadb() {
    killed(Kind::MySql, 2).await;
}

#[tokio::test]
async fn five_relays_killed_at_work_on_mariadb() {
    killed(Kind::MySql, 5).await;
}

#[tokio::test]
async fn two_relays_killed_at_work_on_sqlite() {
    killed(Kind::Sqlite, 2).await;
}

async fn stopped(kind: Kind) {
    let mut site = Site::start(kind, WINDOW).await;
    let processes: Vec<Child> = (0..3).map(|_| site.process()).collect();
    site.write(DEVICES, 2).await;
    site.check(DEVICES).await;
    let mut random = Random::new("stopped relays");
    let started = Instant::now();
    let mut round = 0;
    while goes_on(started, round, 2) {
        round += 1;
        site.write(DEVICES, 20).await;
        let published = "SELECT COUNT(*) FROM outbox_event WHERE status = 'published'";
        let before = site.database.numbers(published).await[0];
        eventually("they are at work", async || {
            let now = site.database.numbers(published).await[0];
            if now > before {
                Ok(())
            } else {
                Err(now.to_string())
            }
        })
        .await;
        let victim = usize::try_from(random.below(2)).unwrap();
        signal(&processes[victim], Signal::STOP);
        // The others take over what it has in hand; then it goes on where it was.
        site.write(DEVICES, 3).await;
        lasting(LEASE + LEASE / 2).await;
        signal(&processes[victim], Signal::CONT);
        site.write(DEVICES, 3).await;
    }
    site.check(DEVICES).await;
}

#[tokio::test]
async fn a_relay_that_is_stopped_beyond_its_lease_changes_nothing_on_postgresql() {
    stopped(Kind::Postgres).await;
}

#[tokio::test]
async fn a_relay_that_is_stopped_beyond_its_lease_changes_nothing_on_mariadb() {
    stopped(Kind::MySql).await;
}

#[tokio::test]
async fn a_database_that_is_killed_at_work_loses_and_repeats_nothing() {
    let postgres = Postgres::start().await;
    let url = postgres.database("outbox").await;
    let database = Database::at(url, tempfile::tempdir().unwrap()).await;
    let mut site = Site::on(database, WINDOW).await;
    let _processes = [site.process(), site.process()];
    for round in 0..3 {
        let published = "SELECT COUNT(*) FROM outbox_event WHERE status = 'published'";
        let before = site.database.numbers(published).await[0];
        site.write(DEVICES, 10).await;
        eventually("they are at work", async || {
            let now = site.database.numbers(published).await[0];
            if now > before {
                Ok(())
            } else {
                Err(format!("{round}: {now}"))
            }
        })
        .await;
        postgres.kill9().await;
        postgres.restart().await;
        // Connections of the test itself have to be others; the relays know how to get theirs.
        site.database.store = Store::new(pool(&site.database.url).await);
    }
    site.check(DEVICES).await;
}
