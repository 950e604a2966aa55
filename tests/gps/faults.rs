//! Databases that refuse, fail in the middle, are killed, silent or full: nothing is half-written, and only reports wait.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{Connection as _, MySqlConnection, PgConnection};
use tempfile::TempDir;

use crate::databases::{Database, KINDS, Kind};
use crate::site::{Sent, Site};
use crate::support::{
    Device, Gateway, MariaDb, Postgres, Protocol, RunOptions, eventually, lasting,
};

/// What a PUBACK may take while the database is away: it never waits for one.
const PUBACK_MAX: Duration = Duration::from_secs(10);
/// Longer than any statement takes that is answered at all.
const FAULT: Duration = Duration::from_secs(2);

fn sent(number: i64) -> Sent {
    Sent {
        at_ms: 1_600_000_000_000 + number * 1_000,
        latitude: 45.0 + f64::from(i32::try_from(number).unwrap()) / 1e5,
        longitude: 13.714_209_962_6,
    }
}

async fn restarted(worker: &Gateway, times: f64) {
    let metric = "jetway_gps_restarts_total";
    let before = worker.metric(metric).await;
    eventually("the worker tries again", async || {
        match worker.metric(metric).await {
            now if now >= before + times => Ok(()),
            now => Err(format!("{now} restarts, {before} before")),
        }
    })
    .await;
}

/// Of what a transaction writes: reports, events, the cursor, the sum of the latest times, tracks.
async fn written(database: &Database, without: &str) -> Vec<i64> {
    let mut all = Vec::new();
    for (table, query) in [
        ("gps_report", "SELECT COUNT(*) FROM gps_report"),
        ("outbox_event", "SELECT COUNT(*) FROM outbox_event"),
        (
            "gps_cursor",
            "SELECT COALESCE(MAX(sequence), 0) FROM gps_cursor",
        ),
        (
            "gps_latest",
            "SELECT COALESCE(MAX(at_ms), 0) FROM gps_latest",
        ),
        ("gps_track", "SELECT COUNT(*) FROM gps_track"),
    ] {
        if table != without {
            all.push(database.number(query).await);
        }
    }
    all
}

#[tokio::test]
async fn a_fault_at_any_statement_leaves_nothing_half_written() {
    for kind in KINDS {
        let mut site = Site::start(kind).await;
        let trip = ("JETWAY_GPS_TRIP", "{ move_m = 1e6 }");
        site.environment = vec![(trip.0.to_owned(), trip.1.to_owned())];
        let worker = site.worker().await;
        let mut number = 0;
        for table in [
            "gps_cursor",
            "gps_latest",
            "gps_track",
            "gps_report",
            "outbox_event",
        ] {
            let next = number + 3;
            for number in number..next {
                site.uplink("d", &sent(number).payload()).await;
            }
            site.wait_until_passed().await;
            let before = written(&site.database, table).await;
            // The statement for it fails then, behind those that came before it.
            site.database
                .execute(&format!("ALTER TABLE {table} RENAME TO away"))
                .await;
            for number in next..next + 3 {
                site.uplink(&format!("new-{table}"), &sent(number).payload())
                    .await;
            }
            restarted(&worker, 2.0).await;
            assert_eq!(
                written(&site.database, table).await,
                before,
                "{kind:?} without {table}"
            );
            site.database
                .execute(&format!("ALTER TABLE away RENAME TO {table}"))
                .await;
            site.wait_until_passed().await;
            site.assert_exactly_once().await;
            number = next + 3;
        }
    }
}

#[tokio::test]
async fn a_fault_at_the_commit_leaves_nothing_half_written() {
    let site = Site::start(Kind::Postgres).await;
    let worker = site.worker().await;
    site.uplink("d", &sent(0).payload()).await;
    site.wait_until_passed().await;
    let before = written(&site.database, "").await;
    site.database
        .execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'at the commit' USING ERRCODE = '57014'; END $$; \
             CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON outbox_event DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION fail()",
        )
        .await;
    site.uplink("d", &sent(1).payload()).await;
    restarted(&worker, 2.0).await;
    assert_eq!(written(&site.database, "").await, before);
    site.database
        .execute("DROP TRIGGER fail ON outbox_event")
        .await;
    site.wait_until_passed().await;
    assert_eq!(site.assert_exactly_once().await.len(), 2);
}

/// Lets the database refuse every report at this latitude.
async fn refuse(database: &Database, latitude: f64) {
    let statement = match database.kind {
        Kind::Sqlite => format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON gps_report WHEN NEW.latitude = {latitude} \
             BEGIN SELECT RAISE(ABORT, 'not that one'); END"
        ),
        Kind::Postgres | Kind::MariaDb => {
            format!("ALTER TABLE gps_report ADD CONSTRAINT refuse CHECK (latitude <> {latitude})")
        }
    };
    database.execute(&statement).await;
}

#[tokio::test]
async fn what_the_database_refuses_is_a_dead_letter_and_all_others_are_written() {
    const BAD: f64 = 66.5;
    for kind in KINDS {
        let site = Site::start(kind).await;
        // The tables are made by a worker's first look.
        let first = site.worker().await;
        site.uplink("d", &sent(0).payload()).await;
        site.wait_for_reports(1).await;
        drop(first);
        refuse(&site.database, BAD).await;
        for number in 1..200 {
            let latitude = if number % 90 == 0 { BAD } else { 45.0 };
            let sent = Sent {
                latitude,
                ..sent(number)
            };
            site.uplink("d", &sent.payload()).await;
        }
        let point = |latitude: f64, number: i64| json!({ "timestamp": sent(number).at_ms, "params": { "latitude": latitude, "longitude": 1 } });
        let pack = json!({
            "method": "packReport",
            "properties": [point(1.0, 300), point(BAD, 301), point(2.0, 302)],
        });
        let pack = site.uplink("d", &pack.to_string()).await;
        let _worker = site.worker().await;
        site.wait_until_passed().await;
        let reports = site.database.reports().await;
        assert_eq!(reports.len(), 200 - 2 + 2, "{kind:?}");
        assert!(reports.iter().all(|report| report.latitude != BAD));
        assert_eq!(site.database.events().await.len(), reports.len());
        let dead = site.dead_letters().await;
        let told: Vec<_> = dead
            .iter()
            .map(|dead| {
                (
                    dead.header("Jw-Reason"),
                    dead.header("Jw-Sequence").parse().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [("refused", 91), ("refused", 181), ("refused", pack)],
            "{kind:?}"
        );
    }
}

/// A server of the test's own, whichever it is.
enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

impl Server {
    /// Takes few connections.
    async fn start(kind: Kind) -> Self {
        match kind {
            Kind::MariaDb => Self::MariaDb(MariaDb::start_with(&["--max-connections=12"]).await),
            Kind::Sqlite | Kind::Postgres => {
                let settings = [
                    "fsync=off",
                    "max_connections=16",
                    "superuser_reserved_connections=0",
                ];
                Self::Postgres(Postgres::start_with(&settings).await)
            }
        }
    }

    async fn database(&self, kind: Kind) -> Database {
        let url = match self {
            Self::Postgres(server) => server.database("gps").await,
            Self::MariaDb(server) => server.database("gps").await,
        };
        Database::at(kind, url, None).await
    }

    async fn pause(&self) {
        match self {
            Self::Postgres(server) => server.pause().await,
            Self::MariaDb(server) => server.pause().await,
        }
    }

    fn resume(&self) {
        match self {
            Self::Postgres(server) => server.resume(),
            Self::MariaDb(server) => server.resume(),
        }
    }

    async fn kill9(&self) {
        match self {
            Self::Postgres(server) => server.kill9().await,
            Self::MariaDb(server) => server.kill9().await,
        }
    }

    async fn restart(&self) {
        match self {
            Self::Postgres(server) => server.restart().await,
            Self::MariaDb(server) => server.restart().await,
        }
    }
}

/// A gateway whose workers make events and write reports, and a device of it that reports all the time.
struct Running {
    site: Site,
    gateway: Gateway,
    _events: Gateway,
    device: Device,
    topic: String,
    number: i64,
    _folder: TempDir,
}

impl Running {
    async fn start(database: Database) -> Self {
        let site = Site::with(database).await;
        let folder = tempfile::tempdir().unwrap();
        let environment = |roles: &str| {
            let own = [
                ("JETWAY_ROLES", roles),
                ("JETWAY_GPS_PAST_MAX_S", "3000000000"),
            ];
            own.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec()
        };
        // Devices log in by a database of their own here; reports and events are beside each other in one process.
        let gateway = Gateway::run(RunOptions {
            nats_url: site.nats.url(),
            database_url: format!("sqlite:{}", folder.path().join("devices.db").display()),
            environment: environment(r#"["gateway"]"#),
            ..RunOptions::default()
        })
        .await;
        let events = Gateway::run(RunOptions {
            nats_url: site.nats.url(),
            database_url: site.database.url.clone(),
            environment: environment(r#"["events", "gps"]"#),
            ..RunOptions::default()
        })
        .await;
        let who = gateway.add_devices("d", 1).remove(0);
        let topic = format!("$thing/up/property/{}/{}", who.product, who.name);
        let device = Device::connect(Protocol::V5, gateway.mqtt(), &who.credentials).await;
        Self {
            site,
            gateway,
            _events: events,
            device,
            topic,
            number: 0,
            _folder: folder,
        }
    }

    /// Reports so often, each acknowledged in time, and with its event.
    async fn report(&mut self, count: i64) {
        for _ in 0..count {
            let begun = Instant::now();
            let payload = sent(self.number).payload();
            assert_eq!(self.device.publish_acked(&self.topic, payload).await, 0);
            assert!(begun.elapsed() < PUBACK_MAX, "{:?}", begun.elapsed());
            self.number += 1;
        }
        let count = usize::try_from(self.number).unwrap();
        self.site
            .backend
            .wait_for("APPLICATION", "application.device.>", count)
            .await;
    }

    /// Everything that was reported is there in the end, once.
    async fn end(self) {
        self.site.wait_until_passed().await;
        let reports = self.site.assert_exactly_once().await;
        assert_eq!(i64::try_from(reports.len()).unwrap(), self.number);
        let readiness = self.gateway.get("/readyz").await;
        assert_eq!(readiness.0, 200, "{readiness:?}");
    }
}

#[tokio::test]
async fn a_database_that_is_killed_keeps_nobody_waiting_but_reports() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = Server::start(kind).await;
        let mut running = Running::start(server.database(kind).await).await;
        running.report(5).await;
        server.kill9().await;
        running.report(20).await;
        lasting(FAULT).await;
        server.restart().await;
        running.report(5).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_database_that_is_silent_keeps_nobody_waiting_but_reports() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = Server::start(kind).await;
        let mut running = Running::start(server.database(kind).await).await;
        running.report(5).await;
        running.site.wait_until_passed().await;
        server.pause().await;
        running.report(20).await;
        lasting(FAULT).await;
        server.resume();
        running.report(5).await;
        running.end().await;
    }
}

#[tokio::test]
async fn a_database_that_is_away_at_the_start_is_waited_for() {
    let server = Server::start(Kind::Postgres).await;
    let database = server.database(Kind::Postgres).await;
    server.kill9().await;
    let mut running = Running::start(database).await;
    running.report(10).await;
    server.restart().await;
    running.end().await;
}

#[tokio::test]
async fn connections_that_others_have_taken_keep_nobody_waiting_but_reports() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = Server::start(kind).await;
        let database = server.database(kind).await;
        let url = database.url.clone();
        let mut running = Running::start(database).await;
        running.report(5).await;
        // All connections are gone, and others take every one.
        server.restart().await;
        let mut taken = Vec::new();
        loop {
            let connection: Box<dyn std::any::Any> = match kind {
                Kind::MariaDb => match MySqlConnection::connect(&url).await {
                    Ok(connection) => Box::new(connection),
                    Err(_full) => break,
                },
                Kind::Sqlite | Kind::Postgres => match PgConnection::connect(&url).await {
                    Ok(connection) => Box::new(connection),
                    Err(_full) => break,
                },
            };
            taken.push(connection);
        }
        assert!(taken.len() > 3, "{kind:?}");
        running.report(10).await;
        lasting(FAULT).await;
        drop(taken);
        running.report(5).await;
        running.end().await;
    }
}
