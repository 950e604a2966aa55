//! Events written in the transaction of what they tell about.

use sqlx::{AssertSqlSafe, Executor as _, MySqlConnection, PgConnection, SqliteConnection};

use super::Event;
use super::dialect::{CHANNEL, now, place};
use crate::database::{Kind, Transaction};
use crate::message::Headers;

/// Rows of one statement where rows are listed, at most; a power of two.
const ROWS_MAX: usize = 256;
/// Bytes of payload of such a statement, far below what a server takes; one row always fits.
const BYTES_MAX: usize = 2 * 1024 * 1024;
const COLUMNS: &str = "event_id, event_type, event_version, aggregate_type, aggregate_id, aggregate, shard, \
     subject, payload, headers, trace_id, created_at";

/// Writes events into the outbox, on a connection with a transaction that is the caller's.
///
/// They are there when it is committed and not if it is rolled back. Within an aggregate they are published in the order of their
/// ids, which the database gives out when they are written: whoever writes about the same aggregate in several transactions at once
/// has to lock something of it first (the row that the event tells about), or its order is nobody's.
pub trait Enqueue {
    /// Writes events, in this order. One whose `event_id` is there already is left out. Wake the relay behind the commit with
    /// [`Wake`](super::Wake); on PostgreSQL the commit wakes all relays besides.
    ///
    /// # Errors
    /// The database's: then the transaction cannot be committed.
    fn enqueue(&mut self, events: &[Event])
    -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

impl Enqueue for Transaction {
    async fn enqueue(&mut self, events: &[Event]) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.enqueue(events).await,
            Self::Postgres(transaction) => transaction.enqueue(events).await,
            Self::MySql(transaction) => transaction.enqueue(events).await,
        }
    }
}

impl Enqueue for PgConnection {
    async fn enqueue(&mut self, events: &[Event]) -> Result<(), sqlx::Error> {
        if events.is_empty() {
            return Ok(());
        }
        fn all<'e, T>(events: &'e [Event], column: impl FnMut(&'e Event) -> T) -> Vec<T> {
            events.iter().map(column).collect()
        }
        let places = all(events, |event| {
            place(&event.aggregate_type, &event.aggregate_id)
        });
        let aggregates: Vec<i64> = places.iter().map(|place| place.0).collect();
        let shards: Vec<i16> = places.iter().map(|place| place.1).collect();
        // One statement, whatever there is: of one text, so that it is prepared once, and the notice goes with it.
        let insert = format!(
            "WITH added AS (INSERT INTO outbox_event ({COLUMNS}) \
             SELECT event_id, event_type, event_version, aggregate_type, aggregate_id, aggregate, shard, subject, payload, headers, \
             trace_id, {now} FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
             $7::smallint[], $8::text[], $9::bytea[], $10::text[], $11::text[]) WITH ORDINALITY AS event (event_id, event_type, \
             event_version, aggregate_type, aggregate_id, aggregate, shard, subject, payload, headers, trace_id, place) \
             ORDER BY place ON CONFLICT (event_id) DO NOTHING) SELECT pg_notify('{CHANNEL}', '')",
            now = now(Kind::Postgres)
        );
        let query = sqlx::query(AssertSqlSafe(insert))
            .bind(all(events, |event| event.event_id))
            .bind(all(events, |event| &*event.event_type))
            .bind(all(events, |event| &*event.event_version))
            .bind(all(events, |event| &*event.aggregate_type))
            .bind(all(events, |event| &*event.aggregate_id))
            .bind(aggregates)
            .bind(shards)
            .bind(all(events, |event| &*event.subject))
            .bind(all(events, |event| &*event.payload))
            .bind(all(events, |event| written(&event.headers)))
            .bind(all(events, |event| &*event.trace_id));
        self.execute(query).await?;
        Ok(())
    }
}

impl Enqueue for SqliteConnection {
    async fn enqueue(&mut self, events: &[Event]) -> Result<(), sqlx::Error> {
        for (text, events) in statements(events, Kind::Sqlite) {
            let mut query = sqlx::query(AssertSqlSafe(text));
            for event in events {
                let (aggregate, shard) = place(&event.aggregate_type, &event.aggregate_id);
                query = query
                    .bind(event.event_id)
                    .bind(&*event.event_type)
                    .bind(&*event.event_version)
                    .bind(&*event.aggregate_type)
                    .bind(&*event.aggregate_id)
                    .bind(aggregate)
                    .bind(shard)
                    .bind(&*event.subject)
                    .bind(&*event.payload)
                    .bind(written(&event.headers))
                    .bind(&*event.trace_id);
            }
            self.execute(query).await?;
        }
        Ok(())
    }
}

impl Enqueue for MySqlConnection {
    async fn enqueue(&mut self, events: &[Event]) -> Result<(), sqlx::Error> {
        for (text, events) in statements(events, Kind::MySql) {
            let mut query = sqlx::query(AssertSqlSafe(text));
            for event in events {
                let (aggregate, shard) = place(&event.aggregate_type, &event.aggregate_id);
                query = query
                    .bind(event.event_id)
                    .bind(&*event.event_type)
                    .bind(&*event.event_version)
                    .bind(&*event.aggregate_type)
                    .bind(&*event.aggregate_id)
                    .bind(aggregate)
                    .bind(shard)
                    .bind(&*event.subject)
                    .bind(&*event.payload)
                    .bind(written(&event.headers))
                    .bind(&*event.trace_id);
            }
            self.execute(query).await?;
        }
        Ok(())
    }
}

/// The events cut into statements. Their sizes are powers of two, so that there are few texts, which connections keep prepared.
fn statements(mut events: &[Event], kind: Kind) -> impl Iterator<Item = (String, &[Event])> {
    std::iter::from_fn(move || {
        let mut count = ROWS_MAX;
        let bytes = |events: &[Event]| {
            events
                .iter()
                .map(|event| event.payload.len())
                .sum::<usize>()
        };
        while count > 1
            && events
                .get(..count)
                .is_none_or(|part| bytes(part) > BYTES_MAX)
        {
            count /= 2;
        }
        let (part, rest) = events.split_at_checked(count)?;
        events = rest;
        let row = format!("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {})", now(kind));
        let rows = vec![row; count].join(", ");
        // IGNORE would forgive whatever else is wrong with a row.
        let known = match kind {
            Kind::MySql => "ON DUPLICATE KEY UPDATE event_id = outbox_event.event_id",
            Kind::Sqlite | Kind::Postgres => "ON CONFLICT (event_id) DO NOTHING",
        };
        let text = format!("INSERT INTO outbox_event ({COLUMNS}) VALUES {rows} {known}");
        Some((text, part))
    })
}

/// Headers as the table has them: a JSON array of pairs, empty for none.
fn written(headers: &Headers) -> String {
    let pairs: Vec<_> = headers.iter().collect();
    match pairs.is_empty() {
        true => String::new(),
        // Pairs of texts always serialise.
        false => serde_json::to_string(&pairs).unwrap_or_default(),
    }
}

/// The same read back; none for what is no such array.
pub(super) fn read(text: &str) -> Option<Headers> {
    let mut headers = Headers::default();
    if !text.is_empty() {
        let pairs: Vec<(String, String)> = serde_json::from_str(text).ok()?;
        for (name, value) in pairs {
            headers.push(name, value);
        }
    }
    Some(headers)
}
