//! NATS away: no attempt burnt, no row dead, nothing twice, however long it takes.
//!
//! `JETWAY_SOAK_SECONDS=60` makes the outages that long.

use std::time::Duration;

use jetway::database::Kind;

use crate::rig::events;
use crate::site::{LEASE, Site, config, signal};
use crate::support::{Backend, eventually, lasting, soak};

const DEVICES: u64 = 50;

/// With a stream that remembers ids so long, relays that are killed while it is away, and an outage of this length at least.
async fn outage(kind: Kind, window: Duration, length: Duration) {
    let mut site = Site::start(kind, window).await;
    let mut processes = [site.process(), site.process()];
    site.write(DEVICES, 2).await;
    site.until_empty().await;
    // In the middle of the work.
    site.write(DEVICES, 30).await;
    let published = "SELECT COUNT(*) FROM outbox_event WHERE status = 'published'";
    eventually("half of it is published", async || {
        let count = site.database.numbers(published).await[0];
        if count > 700 {
            Ok(())
        } else {
            Err(count.to_string())
        }
    })
    .await;
    site.server.kill9().await;
    processes[0].kill().await.unwrap();
    site.write(DEVICES, 2).await;
    lasting(soak().unwrap_or(length)).await;
    processes[0] = site.process();
    site.server.restart().await;
    site.backend = Backend::connect(&site.server.url()).await;
    site.write(DEVICES, 2).await;
    site.check(DEVICES).await;
}

#[tokio::test]
async fn an_outage_burns_no_attempt_on_postgresql() {
    outage(
        Kind::Postgres,
        Duration::from_secs(120),
        Duration::from_secs(3),
    )
    .await;
}

#[tokio::test]
async fn an_outage_burns_no_attempt_on_mariadb() {
    outage(
        Kind::MySql,
        Duration::from_secs(120),
        Duration::from_secs(3),
    )
    .await;
}

#[tokio::test]
async fn an_outage_longer_than_the_stream_remembers_repeats_nothing() {
    outage(
        Kind::Postgres,
        Duration::from_secs(2),
        Duration::from_secs(5),
    )
    .await;
}

/// A server that takes what it is given and answers nothing: what it took is stored, and nobody was told.
async fn silent(kind: Kind) {
    use rustix::process::Signal;
    let window = Duration::from_secs(2);
    let mut site = Site::start(kind, window).await;
    let mut process = site.process();
    site.write(DEVICES, 2).await;
    site.until_empty().await;
    site.server.pause().await;
    site.write(DEVICES, 3).await;
    let sending = "SELECT COUNT(*) FROM outbox_event WHERE status = 'sending'";
    eventually("rows are on their way", async || {
        let count = site.database.numbers(sending).await[0];
        if count > 0 {
            Ok(())
        } else {
            Err(count.to_string())
        }
    })
    .await;
    // They are in the server's socket, or on their way to it.
    lasting(Duration::from_millis(200)).await;
    signal(&process, Signal::KILL);
    process.wait().await.unwrap();
    site.server.resume();
    // The server stores the first row of each device, and has forgotten them when the next relay comes.
    lasting(window * 2 + LEASE).await;
    let running = site.running().await;
    site.check(DEVICES).await;
    running.stop().await;
}

#[tokio::test]
async fn what_was_stored_without_an_answer_is_found_in_the_stream() {
    tokio::join!(
        silent(Kind::Postgres),
        silent(Kind::MySql),
        silent(Kind::Sqlite)
    );
}

#[tokio::test]
async fn a_stream_that_is_missing_or_full_costs_no_attempt() {
    let mut site = Site::start(Kind::Postgres, Duration::from_secs(120)).await;
    let running = site.running().await;
    site.write(DEVICES, 1).await;
    site.until_empty().await;
    // Nobody takes this subject yet, and it is in nobody's way.
    let mut other: Vec<_> = events("other", 0..20);
    for event in &mut other {
        event.subject = "other.thing".into();
    }
    site.database.write(&other).await;
    lasting(Duration::from_millis(1_500)).await;
    site.write(DEVICES, 5).await;
    eventually("the others are published", async || {
        let stats = site.database.store.stats().await.unwrap();
        if stats.pending + stats.sending == 20 {
            Ok(())
        } else {
            Err(format!("{stats:?}"))
        }
    })
    .await;
    site.check_stream(DEVICES).await;
    let full = serde_json::json!({"name": "OTHER", "subjects": ["other.>"], "max_msgs": 5, "discard": "new"});
    site.backend
        .request("$JS.API.STREAM.CREATE.OTHER", full.to_string())
        .await;
    eventually("it is full", async || {
        match site.backend.count("OTHER").await {
            5 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    lasting(Duration::from_millis(2_500)).await;
    let more = serde_json::json!({"name": "OTHER", "subjects": ["other.>"], "max_msgs": 50, "discard": "new"});
    site.backend
        .request("$JS.API.STREAM.UPDATE.OTHER", more.to_string())
        .await;
    site.until_empty().await;
    assert_eq!(site.backend.count("OTHER").await, 20);
    assert!(
        site.database
            .numbers("SELECT id FROM outbox_event WHERE attempts > 0")
            .await
            .is_empty()
    );
    running.stop().await;
}

#[tokio::test]
async fn rows_that_the_stream_refuses_are_dead_and_their_successors_go_on() {
    for kind in crate::rig::KINDS {
        let mut site = Site::start(kind, Duration::from_secs(120)).await;
        let mut all = events("bad", 0..6);
        // Larger than the stream takes.
        all[2].payload = vec![b'x'; 20_000].into();
        site.database.write(&all).await;
        let running = site.running().await;
        site.write(DEVICES, 3).await;
        eventually("all but one are published", async || {
            let stats = site.database.store.stats().await.unwrap();
            match (stats.pending, stats.sending, stats.dead) {
                (0, 0, 1) => Ok(()),
                _ => Err(format!("{stats:?}")),
            }
        })
        .await;
        let bad = site
            .backend
            .messages("GPS", "gps.report.created.p.bad")
            .await;
        let bad: Vec<&str> = bad.iter().map(|message| message.text()).collect();
        let expected: Vec<String> = [0, 1, 3, 4, 5]
            .map(|number| format!("{{\"device\":\"bad\",\"number\":{number}}}"))
            .to_vec();
        assert_eq!(bad, expected, "{kind:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_commit_wakes_the_relay() {
    for kind in crate::rig::KINDS {
        let mut site = Site::start(kind, Duration::from_secs(120)).await;
        // Written before it starts: the first look is at once.
        site.write(DEVICES, 1).await;
        // By itself it would look again after the test. Of so long a lease enough is left for the rows on any machine.
        let config = jetway::outbox::Config {
            lease_ms: 60_000,
            poll_interval_ms: 600_000,
            ..config()
        };
        let running = site.running_with(config).await;
        site.until_empty().await;
        for _ in 0..20 {
            site.write(DEVICES, 1).await;
            if kind != Kind::Postgres {
                running.relay.wake.wake();
            }
            site.until_empty().await;
        }
        site.check(DEVICES).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_pass_publishes_what_a_relay_that_is_switched_off_leaves() {
    for kind in crate::rig::KINDS {
        let mut site = Site::start(kind, Duration::from_secs(120)).await;
        let off = jetway::outbox::Config {
            relay_enabled: false,
            lease_ms: 60_000,
            ..config()
        };
        let running = site.running_with(off).await;
        site.write(DEVICES, 10).await;
        // It looks around now, and would publish by then.
        lasting(Duration::from_millis(500)).await;
        assert_eq!(site.backend.count("GPS").await, 0, "{kind:?}");
        let pass = running.relay.pass().await.unwrap();
        let rows = DEVICES * 10;
        assert_eq!((pass.claimed, pass.published), (rows, rows), "{kind:?}");
        site.check(DEVICES).await;
        site.write(DEVICES, 1).await;
        site.server.kill9().await;
        // As soon as it knows.
        eventually("nothing is taken", async || {
            let pass = running.relay.pass().await.unwrap();
            match pass == jetway::outbox::Pass::default() {
                true => Ok(()),
                false => Err(format!("{pass:?}")),
            }
        })
        .await;
        let stats = site.database.store.stats().await.unwrap();
        assert_eq!((stats.pending, stats.sending), (DEVICES, 0), "{kind:?}");
        let burnt = "SELECT id FROM outbox_event WHERE attempts > 0";
        assert!(site.database.numbers(burnt).await.is_empty(), "{kind:?}");
        running.stop().await;
    }
}
