//! The statements of the tables, one text for all databases.

use jetway::database::{Fate, fate};
use jetway::device::DeviceId;
use jetway::gps::store::{Cursor, Row, Tables, day_of};
use uuid::{Builder, Uuid};

use crate::databases::{Database, KINDS, Kind};

const DAY_MS: i64 = 86_400_000;
/// Not at the edge of a day.
const NOON_MS: i64 = 20_000 * DAY_MS + 43_200_000;

async fn tables(database: &Database) -> Tables {
    let tables = Tables::new(database.pool.clone());
    tables.migrate().await.unwrap();
    tables.migrate().await.unwrap();
    tables
        .make_room([day_of(NOON_MS)].into_iter())
        .await
        .unwrap();
    tables
}

fn row(device: &str, number: u64, at_ms: i64) -> Row {
    let received_ms = NOON_MS;
    let mut distinct = [0; 10];
    distinct[2..].copy_from_slice(&number.to_be_bytes());
    let id = Builder::from_unix_timestamp_millis(u64::try_from(received_ms).unwrap(), &distinct);
    Row {
        event_id: id.into_uuid(),
        device: DeviceId::new("P", device).unwrap(),
        at_ms,
        device_ms: Some(at_ms),
        received_ms,
        latitude: 45.273_518_851_000_004,
        longitude: -13.714_209_962_6,
        system: 2,
        altitude_m: Some(1.0 / 3.0),
        speed_mps: None,
        course_deg: Some(f64::MIN_POSITIVE),
        satellites: Some(7),
        hdop: None,
        accuracy_m: Some(0.1 + 0.2),
        flags: 33,
        late: number % 2 == 1,
        stream_created_ns: 1_764_464_348_123_456_789,
        sequence: i64::try_from(number).unwrap(),
        point: 1,
    }
}

fn cursor(sequence: i64) -> Cursor {
    Cursor {
        shards: 1,
        stream: "DEVICE_UP".to_owned(),
        created: "2026-11-30T00:59:08.123456789Z".to_owned(),
        created_ns: 1_796_000_348_123_456_789,
        sequence,
    }
}

#[tokio::test]
async fn a_row_comes_out_to_the_last_bit_and_once() {
    for kind in KINDS {
        let database = Database::new(kind).await;
        let tables = tables(&database).await;
        // More than one statement takes; names that a collation could take for the same one.
        let names = ["d", "D", "d ", "\u{e9}", "e\u{301}", "e", "'; --"];
        let rows: Vec<Row> = (1..=2_100)
            .map(|number| {
                row(
                    names[usize::try_from(number).unwrap() % names.len()],
                    number,
                    NOON_MS,
                )
            })
            .collect();
        for _ in 0..2 {
            let mut batch = tables.begin().await.unwrap();
            batch.insert(&rows).await.unwrap();
            batch.commit().await.unwrap();
        }
        let stored = database.reports().await;
        assert_eq!(stored.len(), rows.len(), "{kind:?}");
        for (stored, row) in stored.iter().zip(&rows) {
            assert_eq!(stored.event_id, row.event_id);
            assert_eq!(stored.device, row.device.to_string());
            assert_eq!(stored.latitude.to_bits(), row.latitude.to_bits());
            assert_eq!(stored.longitude.to_bits(), row.longitude.to_bits());
            assert_eq!(stored.altitude_m, row.altitude_m);
            assert_eq!((stored.late, stored.sequence), (row.late, row.sequence));
        }
        let mut ids: Vec<Uuid> = rows.iter().map(|row| row.event_id).collect();
        ids.push(Uuid::now_v7());
        let mut batch = tables.begin().await.unwrap();
        assert_eq!(batch.present(&ids).await.unwrap().len(), rows.len());
    }
}

#[tokio::test]
async fn only_a_newer_fix_moves_the_latest_position() {
    for kind in KINDS {
        let database = Database::new(kind).await;
        let tables = tables(&database).await;
        let (a, b) = (
            DeviceId::new("P", "a").unwrap(),
            DeviceId::new("P", "a ").unwrap(),
        );
        for (rows, expected) in [
            (vec![row("a", 1, 100), row("a ", 2, 5)], [1, 2]),
            // Not newer.
            (vec![row("a", 3, 100), row("a ", 4, 4)], [1, 2]),
            // One is.
            (vec![row("a", 5, 101), row("a ", 6, 5)], [5, 2]),
        ] {
            let mut batch = tables.begin().await.unwrap();
            batch
                .move_latest(&rows.iter().collect::<Vec<_>>())
                .await
                .unwrap();
            let known = batch.latest(&[&a, &b]).await.unwrap();
            assert_eq!(known.len(), 2, "{kind:?}");
            batch.commit().await.unwrap();
            for (device, number) in [&a, &b].into_iter().zip(expected) {
                let latest = tables.latest_of(device).await.unwrap().unwrap();
                let row = row(device.name(), number, latest.at_ms);
                assert_eq!(latest.event_id, row.event_id, "{kind:?} {device}");
                assert_eq!(latest.device_ms, Some(latest.at_ms));
                assert_eq!((latest.course_deg, latest.hdop), (row.course_deg, None));
            }
        }
        let nobody = DeviceId::new("P", "A").unwrap();
        assert_eq!(tables.latest_of(&nobody).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_cursor_moves_only_from_where_it_was_and_with_what_is_written() {
    for kind in KINDS {
        let database = Database::new(kind).await;
        let tables = tables(&database).await;
        assert_eq!(tables.cursor(0).await.unwrap(), None);
        let mut batch = tables.begin().await.unwrap();
        assert!(batch.advance(0, None, &cursor(5)).await.unwrap());
        batch.insert(&[row("d", 5, 0)]).await.unwrap();
        batch.rollback().await.unwrap();
        assert_eq!(tables.cursor(0).await.unwrap(), None, "{kind:?}");
        assert_eq!(database.reports().await, []);
        for (from, to, expected) in [(0, 5, true), (4, 9, false), (5, 9, true), (5, 9, false)] {
            let (before, to) = (cursor(from), cursor(to));
            let before = (from > 0).then_some(&before);
            let mut batch = tables.begin().await.unwrap();
            assert_eq!(batch.advance(0, before, &to).await.unwrap(), expected);
            batch.commit().await.unwrap();
        }
        assert_eq!(tables.cursor(0).await.unwrap(), Some(cursor(9)));
        // Another one also believes that it is the first.
        let mut batch = tables.begin().await.unwrap();
        let error = batch.advance(0, None, &cursor(5)).await.unwrap_err();
        assert_eq!(fate(&error), Fate::Duplicate, "{kind:?} {error}");
        drop(batch);
        // Of another stream of the name.
        let mut batch = tables.begin().await.unwrap();
        let mut other = cursor(9);
        other.created = "2026-11-30T00:59:08Z".to_owned();
        assert!(!batch.advance(0, Some(&other), &cursor(10)).await.unwrap());
        drop(batch);
        let mut batch = tables.begin().await.unwrap();
        assert!(batch.advance(3, None, &cursor(1)).await.unwrap());
        batch.commit().await.unwrap();
        assert_eq!(tables.cursors().await.unwrap(), [cursor(9), cursor(1)]);
    }
}

#[tokio::test]
async fn a_track_is_replaced() {
    for kind in KINDS {
        let database = Database::new(kind).await;
        let tables = tables(&database).await;
        let device = DeviceId::new("P", "\u{1f6f0} d").unwrap();
        for state in ["{}", r#"{"fences":["\u00e9","é"]}"#] {
            let mut batch = tables.begin().await.unwrap();
            let tracks = [(device.clone(), state.to_owned())];
            batch.put_tracks(&tracks).await.unwrap();
            let known = batch.tracks(&[&device]).await.unwrap();
            let expected = ("P".to_owned(), device.name().to_owned(), state.to_owned());
            assert_eq!(known, [expected], "{kind:?}");
            batch.commit().await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_too_old_goes_in_bounded_steps() {
    for kind in KINDS {
        let database = Database::new(kind).await;
        let tables = tables(&database).await;
        let days = [-2, -1, 0, 1];
        let all = days.map(|day| day_of(NOON_MS + day * DAY_MS));
        tables.make_room(all.into_iter()).await.unwrap();
        let rows: Vec<Row> = (1..=4_000)
            .map(|number: u64| {
                let day = days[usize::try_from(number).unwrap() % days.len()];
                let received_ms = NOON_MS + day * DAY_MS;
                let mut distinct = [0xff; 10];
                distinct[2..].copy_from_slice(&number.to_be_bytes());
                let ms = u64::try_from(received_ms).unwrap();
                Row {
                    event_id: Builder::from_unix_timestamp_millis(ms, &distinct).into_uuid(),
                    received_ms,
                    ..row("d", number, received_ms)
                }
            })
            .collect();
        let mut batch = tables.begin().await.unwrap();
        batch.insert(&rows).await.unwrap();
        batch.commit().await.unwrap();
        // The start of today: two whole days are older.
        let before_ms = u64::try_from(day_of(NOON_MS) * DAY_MS).unwrap();
        let mut steps = 0;
        loop {
            let count = database.reports().await.len();
            let is_more = tables.purge(before_ms).await.unwrap();
            steps += 1;
            assert!(database.reports().await.len() + 1_000 >= count, "{kind:?}");
            if !is_more {
                break;
            }
        }
        assert!((2..=3).contains(&steps), "{kind:?} {steps}");
        let stored = database.reports().await;
        assert_eq!(stored.len(), 2_000, "{kind:?}");
        let oldest = stored.iter().map(|report| report.at_ms).min();
        assert_eq!(oldest, Some(NOON_MS));
        if kind == Kind::Postgres {
            let partitions =
                "SELECT count(*) FROM pg_inherits WHERE inhparent = 'gps_report'::regclass";
            assert_eq!(database.number(partitions).await, 2);
        }
    }
}
