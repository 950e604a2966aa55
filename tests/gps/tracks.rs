//! Real tracks through MQTT: in the table and in the outbox once, in order, to the last digit; and what becomes of spoilt ones.

use jetway::device::DeviceId;
use jetway::gps::store::Tables;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::databases::{KINDS, Kind};
use crate::site::{Sent, Site};
use crate::support::{
    Credentials, Device, Gateway, NatsServer, Protocol, Publish, RunOptions, eventually, jetway,
};

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";
const TRACKS: [(&str, &str); 2] = [
    ("drive", include_str!("tracks/drive.csv")),
    ("hike", include_str!("tracks/hike.csv")),
];

/// A line of a track, its numbers as they are written.
struct Line {
    time: &'static str,
    at_ms: i64,
    latitude: &'static str,
    longitude: &'static str,
    altitude: &'static str,
}

impl Line {
    /// The numbers as they are in the file, and the time in a form of its own in each track.
    fn payload(&self, track: &str) -> String {
        let time = match track {
            "drive" => format!("{:?}", self.time),
            _ => self.at_ms.to_string(),
        };
        let Self {
            latitude,
            longitude,
            altitude,
            ..
        } = self;
        format!(
            r#"{{"method":"report","msgToken":"t","params":{{"latitude":{latitude},"longitude":{longitude},"altitude":{altitude},"time":{time}}}}}"#
        )
    }
}

fn lines(csv: &'static str) -> Vec<Line> {
    let line = |line: &'static str| {
        let [time, latitude, longitude, altitude] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}");
        };
        let at = OffsetDateTime::parse(time, &Rfc3339).unwrap();
        Line {
            time,
            at_ms: at.unix_timestamp() * 1_000,
            latitude,
            longitude,
            altitude,
        }
    };
    csv.lines().skip(1).map(line).collect()
}

/// A gateway with these devices, beside the workers: where devices connect knows nothing of the database of reports.
async fn gateway(nats: &NatsServer, folder: &std::path::Path, devices: &[&str]) -> Gateway {
    let url = format!("sqlite:{}", folder.join("devices.db").display());
    for device in devices {
        jetway(
            &[
                "device",
                "add",
                "track",
                device,
                "--secret",
                SECRET,
                "--database",
                &url,
            ],
            &[],
        );
    }
    Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url: url,
        environment: vec![("JETWAY_ROLES".to_owned(), r#"["gateway"]"#.to_owned())],
        ..RunOptions::default()
    })
    .await
}

async fn connect(gateway: &Gateway, device: &str, protocol: Protocol) -> Device {
    let credentials = Credentials::new("track", device, SECRET);
    Device::connect(protocol, gateway.mqtt(), &credentials).await
}

async fn publish_all(device: &mut Device, name: &str, payloads: Vec<String>) {
    let topic = format!("$thing/up/property/track/{name}");
    let count = payloads.len();
    for payload in payloads {
        device.publish(Publish::new(&topic, payload));
    }
    for _ in 0..count {
        assert_eq!(device.acked().await.unwrap().reason, 0);
    }
}

#[tokio::test]
async fn real_tracks_come_out_once_in_order_to_the_last_digit() {
    for kind in KINDS {
        let mut site = Site::start(kind).await;
        site.roles = r#"["gps", "outbox"]"#;
        let folder = tempfile::tempdir().unwrap();
        let names = TRACKS.map(|(name, _)| name);
        let gateway = gateway(&site.nats, folder.path(), &names).await;
        let _worker = site.worker().await;
        let protocols = [Protocol::V311, Protocol::V5];
        let mut count = 0;
        for ((name, csv), protocol) in TRACKS.into_iter().zip(protocols) {
            let mut device = connect(&gateway, name, protocol).await;
            let payloads: Vec<_> = lines(csv).iter().map(|line| line.payload(name)).collect();
            count += payloads.len();
            publish_all(&mut device, name, payloads).await;
        }
        let reports = site.wait_for_reports(count).await;
        assert_eq!(reports.len(), count, "{kind:?}");
        let events = site.database.events().await;
        assert_eq!(events.len(), count);
        for (name, csv) in TRACKS {
            let id = format!("track/{name}");
            let own: Vec<_> = reports
                .iter()
                .filter(|report| report.device == id)
                .collect();
            let told: Vec<_> = events
                .iter()
                .filter(|event| event.aggregate_id == id)
                .collect();
            let lines = lines(csv);
            assert_eq!((own.len(), told.len()), (lines.len(), lines.len()));
            for ((line, report), event) in lines.iter().zip(&own).zip(&told) {
                assert_eq!(report.at_ms, line.at_ms, "{kind:?}");
                let expected = [line.latitude, line.longitude, line.altitude];
                let expected = expected.map(|text| text.parse::<f64>().unwrap().to_bits());
                let altitude = report.altitude_m.unwrap();
                let found = [report.latitude, report.longitude, altitude].map(f64::to_bits);
                assert_eq!(found, expected);
                assert_eq!((report.late, report.flags, report.point), (false, 0, 0));
                assert_eq!(event.event_id, report.event_id);
                assert_eq!(event.subject, format!("gps.report.created.track.{name}"));
                let body: Value = serde_json::from_slice(&event.payload).unwrap();
                assert_eq!(body["event_id"], json!(event.event_id.to_string()));
                let data = &body["data"];
                let found = ["latitude", "longitude", "altitude_m"].map(|key| data[key].as_f64());
                assert_eq!(found.map(|number| number.unwrap().to_bits()), expected);
                assert_eq!(data["late"], json!(false));
            }
            let tables = Tables::new(site.database.pool.clone());
            let device = DeviceId::new("track", name).unwrap();
            let latest = tables.latest_of(&device).await.unwrap().unwrap();
            assert_eq!(
                Some(&latest.event_id),
                own.last().map(|last| &last.event_id)
            );
        }
        assert_eq!(site.dead_letters().await.len(), 0);
        site.assert_published(&reports).await;
    }
}

#[tokio::test]
async fn a_track_that_is_shuffled_and_repeated_is_all_there_and_says_what_is_late() {
    for kind in KINDS {
        let site = Site::start(kind).await;
        let _worker = site.worker().await;
        let sent: Vec<Sent> = lines(TRACKS[0].1)
            .iter()
            .map(|line| Sent {
                at_ms: line.at_ms,
                latitude: line.latitude.parse().unwrap(),
                longitude: line.longitude.parse().unwrap(),
            })
            .collect();
        // Every seventh, again and again, and each third of them twice: the same order each time.
        let count = sent.len();
        let shuffled = (0..7).flat_map(|start| (start..count).step_by(7));
        let order: Vec<usize> = shuffled
            .flat_map(|at| [at; 2].into_iter().take(1 + usize::from(at % 3 == 0)))
            .collect();
        for at in &order {
            site.uplink("d", &sent[*at].payload()).await;
        }
        site.wait_until_passed().await;
        let reports = site.assert_exactly_once().await;
        assert_eq!(reports.len(), order.len(), "{kind:?}");
        let mut latest: Option<i64> = None;
        let mut newest = None;
        for (at, report) in order.iter().zip(&reports) {
            let at_ms = sent[*at].at_ms;
            assert_eq!(report.late, latest.is_some_and(|latest| at_ms < latest));
            if latest.is_none_or(|latest| at_ms > latest) {
                (latest, newest) = (Some(at_ms), Some(report.event_id));
            }
        }
        assert!(reports.iter().any(|report| report.late));
        let tables = Tables::new(site.database.pool.clone());
        let device = DeviceId::new("P", "d").unwrap();
        let stored = tables.latest_of(&device).await.unwrap().unwrap();
        assert_eq!(
            (Some(stored.at_ms), Some(stored.event_id)),
            (latest, newest)
        );
        for (event, report) in site.database.events().await.iter().zip(&reports) {
            let body: Value = serde_json::from_slice(&event.payload).unwrap();
            assert_eq!(body["data"]["late"], json!(report.late));
        }
    }
}

/// What of each payload becomes of it: a row that is not the latest position, or the reason of its dead letter.
const SPOILT: [(&str, Result<&str, &str>); 10] = [
    (r#"{"latitude":91.5,"longitude":13.7}"#, Err("range")),
    // Swapped by the device: not swapped back.
    (r#"{"latitude":113.7,"longitude":45.2}"#, Err("range")),
    (r#"{"latitude":45.2,"longitude":-180.5}"#, Err("range")),
    (r#"{"latitude":"north","longitude":13.7}"#, Err("type")),
    (r#"{"latitude":45.2,"longitude":"12,5"}"#, Err("type")),
    (
        r#"{"latitude":0,"longitude":0,"time":1600000000}"#,
        Ok("no_fix"),
    ),
    (
        r#"{"latitude":0.0003,"longitude":-0.0002,"time":1600000000}"#,
        Ok("no_fix"),
    ),
    (
        r#"{"latitude":45.2,"longitude":13.7,"fix":0,"time":1600000000}"#,
        Ok("no_fix"),
    ),
    (
        r#"{"latitude":45.2,"longitude":13.7,"time":4102444800}"#,
        Ok("time_in_future"),
    ),
    (
        r#"{"latitude":45.2,"longitude":13.7,"time":"yesterday"}"#,
        Ok("no_time"),
    ),
];

#[tokio::test]
async fn spoilt_points_are_flagged_or_dead_letters_and_spoil_no_others() {
    for kind in KINDS {
        let site = Site::start(kind).await;
        let folder = tempfile::tempdir().unwrap();
        let gateway = gateway(&site.nats, folder.path(), &["d"]).await;
        let mut device = connect(&gateway, "d", Protocol::V5).await;
        let good = |number: usize| {
            format!(
                r#"{{"method":"report","params":{{"latitude":45.{number},"longitude":0,"time":{}}}}}"#,
                1_600_000_000 + number
            )
        };
        // One transaction for all of them: the worker comes afterwards.
        let mut payloads = Vec::new();
        for (number, (params, _)) in SPOILT.iter().enumerate() {
            payloads.push(good(number));
            payloads.push(format!(r#"{{"method":"report","params":{params}}}"#));
        }
        publish_all(&mut device, "d", payloads).await;
        let worker = site.worker().await;
        site.wait_until_passed().await;
        let reports = site.database.reports().await;
        let flagged = SPOILT
            .iter()
            .filter(|(_, expected)| expected.is_ok())
            .count();
        assert_eq!(reports.len(), SPOILT.len() + flagged, "{kind:?}");
        assert_eq!(site.database.events().await.len(), reports.len());
        let told: Vec<Value> = site
            .database
            .events()
            .await
            .iter()
            .map(|event| serde_json::from_slice(&event.payload).unwrap())
            .collect();
        let dead = site.dead_letters().await;
        let (mut dead, mut told) = (dead.iter(), told.iter());
        for (params, expected) in SPOILT {
            let before = told.next().unwrap();
            assert_eq!(before["data"]["flags"], json!([]));
            match expected {
                Ok(flag) => {
                    let data = &told.next().unwrap()["data"];
                    assert_eq!(data["flags"], json!([flag]), "{params}");
                }
                Err(reason) => {
                    let dead = dead.next().unwrap();
                    assert_eq!(dead.header("Jw-Reason"), reason, "{params}");
                    assert!(dead.text().contains(params));
                }
            }
        }
        assert!(dead.next().is_none());
        let tables = Tables::new(site.database.pool.clone());
        let id = DeviceId::new("track", "d").unwrap();
        let latest = tables.latest_of(&id).await.unwrap().unwrap();
        assert_eq!(latest.at_ms, (1_600_000_000 + 9) * 1_000);
        // Counted after the commit.
        for (metric, count) in [
            (r#"jetway_gps_dead_letters_total{reason="range"}"#, 3.0),
            ("jetway_gps_no_fix_total", 3.0),
            ("jetway_gps_reports_total", 15.0),
        ] {
            eventually(&format!("{metric} is {count}"), async || {
                match worker.metric(metric).await {
                    found if found == count => Ok(()),
                    found => Err(found.to_string()),
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn the_command_line_tells_the_latest_position() {
    let site = Site::start(Kind::Sqlite).await;
    let worker = site.worker().await;
    let sent = Sent {
        at_ms: 1_600_000_000_123,
        latitude: 45.273_518_851,
        longitude: -0.1,
    };
    site.uplink("d", &sent.payload()).await;
    site.wait_for_reports(1).await;
    let environment = [("JETWAY_DATABASE_URL", &*site.database.url)];
    let told = jetway(&["gps", "latest", "--device", "P/d"], &environment);
    assert_eq!(
        told,
        "P/d\t2020-09-13T12:26:40.123Z\t45.273518851\t-0.1\tWGS84\n"
    );
    let told = jetway(
        &["gps", "latest", "--device", "P/d", "--json"],
        &environment,
    );
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["latitude"], json!(45.273_518_851));
    drop(worker);
}

#[tokio::test]
async fn a_pack_has_positions_of_sub_devices_for_which_it_may_speak() {
    let site = Site::start(Kind::Sqlite).await;
    let _worker = site.worker().await;
    let of = |device: &str| {
        let params = json!({ "latitude": 45.0, "longitude": 1.0 });
        json!({ "productID": "P.1", "deviceName": device, "properties": [{ "params": params }] })
    };
    let pack = json!({ "method": "packReport", "subDevices": [of("foreign"), of("a b")] });
    let headers = [
        ("Jw-Type", "property"),
        ("Jw-Ts", "1754000000123"),
        ("Jw-Sub-Devices", "P%2E1.a%20b"),
    ];
    let subject = "device.up.mqtt.thing.P.gateway";
    site.backend
        .publish(subject, &headers, pack.to_string())
        .await;
    site.wait_until_passed().await;
    let reports = site.database.reports().await;
    let devices: Vec<_> = reports.iter().map(|report| &*report.device).collect();
    assert_eq!(devices, ["P.1/a b"]);
}
