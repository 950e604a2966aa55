//! Crashes: of a replica's process in the middle, between commit and acknowledgement, of NATS; and a database that is away.

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use jetway::consumer::{Config, Outcome};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::rig::{DURABLE, NEVER, ONE_WRITER, Recorder, Rig, STREAM, Writers, open, serve};
use crate::support::{Backend, eventually, lasting};

const NATS: &str = "CONSUMER_TEST_NATS";
const DATABASE: &str = "CONSUMER_TEST_DATABASE";
const HANGS: &str = "CONSUMER_TEST_HANGS";

/// A replica in a process of its own: this test program, told to run [`replica_process`] alone.
fn process(rig: &Rig, hangs: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["crashes::replica_process", "--exact", "--nocapture"])
        .env(NATS, rig.server.url())
        .env(DATABASE, rig.database())
        .envs(hangs.then_some((HANGS, "1")))
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The other process of the tests below; on its own, with nothing to do, it does nothing.
#[tokio::test]
async fn replica_process() {
    let (Ok(nats), Some(database)) = (std::env::var(NATS), std::env::var_os(DATABASE)) else {
        return;
    };
    let recorder = match std::env::var_os(HANGS) {
        Some(_) => Recorder::gated("process"),
        None => Recorder::new("process"),
    };
    serve(&nats, database.as_ref(), recorder).await;
}

#[tokio::test]
async fn a_process_killed_in_a_transaction_leaves_its_events_to_another() {
    let rig = Rig::start(&[2_000, 2_000]).await;
    let mut process = process(&rig, true);
    rig.until("it pulls", |info| info.num_waiting == 1).await;
    for number in 1..=3 {
        rig.publish("d", number).await;
    }
    rig.until("it has them", |info| info.num_ack_pending == 3)
        .await;
    process.kill().await.unwrap();
    let recorder = Recorder::new("other");
    let replica = rig.replica(&recorder).await;
    let mut rows = rig.until_rows(3).await;
    rows.sort_unstable();
    assert_eq!(rows, [1, 2, 3].map(|number| ("d".to_owned(), number)));
    rig.until_done().await;
    assert_eq!(replica.metrics.count(Outcome::Handled), 3);
    replica.stop().await;
}

#[tokio::test]
async fn processes_killed_at_work_handle_nothing_twice_and_lose_nothing() {
    const EVENTS: u64 = 300;
    let rig = Rig::start(&[2_000, 2_000, 2_000, 2_000, 2_000]).await;
    let mut processes = [process(&rig, false), process(&rig, false)];
    rig.until("they pull", |info| info.num_waiting == 2).await;
    for number in 0..EVENTS {
        rig.publish("d", number).await;
    }
    for (process, after) in processes.iter_mut().zip([20, 100]) {
        rig.until_rows(after).await;
        process.kill().await.unwrap();
    }
    let replica = rig.replica(&Recorder::new("last")).await;
    rig.until_done().await;
    let mut rows = rig.rows().await;
    rows.sort_unstable();
    let expected: Vec<_> = (0..EVENTS).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    replica.stop().await;
}

#[tokio::test]
async fn a_crash_between_commit_and_acknowledgement_is_no_second_row() {
    let rig = Rig::start(&[1_000, 1_000]).await;
    let recorder = Recorder::gated("first");
    let first = rig.replica(&recorder).await;
    rig.publish("d", 1).await;
    recorder.until_calls(1).await;
    // From here on nobody acknowledges what the handler commits.
    first.crash().await;
    recorder.gate.add_permits(1);
    rig.until_rows(1).await;
    let second = rig.replica(&Recorder::new("second")).await;
    rig.until_done().await;
    assert_eq!(rig.rows().await.len(), 1);
    eventually("the second knew it", async || {
        match second.metrics.count(Outcome::Duplicate) {
            1 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    second.stop().await;
}

#[tokio::test]
async fn an_outage_of_nats_loses_nothing_and_repeats_nothing() {
    let mut rig = Rig::start(&[1_000, 1_000, 1_000]).await;
    let recorder = Recorder::gated("only");
    let replica = rig.replica(&recorder).await;
    for number in 0..20 {
        rig.publish("d", number).await;
    }
    recorder.gate.add_permits(5);
    // The sixth is in its handler when the server dies, and is done before it is back.
    rig.until_rows(5).await;
    recorder.until_calls(6).await;
    rig.server.kill9().await;
    recorder.gate.add_permits(2);
    rig.until_rows(7).await;
    rig.server.restart().await;
    recorder.gate.add_permits(100);
    rig.backend = Backend::connect(&rig.server.url()).await;
    for number in 20..40 {
        rig.publish("d", number).await;
    }
    rig.until_done().await;
    let mut rows = rig.rows().await;
    rows.sort_unstable();
    let expected: Vec<_> = (0..40).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    assert_eq!(replica.metrics.count(Outcome::Dead), 0);
    replica.stop().await;
}

#[tokio::test]
async fn replicas_and_nats_that_are_killed_in_turn_handle_each_event_once() {
    const ROUNDS: u64 = 3;
    const EVENTS: u64 = 150;
    let mut rig = Rig::start(&[1_000; 30]).await;
    let mut advisories = rig.advisories().await;
    let mut processes = [process(&rig, false), process(&rig, false)];
    for round in 0..ROUNDS {
        for part in 0..3 {
            let first = (round * 3 + part) * EVENTS;
            // All at once, so that the kill meets them at work.
            let publish = async |number| rig.publish(&format!("d{}", number % 5), number).await;
            join_all((first..first + EVENTS).map(publish)).await;
            let handled = first + EVENTS / 3;
            rig.until_rows(usize::try_from(handled).unwrap()).await;
            match usize::try_from(part).unwrap() {
                victim @ (0 | 1) => {
                    processes[victim].kill().await.unwrap();
                    processes[victim] = process(&rig, false);
                }
                _ => {
                    rig.server.kill9().await;
                    rig.server.restart().await;
                    rig.backend = Backend::connect(&rig.server.url()).await;
                    advisories = rig.advisories().await;
                }
            }
        }
    }
    let info = rig.until_done().await;
    let again = info.delivered.consumer_sequence - ROUNDS * 3 * EVENTS;
    assert!(again > 0, "no kill met anything at work");
    let mut numbers: Vec<_> = rig.rows().await.into_iter().map(|row| row.1).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..ROUNDS * 3 * EVENTS));
    // Nothing was given up: the first advisory is that of what is no event.
    rig.publish_as("d", "end").await;
    assert_eq!(advisories.next(&rig.backend).await.0, "terminated");
}

#[tokio::test]
async fn a_durable_that_is_made_late_or_anew_is_found() {
    let rig = Rig::start(NEVER).await;
    let delete = format!("CONSUMER.DELETE.{STREAM}.{DURABLE}");
    rig.api(&delete, Value::Null).await;
    let replica = rig.replica(&Recorder::new("only")).await;
    rig.durable(NEVER).await;
    rig.publish("d", 1).await;
    rig.until_rows(1).await;
    rig.until_done().await;
    rig.api(&delete, Value::Null).await;
    rig.durable(NEVER).await;
    rig.publish("d", 2).await;
    rig.until_rows(2).await;
    // The first one came again to the new durable, and was known.
    rig.until_done().await;
    assert_eq!(rig.rows().await.len(), 2);
    replica.stop().await;
}

#[tokio::test]
async fn a_database_that_is_away_costs_no_try() {
    let rig = Rig::start(&[600]).await;
    let recorder = Recorder::new("only");
    let writers = Writers {
        busy: Duration::from_millis(50),
        ..ONE_WRITER
    };
    let pool = open(&rig.database(), writers).await;
    let config = Config::new(STREAM, DURABLE);
    let replica = rig.replica_on(pool, &recorder, config).await;
    let mut lock = rig.pool.acquire().await.unwrap();
    let away = sqlx::query("BEGIN EXCLUSIVE");
    away.execute(&mut *lock).await.unwrap();
    rig.publish("d", 1).await;
    rig.until("it has the event", |info| info.num_ack_pending == 1)
        .await;
    // Longer than the ack wait, and than all tries would take.
    lasting(Duration::from_secs(3)).await;
    sqlx::query("ROLLBACK").execute(&mut *lock).await.unwrap();
    drop(lock);
    rig.until_rows(1).await;
    rig.until_done().await;
    assert_eq!(recorder.calls()[0].attempt, 1);

    // And a service can stop without it.
    let mut lock = rig.pool.acquire().await.unwrap();
    let away = sqlx::query("BEGIN EXCLUSIVE");
    away.execute(&mut *lock).await.unwrap();
    rig.publish("d", 2).await;
    rig.until("it has the next", |info| info.num_ack_pending == 1)
        .await;
    let metrics = replica.metrics.clone();
    replica.stop().await;
    assert_eq!(metrics.count(Outcome::Returned), 1);
    assert_eq!(metrics.count(Outcome::Failed), 0);
}
