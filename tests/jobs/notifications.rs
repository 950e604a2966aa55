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

#[tokio::test]
async fn incidents_of_a_drive_are_told_once_on_whichever_node() {
    on_each(async |database| {
        let drive = track("drive");
        let speeds = speeds(&drive);
        let mut history = History::new(&database).await;
        let nodes = [jobs(&database, "a").await, jobs(&database, "b").await];
        let mut all = Vec::new();
        for (number, (point, speed)) in drive.iter().zip(&speeds).enumerate() {
            let row = history.row("car", point, Some(*speed));
            all.push(row.clone());
            history.write(&[row]).await;
            if number % 20 == 0 {
                run(&nodes[number / 20 % 2]).await;
            }
        }
        run(&nodes[0]).await;
        let at = |event: &serde_json::Value| event["data"]["at"].as_str().unwrap().to_owned();
        let iso8601 = |at_ms: &i64| jetway::event::iso8601(u64::try_from(*at_ms).unwrap());

        let values: Vec<(i64, f64)> = drive
            .iter()
            .zip(&speeds)
            .map(|(point, speed)| (point.at_ms, *speed))
            .collect();
        let (begun, _) = turns(&values, 12.0, 8.0);
        assert!(
            !begun.is_empty(),
            "the drive is too slow for the rule: {speeds:?}"
        );
        let told = history.events("gps.speed.exceeded").await;
        let times: Vec<String> = told.iter().map(at).collect();
        assert_eq!(times, begun.iter().map(iso8601).collect::<Vec<_>>());
        assert!(told.iter().all(|event| event["data"]["rule"] == "town"));

        let corner = Point {
            at_ms: 0,
            latitude: 45.2734,
            longitude: 13.7141,
        };
        let away: Vec<(i64, f64)> = drive
            .iter()
            .map(|point| (point.at_ms, -metres(&corner, point)))
            .collect();
        // At most 60 m away it is in, and out again beyond 80.
        let (entered, left) = turns(&away, -60.0, -80.0);
        assert!(!entered.is_empty() && !left.is_empty());
        for (kind, expected) in [
            ("gps.geofence.entered", entered),
            ("gps.geofence.left", left),
        ] {
            let times: Vec<String> = history.events(kind).await.iter().map(at).collect();
            assert_eq!(
                times,
                expected.iter().map(iso8601).collect::<Vec<_>>(),
                "{kind}"
            );
        }
        let stopped = history.events("gps.trip.stopped").await;
        assert!(!stopped.is_empty());

        // The same again, late: nothing of it is news.
        let count = history.events("gps.speed.exceeded").await.len();
        for row in &mut all {
            *row = history.row(
                "car",
                &Point {
                    at_ms: row.at_ms,
                    latitude: row.latitude,
                    longitude: row.longitude,
                },
                Some(50.0),
            );
        }
        history.write(&all).await;
        tokio::join!(run(&nodes[1]), async {});
        assert_eq!(history.events("gps.speed.exceeded").await.len(), count);
        assert_eq!(
            history.events("gps.trip.stopped").await.len(),
            stopped.len()
        );
    })
    .await;
}
