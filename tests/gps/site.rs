//! One nats-server, one database, workers beside them, and what must have become of all uplinks in the end.

use std::collections::HashMap;

use jetway::schema;
use serde_json::{Value, json};

use crate::databases::{Database, Kind, Report};
use crate::support::{Backend, Gateway, NatsServer, RunOptions, Stored, eventually};

/// Longer than any track is old.
const PAST_MAX_S: &str = "3000000000";

pub(crate) struct Site {
    pub(crate) backend: Backend,
    pub(crate) nats: NatsServer,
    pub(crate) database: Database,
    /// Of every worker.
    pub(crate) environment: Vec<(String, String)>,
    /// What every worker's process does.
    pub(crate) roles: &'static str,
}

/// A report as a test sends it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    pub(crate) at_ms: i64,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
}

impl Sent {
    /// The payload that a device would send.
    pub(crate) fn payload(&self) -> String {
        let Self {
            at_ms,
            latitude,
            longitude,
        } = self;
        json!({
            "method": "report", "msgToken": "t", "timestamp": at_ms,
            "params": { "latitude": latitude, "longitude": longitude },
        })
        .to_string()
    }
}

impl Site {
    /// A server and an empty database, without a worker.
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::with(Database::new(kind).await).await
    }

    /// The same with a database of the test's own.
    pub(crate) async fn with(database: Database) -> Self {
        let nats = NatsServer::start().await;
        Self {
            backend: Backend::connect(&nats.url()).await,
            nats,
            database,
            environment: Vec::new(),
            roles: r#"["gps"]"#,
        }
    }

    /// A worker's process; returns when it is ready.
    pub(crate) async fn worker(&self) -> Gateway {
        let own = [
            ("JETWAY_ROLES", self.roles),
            ("JETWAY_GPS_LEASE_MS", "1000"),
            ("JETWAY_GPS_PAST_MAX_S", PAST_MAX_S),
            // What tests store was received at a time of their own.
            ("JETWAY_GPS_RETENTION_S", "0"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Gateway::run(RunOptions {
            nats_url: self.nats.url(),
            database_url: self.database.url.clone(),
            environment: own.into_iter().chain(self.environment.clone()).collect(),
            ..RunOptions::default()
        })
        .await
    }

    /// Stores a device's property message as a gateway does; gives its sequence.
    pub(crate) async fn uplink(&self, device: &str, payload: &str) -> u64 {
        uplink(&self.backend, device, payload).await
    }

    /// Waits until the cursor is at the end of the uplink stream.
    pub(crate) async fn wait_until_passed(&self) {
        let uplinks = Box::pin(self.backend.stream("DEVICE_UP")).await;
        let last = i64::try_from(uplinks.cached_info().state.last_sequence).unwrap();
        eventually(&format!("the cursor is at {last}"), async || {
            let cursor = "SELECT COALESCE(MAX(sequence), 0) FROM gps_cursor";
            match self.database.try_number(cursor).await {
                Ok(at) if at >= last => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits until there are so many reports, and gives all.
    pub(crate) async fn wait_for_reports(&self, count: usize) -> Vec<Report> {
        eventually(&format!("{count} reports"), async || {
            match self.database.try_reports().await {
                Ok(reports) if reports.len() >= count => Ok(reports),
                Ok(reports) => Err(format!("{} reports", reports.len())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// All dead letters in order.
    pub(crate) async fn dead_letters(&self) -> Vec<Stored> {
        self.backend.messages("DLQ", "dlq.gps.>").await
    }

    /// Every uplink has its row and its outbox row once, in its device's order, or its dead letter once; gives the rows.
    pub(crate) async fn assert_exactly_once(&self) -> Vec<Report> {
        let uplinks = self.backend.messages("DEVICE_UP", ">").await;
        let reports = self.database.reports().await;
        let mut by_sequence: HashMap<u64, &Report> = HashMap::new();
        for report in &reports {
            let sequence = u64::try_from(report.sequence).unwrap();
            let twice = by_sequence.insert(sequence, report);
            assert_eq!(twice, None, "written twice");
        }
        let mut bad = Vec::new();
        for uplink in &uplinks {
            let body: Value = serde_json::from_slice(&uplink.payload).unwrap();
            let (latitude, longitude) = (&body["params"]["latitude"], &body["params"]["longitude"]);
            let good = latitude.as_f64().zip(longitude.as_f64());
            let good = good.filter(|(latitude, _)| latitude.abs() <= 90.0);
            let report = by_sequence.remove(&uplink.sequence);
            match (good, report) {
                (Some(good), Some(report)) => {
                    assert_eq!((report.latitude, report.longitude), good);
                    assert_eq!(Some(report.at_ms), body["timestamp"].as_i64());
                }
                (None, None) => bad.push(uplink.sequence),
                (good, report) => panic!("{good:?} gave {report:?}"),
            }
        }
        assert_eq!(by_sequence.len(), 0, "of no uplink: {by_sequence:?}");
        let dead = self.dead_letters().await;
        let dead = dead
            .iter()
            .map(|dead| dead.header("Jw-Sequence").parse().unwrap());
        let mut dead: Vec<u64> = dead.collect();
        dead.sort_unstable();
        assert_eq!(dead, bad);
        self.assert_outbox(&reports).await;
        reports
    }

    /// The relays have published the event of each report once, in the order of each device.
    pub(crate) async fn assert_published(&self, reports: &[Report]) {
        eventually("the outbox is empty", async || {
            let left = "SELECT COUNT(*) FROM outbox_event WHERE status <> 'published'";
            match self.database.try_number(left).await {
                Ok(0) => Ok(()),
                left => Err(format!("{left:?}")),
            }
        })
        .await;
        let stored = self.backend.messages("GPS", "gps.report.created.>").await;
        let sequences: HashMap<_, _> = reports
            .iter()
            .map(|report| (report.event_id.to_string(), report.sequence))
            .collect();
        assert_eq!(stored.len(), reports.len());
        let mut last = HashMap::new();
        for event in &stored {
            let sequence = sequences[event.header("Nats-Msg-Id")];
            let before = last.insert(event.subject.clone(), sequence).unwrap_or(0);
            assert!(
                before < sequence,
                "{}: {before} before {sequence}",
                event.subject
            );
        }
    }

    /// The outbox has the event of each report once, in the order of each device.
    async fn assert_outbox(&self, reports: &[Report]) {
        let events = self.database.events().await;
        let sequences: HashMap<_, _> = reports
            .iter()
            .map(|report| (report.event_id, report.sequence))
            .collect();
        assert_eq!(events.len(), reports.len());
        let mut last = HashMap::new();
        for event in events {
            let sequence = sequences[&event.event_id];
            let before = last
                .insert(event.aggregate_id.clone(), sequence)
                .unwrap_or(0);
            assert!(before < sequence, "{event:?}: {before} before {sequence}");
        }
    }
}

/// An event is as its schema says.
pub(crate) fn assert_schema(event: &Value) {
    let schema = schema::all().iter().find(|schema| {
        event["event_name"] == *schema.event && event["event_version"] == *schema.version
    });
    let schema = schema.unwrap_or_else(|| panic!("no schema: {event}"));
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema.json)
        .unwrap();
    let wrong = validator.iter_errors(event);
    let wrong: Vec<String> = wrong.map(|wrong| wrong.to_string()).collect();
    assert!(wrong.is_empty(), "{event}: {wrong:?}");
}

/// Stores a device's property message through a connection of one's own.
pub(crate) async fn uplink(backend: &Backend, device: &str, payload: &str) -> u64 {
    let subject = format!("device.up.mqtt.thing.P.{device}");
    let headers = [
        ("Jw-Type", "property"),
        ("Jw-Ts", "1754000000123"),
        ("Jw-Qos", "1"),
    ];
    backend
        .publish(&subject, &headers, payload.to_owned())
        .await
}
