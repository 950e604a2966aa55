//! Reports written again from the stream, and track events of fences and trips.

use jetway::device::DeviceId;
use jetway::gps::store::Tables;
use serde_json::Value;

use crate::databases::KINDS;
use crate::site::{Sent, Site, assert_schema};
use crate::support::{jetway, jetway_fails};

fn sent(number: i64) -> Sent {
    Sent {
        at_ms: 1_600_000_000_000 + number * 1_000,
        latitude: 45.0 + f64::from(i32::try_from(number).unwrap()) / 100.0,
        longitude: 13.0,
    }
}

fn replay(site: &Site, device: &str) -> String {
    let (database, nats) = (&*site.database.url, site.nats.url());
    let environment = [
        ("JETWAY_DATABASE_URL", database),
        ("JETWAY_NATS_URL", &nats),
        ("JETWAY_GPS_PAST_MAX_S", "3000000000"),
    ];
    let arguments = [
        "gps",
        "replay",
        "--device",
        device,
        "--since",
        "2020-01-01T00:00:00Z",
        "--json",
    ];
    jetway(&arguments, &environment)
}

#[tokio::test]
async fn what_is_missing_is_written_again_with_the_same_ids_and_nothing_twice() {
    for kind in KINDS {
        let site = Site::start(kind).await;
        let _worker = site.worker().await;
        // The second of the two is late.
        for number in [0, 2, 1, 4, 3, 5] {
            site.uplink("d", &sent(number).payload()).await;
            site.uplink("other", &sent(number).payload()).await;
        }
        let before = site.wait_for_reports(12).await;
        let untouched = replay(&site, "P/d");
        assert_eq!(untouched, "{\"messages\":6,\"written\":0}\n", "{kind:?}");
        // As an operator's mistake would.
        site.database
            .execute("DELETE FROM gps_report WHERE sequence < 8")
            .await;
        site.database.execute("DELETE FROM outbox_event").await;
        site.database.execute("DELETE FROM gps_latest").await;
        for expected in [
            "{\"messages\":6,\"written\":4}\n",
            "{\"messages\":6,\"written\":0}\n",
        ] {
            assert_eq!(replay(&site, "P/d"), expected, "{kind:?}");
        }
        let after = site.database.reports().await;
        let expected = before
            .iter()
            .filter(|report| report.device == "P/d" || report.sequence >= 8);
        let expected: Vec<_> = expected.cloned().collect();
        assert_eq!(after, expected, "{kind:?}");
        let events = site.database.events().await;
        let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
        let missing = before
            .iter()
            .filter(|report| report.device == "P/d" && report.sequence < 8);
        assert_eq!(
            ids,
            missing.map(|report| report.event_id).collect::<Vec<_>>()
        );
        let tables = Tables::new(site.database.pool.clone());
        let latest = tables
            .latest_of(&DeviceId::new("P", "d").unwrap())
            .await
            .unwrap();
        assert_eq!(latest.unwrap().at_ms, sent(5).at_ms);
        assert_eq!(
            site.database
                .number("SELECT COUNT(*) FROM gps_latest")
                .await,
            1
        );
    }
}

#[tokio::test]
async fn a_replay_before_any_worker_says_so() {
    let site = Site::start(KINDS[0]).await;
    drop(site.worker().await);
    let nats = site.nats.url();
    let environment = [
        ("JETWAY_DATABASE_URL", &*site.database.url),
        ("JETWAY_NATS_URL", &*nats),
    ];
    let arguments = ["gps", "replay", "--device", "P/d", "--since", "1h"];
    let (code, told) = jetway_fails(&arguments, &environment);
    assert_eq!(code, 1);
    assert!(told.contains("has not begun"), "{told}");
}

#[tokio::test]
async fn fences_trips_and_sampling_are_told_once_and_go_on_with_another_worker() {
    for kind in KINDS {
        let mut site = Site::start(kind).await;
        let own = [
            (
                "JETWAY_GPS_FENCE",
                r#"[{ name = "yard", circle = { latitude = 45.05, longitude = 13.0, radius_m = 2000.0 } }]"#,
            ),
            ("JETWAY_GPS_TRIP", "{ move_m = 500.0, stop_s = 3600 }"),
            ("JETWAY_GPS_SAMPLE_INTERVAL_S", "60"),
        ];
        site.environment = own
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let mut first = site.worker().await;
        for number in 0..5 {
            site.uplink("d", &sent(number).payload()).await;
        }
        site.wait_until_passed().await;
        first.kill9().await;
        let _second = site.worker().await;
        for number in 5..10 {
            site.uplink("d", &sent(number).payload()).await;
        }
        site.wait_until_passed().await;
        let told = site.database.events().await;
        let told: Vec<_> = told
            .iter()
            .filter(|event| event.event_type != "gps.report.created")
            .map(|event| (&*event.event_type, &*event.subject))
            .collect();
        let expected = [
            ("gps.trip.started", "gps.trip.started.P.d"),
            ("gps.geofence.entered", "gps.geofence.entered.P.d"),
            ("gps.geofence.left", "gps.geofence.left.P.d"),
        ];
        assert_eq!(told, expected, "{kind:?}");
        // Points that told something, and the first one; the others are nearer in time than a minute.
        let kept = site.database.reports().await;
        assert_eq!(kept.len(), 4, "{kind:?} {kept:?}");
        let tables = Tables::new(site.database.pool.clone());
        let latest = tables
            .latest_of(&DeviceId::new("P", "d").unwrap())
            .await
            .unwrap();
        assert_eq!(latest.unwrap().at_ms, sent(9).at_ms);
        for event in site.database.events().await {
            let body: Value = serde_json::from_slice(&event.payload).unwrap();
            assert_schema(&body);
            assert_eq!(body["event_name"], *event.event_type);
            assert_eq!(body["data"]["device_name"], "d");
        }
    }
}
