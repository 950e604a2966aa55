//! `gpsReportScheduleJob`: every window of recorded tracks is summed up, told once a revision, and opened again by what comes late.

use std::collections::BTreeSet;

use jetway::database::Config as Database;
use jetway::jobs::reports::{SCHEDULE, history};
use jetway::jobs::{Cause, Config, Jobs, Outcome, Request, Start};
use jetway::outbox::store::Wake;

use crate::databases::{node_of, on_each, store};
use crate::history::{History, Point, metres, track};
use crate::support::Random;

const CLOSED: &str = "gps.window.closed";

async fn jobs(database: &Database, name: &str) -> Jobs {
    let store = store(database).await;
    let registry = history(&Config::default(), &store, &Wake::default());
    node_of(database, name, registry).await
}

async fn run(jobs: &Jobs) -> String {
    let request = Request::new(SCHEDULE, "", Cause::Cli);
    let Start::Started(started) = jobs.start(request).await.unwrap() else {
        panic!("it runs elsewhere");
    };
    let ended = started.finish().await;
    assert_eq!(ended.outcome, Outcome::Done, "{}", ended.message);
    ended.message
}

fn assert_near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-6,
        "{found}, expected {expected}"
    );
}

/// Points and metres of each hour of the walk, computed elsewhere by another formula.
const HOURS: [(i64, f64); 5] = [
    (40, 491.367_909_6),
    (137, 1_800.869_813_4),
    (55, 538.332_485_8),
    (227, 2_330.653_989_3),
    (54, 1_081.666_766_8),
];

#[tokio::test]
async fn a_days_walk_is_five_windows_and_a_late_point_a_further_revision() {
    on_each(async |database| {
        let mut history = History::new(&database).await;
        let jobs = jobs(&database, "a").await;
        let walk = track("hike");
        shuffled_in_two_shards(&mut history, &jobs, &walk).await;
        is_summed_up_twice(&history, &walk).await;
        a_late_point_opens_its_window(&mut history, &jobs, &walk).await;
    })
    .await;
}

/// All points in some order, and a job that is run before, amid and behind them.
async fn shuffled_in_two_shards(history: &mut History, jobs: &Jobs, walk: &[Point]) {
    assert_eq!(run(jobs).await, "0 reports read, 0 windows closed");
    let mut shuffled = walk.to_vec();
    let mut random = Random::new("a day's walk");
    for last in (1..shuffled.len()).rev() {
        let other = random.below(last as u64 + 1);
        shuffled.swap(last, usize::try_from(other).unwrap());
    }
    let rows = shuffled
        .iter()
        .map(|point| history.row("walker", point, None));
    let rows: Vec<_> = rows.collect();
    history.insert(&rows).await;
    // What no cursor has passed may have others in front of it that come later.
    assert_eq!(run(jobs).await, "0 reports read, 0 windows closed");
    history.advance(0, 2, 513).await;
    assert_eq!(run(jobs).await, "0 reports read, 0 windows closed");
    history.advance(1, 2, 100).await;
    let read = run(jobs).await;
    assert!(read.starts_with("100 reports read, 5 windows"), "{read}");
    history.advance(1, 2, 600).await;
    history.advance(0, 2, 600).await;
    assert_eq!(run(jobs).await, "413 reports read, 5 windows closed");
    assert_eq!(run(jobs).await, "0 reports read, 0 windows closed");
}

async fn is_summed_up_twice(history: &History, walk: &[Point]) {
    let summaries = history.summaries().await;
    assert_eq!(summaries.len(), 5);
    for ((revision, points, distance_m), (count, expected)) in summaries.iter().zip(HOURS) {
        assert_eq!((*revision, *points), (2, count));
        assert_near(*distance_m, expected);
    }
    let events = history.events(CLOSED).await;
    assert_eq!(events.len(), 10);
    let last = &events[9]["data"];
    let device = (&last["product_id"], &last["device_name"]);
    assert_eq!(device, (&"P".into(), &"walker".into()));
    assert_eq!(last["window_start"], "2010-10-03T13:00:00.000Z");
    assert_eq!(last["window_end"], "2010-10-03T14:00:00.000Z");
    let counts = (&last["revision"], &last["points"]);
    assert_eq!(counts, (&2.into(), &54.into()));
    assert_eq!(last["last"]["latitude"], walk[512].latitude);
    assert_eq!(last["first"]["longitude"], walk[512 - 53].longitude);
    assert_near(last["distance_m"].as_f64().unwrap(), HOURS[4].1);
}

/// A point between two of the second hour, and once more one without a fix.
async fn a_late_point_opens_its_window(history: &mut History, jobs: &Jobs, walk: &[Point]) {
    let (before, after) = (walk[100], walk[101]);
    let between = Point {
        at_ms: before.at_ms + 1,
        latitude: before.latitude + 0.01,
        longitude: before.longitude,
    };
    let mut late = vec![history.row("walker", &between, Some(3.5))];
    let mut lost = history.row("walker", &between, None);
    (lost.flags, lost.latitude, lost.longitude) = (1, 0.0, 0.0);
    late.push(lost);
    for row in &mut late {
        row.sequence += 600 - 513;
    }
    history.insert(&late).await;
    history.advance(0, 2, 700).await;
    history.advance(1, 2, 700).await;
    assert_eq!(run(jobs).await, "2 reports read, 1 windows closed");
    let detour = metres(&before, &between) + metres(&between, &after) - metres(&before, &after);
    let summaries = history.summaries().await;
    let (revision, points, distance_m) = summaries[1];
    assert_eq!((revision, points), (3, 139));
    assert_near(distance_m, HOURS[1].1 + detour);
    let others = summaries.iter().enumerate().filter(|(at, _)| *at != 1);
    assert!(
        others
            .map(|(_, summary)| summary.0)
            .all(|revision| revision == 2)
    );
    let told = history.events(CLOSED).await.pop().unwrap();
    let counts = (&told["data"]["revision"], &told["data"]["valid_points"]);
    assert_eq!(counts, (&3.into(), &138.into()));
    assert_eq!(told["data"]["speed_max_mps"], 3.5);
}

#[tokio::test]
async fn a_window_that_is_not_over_stays_open() {
    on_each(async |database| {
        let mut history = History::new(&database).await;
        let jobs = jobs(&database, "a").await;
        let now = i64::try_from(jetway::telemetry::now_unix_ms()).unwrap();
        let drive = track("drive");
        // Its end was an hour ago and it is due, or it is not over.
        for (device, at_ms) in [("old", now - 2 * 3_600_000), ("new", now)] {
            let point = Point { at_ms, ..drive[0] };
            let row = history.row(device, &point, None);
            history.insert(&[row]).await;
        }
        history.write(&[]).await;
        assert_eq!(run(&jobs).await, "2 reports read, 1 windows closed");
        let events = history.events(CLOSED).await;
        assert_eq!(events[0]["data"]["device_name"], "old");
    })
    .await;
}

#[tokio::test]
async fn runs_that_are_killed_on_two_nodes_tell_each_window_once() {
    const DEVICES: usize = 12;
    on_each(async |database| {
        let mut history = History::new(&database).await;
        let nodes = [jobs(&database, "a").await, jobs(&database, "b").await];
        let walk = track("hike");
        let mut rows = Vec::new();
        for device in 0..DEVICES {
            let name = format!("d{device}");
            rows.extend(
                walk.iter()
                    .step_by(3)
                    .map(|point| history.row(&name, point, None)),
            );
        }
        history.write(&rows).await;
        let mut random = Random::new("killed runs");
        let mut kills = 0;
        // Ever longer, so that it comes to an end.
        for round in 0_u64.. {
            let jobs = &nodes[usize::try_from(round % 2).unwrap()];
            let request = Request::new(SCHEDULE, "", Cause::Cli);
            let Start::Started(started) = jobs.start(request).await.unwrap() else {
                panic!("it runs elsewhere");
            };
            let id = started.id().to_owned();
            let other = &nodes[usize::try_from((round + 1) % 2).unwrap()];
            let until = std::time::Duration::from_millis(round * 8 + random.below(20));
            let (ended, ()) = tokio::join!(started.finish(), async {
                // The first is killed at its first step: later ones may be done before.
                if round > 0 {
                    // It has the job, unless it is done with it.
                    let second = other.start(Request::new(SCHEDULE, "", Cause::Cli)).await;
                    if let Start::Started(second) = second.unwrap() {
                        assert_eq!(second.finish().await.outcome, Outcome::Done);
                    }
                    crate::support::lasting(until).await;
                }
                jobs.kill(&id);
            });
            match ended.outcome {
                Outcome::Killed => kills += 1,
                Outcome::Done => break,
                other => panic!("{other:?}: {}", ended.message),
            }
        }
        assert!(kills > 0, "no run was killed");
        let summaries = history.summaries().await;
        assert_eq!(summaries.len(), DEVICES * 5);
        assert!(
            summaries.iter().all(|(revision, _, _)| *revision == 1),
            "{summaries:?}"
        );
        let points: i64 = summaries.iter().map(|(_, points, _)| points).sum();
        assert_eq!(usize::try_from(points).unwrap(), rows.len());
        let events = history.events(CLOSED).await;
        let told: BTreeSet<String> = events
            .iter()
            .map(|event| {
                format!(
                    "{} {}",
                    event["data"]["device_name"], event["data"]["window_start"]
                )
            })
            .collect();
        assert_eq!((events.len(), told.len()), (DEVICES * 5, DEVICES * 5));
    })
    .await;
}
