//! `gpsReportNotificationJob`: each incident of a recorded drive is told once, however often and wherever the job is run.

use jetway::database::Config as Database;
use jetway::jobs::reports::{NOTIFICATION, history};
use jetway::jobs::{Cause, Config, Jobs, Outcome, Request, Start};
use jetway::outbox::store::Wake;

use crate::databases::{node_of, on_each, store};
use crate::history::{History, Point, metres, track};

const RULES: &str = r#"
[[speed]]
name = "town"
limit_mps = 12.0
over_mps = 8.0

[[speed]]
name = "of another product"
products = ["Q"]
limit_mps = 1.0

[[fence]]
name = "corner"
circle = { latitude = 45.2734, longitude = 13.7141, radius_m = 60.0 }

[stop]
move_m = 30.0
stop_s = 60
"#;

async fn jobs(database: &Database, name: &str) -> Jobs {
    let config: Config = toml::from_str(RULES).unwrap();
    assert_eq!(config.validate(), [""; 0]);
    let store = store(database).await;
    node_of(database, name, history(&config, &store, &Wake::default())).await
}

async fn run(jobs: &Jobs) {
    let request = Request::new(NOTIFICATION, "", Cause::Cli);
    let Start::Started(started) = jobs.start(request).await.unwrap() else {
        panic!("it runs elsewhere");
    };
    let ended = started.finish().await;
    assert_eq!(ended.outcome, Outcome::Done, "{}", ended.message);
}

/// How fast the drive is at each point: from the one before.
fn speeds(drive: &[Point]) -> Vec<f64> {
    let between = drive.windows(2).map(|pair| {
        let seconds = (pair[1].at_ms - pair[0].at_ms) as f64 / 1_000.0;
        metres(&pair[0], &pair[1]) / seconds
    });
    std::iter::once(0.0).chain(between).collect()
}

/// The times at which a state begins and ends that is entered above one bound and left below another.
fn turns(values: &[(i64, f64)], above: f64, below: f64) -> (Vec<i64>, Vec<i64>) {
    let (mut begun, mut ended, mut is_on) = (Vec::new(), Vec::new(), false);
    for (at_ms, value) in values {
        match is_on {
            false if *value > above => begun.push(*at_ms),
            true if *value <= below => ended.push(*at_ms),
            _ => continue,
        }
        is_on = !is_on;
    }
    (begun, ended)
}

/// The times that events of a kind tell of.
async fn told(history: &History, kind: &str) -> Vec<String> {
    let events = history.events(kind).await;
    let at = events.iter().map(|event| event["data"]["at"].as_str());
    at.map(|at| at.unwrap().to_owned()).collect()
}

fn iso8601(times: &[i64]) -> Vec<String> {
    let at = times.iter().map(|at_ms| u64::try_from(*at_ms).unwrap());
    at.map(jetway::event::iso8601).collect()
}

#[tokio::test]
async fn incidents_of_a_drive_are_told_once_on_whichever_node() {
    on_each(async |database| {
        let drive = track("drive");
        let speeds = speeds(&drive);
        let mut history = History::new(&database).await;
        let nodes = [jobs(&database, "a").await, jobs(&database, "b").await];
        for (number, (point, speed)) in drive.iter().zip(&speeds).enumerate() {
            let row = history.row("car", point, Some(*speed));
            history.write(&[row]).await;
            if number % 20 == 0 {
                run(&nodes[number / 20 % 2]).await;
            }
        }
        run(&nodes[0]).await;
        let stops = everything_is_told(&history, &drive, &speeds).await;

        // The same again, late and fast: nothing of it is news.
        let again = drive
            .iter()
            .map(|point| history.row("car", point, Some(50.0)));
        let again: Vec<_> = again.collect();
        history.write(&again).await;
        run(&nodes[1]).await;
        assert_eq!(everything_is_told(&history, &drive, &speeds).await, stops);
    })
    .await;
}

/// Compares with what the points say; gives how many stops there were.
async fn everything_is_told(history: &History, drive: &[Point], speeds: &[f64]) -> usize {
    let values = drive.iter().zip(speeds);
    let values: Vec<_> = values.map(|(point, speed)| (point.at_ms, *speed)).collect();
    let (begun, _) = turns(&values, 12.0, 8.0);
    assert!(!begun.is_empty(), "too slow for the rule: {speeds:?}");
    assert_eq!(told(history, "gps.speed.exceeded").await, iso8601(&begun));
    let exceeded = history.events("gps.speed.exceeded").await;
    assert!(
        exceeded
            .iter()
            .all(|event| event["data"]["limit_mps"] == 12.0)
    );

    let corner = Point {
        at_ms: 0,
        latitude: 45.2734,
        longitude: 13.7141,
    };
    let away = drive
        .iter()
        .map(|point| (point.at_ms, -metres(&corner, point)));
    // At most 60 m away it is in, and out again beyond 80.
    let (entered, left) = turns(&away.collect::<Vec<_>>(), -60.0, -80.0);
    assert!(!entered.is_empty() && !left.is_empty());
    assert_eq!(
        told(history, "gps.geofence.entered").await,
        iso8601(&entered)
    );
    assert_eq!(told(history, "gps.geofence.left").await, iso8601(&left));

    let stopped = history.events("gps.stop.detected").await;
    assert!(!stopped.is_empty());
    stopped.len()
}
