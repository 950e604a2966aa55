//! GPS history as the workers leave it: rows, cursors, and the outbox beside them; and the recorded tracks.

use std::path::Path;

use jetway::database::{Config, Pool, Transaction};
use jetway::device::DeviceId;
use jetway::gps::store::{Cursor, Row, Tables, day_of};
use jetway::outbox::store::Store as Outbox;
use serde_json::Value;
use sqlx::Row as _;
use uuid::Uuid;

const CREATED_NS: i64 = 1_796_000_348_123_456_789;
/// When all is received, whenever it was.
const RECEIVED_MS: i64 = 1_796_000_400_000;

/// A point of a track.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) at_ms: i64,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
}

/// A recorded track, in the order of its times.
pub(crate) fn track(name: &str) -> Vec<Point> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/gps/tracks/{name}.csv"));
    let text = std::fs::read_to_string(file).unwrap();
    let point = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Point {
            at_ms: unix_ms(fields[0]),
            latitude: fields[1].parse().unwrap(),
            longitude: fields[2].parse().unwrap(),
        }
    };
    text.lines().skip(1).map(point).collect()
}

/// `2010-10-03T09:36:30Z`, without the calendar of the code that is tested.
fn unix_ms(text: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_years: i64 = (1970..year)
        .map(|year| 365 + i64::from(is_leap(year)))
        .sum();
    let lengths = [
        31,
        28 + i64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let months = usize::try_from(month - 1).unwrap();
    let days = days_of_years + lengths[..months].iter().sum::<i64>() + day - 1;
    ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60_000 + number(17..19) * 1_000
}

/// Metres between two points by their chord through a sphere: another formula than the one that is tested.
pub(crate) fn metres(from: &Point, to: &Point) -> f64 {
    let vector = |point: &Point| {
        let (a, b) = (point.latitude.to_radians(), point.longitude.to_radians());
        [a.cos() * b.cos(), a.cos() * b.sin(), a.sin()]
    };
    let (from, to) = (vector(from), vector(to));
    let square: f64 = from.iter().zip(&to).map(|(a, b)| (a - b).powi(2)).sum();
    2.0 * 6_371_008.8 * (square.sqrt() / 2.0).asin()
}

/// The tables, and how far they are filled.
pub(crate) struct History {
    pub(crate) pool: Pool,
    tables: Tables,
    sequence: i64,
}

impl History {
    pub(crate) async fn new(config: &Config) -> Self {
        let pool = Pool::open(config).await.unwrap();
        let tables = Tables::new(pool.clone());
        tables.migrate().await.unwrap();
        Outbox::open(pool.clone()).await.unwrap();
        let days = [day_of(RECEIVED_MS)];
        tables.make_room(days.into_iter()).await.unwrap();
        Self {
            pool,
            tables,
            sequence: 0,
        }
    }

    /// A report in a message of its own.
    pub(crate) fn row(&mut self, device: &str, point: &Point, speed_mps: Option<f64>) -> Row {
        self.sequence += 1;
        Row {
            event_id: Uuid::now_v7(),
            device: DeviceId::new("P", device).unwrap(),
            at_ms: point.at_ms,
            device_ms: Some(point.at_ms),
            received_ms: RECEIVED_MS,
            latitude: point.latitude,
            longitude: point.longitude,
            system: 0,
            altitude_m: None,
            speed_mps,
            course_deg: None,
            satellites: None,
            hdop: None,
            accuracy_m: None,
            flags: 0,
            late: false,
            stream_created_ns: CREATED_NS,
            sequence: self.sequence,
            point: 0,
        }
    }

    /// Writes rows; a cursor does not move.
    pub(crate) async fn insert(&self, rows: &[Row]) {
        let mut batch = self.tables.begin().await.unwrap();
        batch.insert(rows).await.unwrap();
        batch.commit().await.unwrap();
    }

    /// Moves the cursor of one of so many shards to a sequence.
    pub(crate) async fn advance(&self, shard: i32, shards: i32, sequence: i64) {
        let from = self.tables.cursor(shard).await.unwrap();
        let to = Cursor {
            shards,
            stream: "DEVICE_UP".to_owned(),
            created: "2026-11-30T00:59:08.123456789Z".to_owned(),
            created_ns: CREATED_NS,
            sequence,
        };
        let mut batch = self.tables.begin().await.unwrap();
        assert!(batch.advance(shard, from.as_ref(), &to).await.unwrap());
        batch.commit().await.unwrap();
    }

    /// Writes rows, and the only shard is that far.
    pub(crate) async fn write(&self, rows: &[Row]) {
        self.insert(rows).await;
        self.advance(0, 1, self.sequence).await;
    }

    /// The bodies of all events of a kind, in the order of the outbox.
    pub(crate) async fn events(&self, kind: &str) -> Vec<Value> {
        let bodies = cells(&self.pool, "SELECT payload FROM outbox_event ORDER BY id").await;
        let bodies = bodies
            .iter()
            .map(|body| serde_json::from_slice(body).unwrap());
        bodies
            .filter(|body: &Value| body["event_name"] == kind)
            .collect()
    }

    /// Revision, points and metres of all windows, in the order of their times.
    pub(crate) async fn summaries(&self) -> Vec<(i64, i64, f64)> {
        const SELECT: &str = "SELECT revision, points, distance_m FROM gps_summary \
             ORDER BY product_id, device_name, window_start_ms";
        match &self.pool {
            Pool::Sqlite(pool) => sqlx::query_as(SELECT).fetch_all(pool).await,
            Pool::Postgres(pool) => sqlx::query_as(SELECT).fetch_all(pool).await,
            Pool::MySql(pool) => sqlx::query_as(SELECT).fetch_all(pool).await,
        }
        .unwrap()
    }
}

/// The bytes of the first column.
async fn cells(pool: &Pool, select: &'static str) -> Vec<Vec<u8>> {
    match pool.begin().await.unwrap() {
        Transaction::Sqlite(mut on) => {
            let rows = sqlx::query(select).fetch_all(&mut *on).await.unwrap();
            rows.iter()
                .map(|row| row.try_get_unchecked(0).unwrap())
                .collect()
        }
        Transaction::Postgres(mut on) => {
            let rows = sqlx::query(select).fetch_all(&mut *on).await.unwrap();
            rows.iter()
                .map(|row| row.try_get_unchecked(0).unwrap())
                .collect()
        }
        Transaction::MySql(mut on) => {
            let rows = sqlx::query(select).fetch_all(&mut *on).await.unwrap();
            rows.iter()
                .map(|row| row.try_get_unchecked(0).unwrap())
                .collect()
        }
    }
}
