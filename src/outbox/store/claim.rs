//! Rows taken by a relay, for as long as its lease lasts.
//!
//! Rows of a shard are claimed in the order of their ids: first those of lanes whose time has come, then those that are ready. A
//! ready row whose aggregate is a lane goes there instead of into the claim, and no claim sees it again before its turn: so each
//! row behind one that fails costs one look, however often that one is tried.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::dialect::{all, list, look, now, on, run};
use super::{Event, Row, Store, enqueue};
use crate::database::{Kind, Transaction};
use crate::telemetry;

/// Lanes of one claim, at most.
const LANES_MAX: usize = 32;
/// Looks at ready rows within one claim, as long as all that is found goes into lanes.
const LOOKS_MAX: usize = 16;
const COLUMNS: &str = "e.id, e.event_id, e.event_type, e.event_version, e.aggregate_type, e.aggregate_id, e.subject, e.payload, \
     e.headers, e.trace_id, e.tried_at, e.attempts, e.created_at, e.aggregate, e.shard";

/// How much a claim takes, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Rows, at most.
    pub rows_max: usize,
    /// Shards, at most: others are left to others.
    pub shards_max: usize,
    /// After it somebody else may take the rows.
    pub lease: Duration,
}

/// Rows that nobody else has in hand until the lease ends.
#[derive(Debug)]
pub struct Claim {
    /// The rows, those of an aggregate in their order. There may be none although there is more to claim.
    pub rows: Vec<Row>,
    /// The lease ends here at the earliest.
    pub until: Instant,
    pub(super) kept: Vec<Kept>,
    pub(super) owner: String,
    pub(super) shards: Vec<i16>,
}

/// What settling needs to know of a row.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) aggregate: i64,
    pub(super) shard: i16,
    pub(super) attempts: i32,
    pub(super) is_lane: bool,
    /// How long it had waited, in milliseconds.
    pub(super) age_ms: i64,
}

#[derive(sqlx::FromRow)]
struct Found {
    id: i64,
    event_id: Uuid,
    event_type: String,
    event_version: String,
    aggregate_type: String,
    aggregate_id: String,
    subject: String,
    payload: Vec<u8>,
    headers: String,
    trace_id: String,
    tried_at: Option<i64>,
    attempts: i32,
    created_at: i64,
    aggregate: i64,
    shard: i16,
    /// When its lane's time comes; none if its aggregate is no lane.
    lane: Option<i64>,
}

/// Shards that were locked, at this time of the database and of this process.
struct Locked {
    shards: Vec<i16>,
    now: i64,
    here: i64,
}

impl Store {
    /// Takes rows; none when there are none that may go out now.
    ///
    /// # Errors
    /// The database's: then nothing is taken, or it is given back when the lease ends.
    pub async fn claim(&self, terms: &Terms) -> Result<Option<Claim>, sqlx::Error> {
        let candidates = self.candidates(terms.shards_max).await?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let until = Instant::now() + terms.lease;
        let kind = self.pool.kind();
        let mut transaction = self.pool.begin().await?;
        let Some(locked) = lock(&mut transaction, kind, &candidates).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let mut found = lanes(&mut transaction, kind, &locked, terms.rows_max / 2).await?;
        // Each lane that is due gives one row at least, so there may be more than was asked for.
        let rest = terms.rows_max.saturating_sub(found.len());
        found.extend(ready(&mut transaction, kind, &locked, rest).await?);
        let owner = format!("{:016x}", telemetry::random_u64());
        let claim = claim(found, owner, &locked, until);
        mark(&mut transaction, &claim, &locked, terms.lease).await?;
        transaction.commit().await?;
        Ok(Some(claim))
    }

    /// Shards that have something to do and are nobody's, those first that have waited longest.
    async fn candidates(&self, shards_max: usize) -> Result<Vec<i16>, sqlx::Error> {
        let text = candidates(self.pool.kind(), shards_max);
        let shards = look::<(i16,)>(&self.pool, text).await?;
        Ok(shards.into_iter().map(|(shard,)| shard).collect())
    }
}

/// Each probe takes the first entry of an index, and cannot be turned into a scan of all.
pub(super) fn candidates(kind: Kind, shards_max: usize) -> String {
    let now = now(kind);
    format!(
        "SELECT s.shard FROM outbox_shard s WHERE s.shard >= 0 AND s.lease_until <= {now} AND (s.lease_owner IS NOT NULL \
         OR (SELECT e.id FROM outbox_event e WHERE e.shard = s.shard AND e.status = 'pending' AND e.held = 0 ORDER BY e.id LIMIT 1) \
         IS NOT NULL \
         OR (SELECT l.due_at FROM outbox_lane l WHERE l.shard = s.shard ORDER BY l.due_at LIMIT 1) <= {now}) \
         ORDER BY s.lease_until LIMIT {shards_max}"
    )
}

/// Locks those of the shards that are still nobody's; what a relay left in them that does not live any more is anybody's again.
async fn lock(
    transaction: &mut Transaction,
    kind: Kind,
    candidates: &[i16],
) -> Result<Option<Locked>, sqlx::Error> {
    let now = now(kind);
    let wait = match kind {
        // The whole database is locked.
        Kind::Sqlite => "",
        Kind::Postgres | Kind::MySql => "FOR UPDATE SKIP LOCKED",
    };
    let shards = list(candidates.iter().copied());
    let text = format!(
        "SELECT shard, lease_owner, {now} AS now_ms FROM outbox_shard WHERE shard IN ({shards}) AND lease_until <= {now} {wait}"
    );
    let found: Vec<(i16, Option<String>, i64)> = all(transaction, text).await?;
    let here = i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX);
    let Some((_, _, now)) = found.first() else {
        return Ok(None);
    };
    let now = *now;
    let left = found.iter().filter(|(_, owner, _)| owner.is_some());
    let left = list(left.map(|(shard, ..)| *shard));
    let text = self::left(&left);
    let left: Vec<(i64,)> = all(transaction, text).await?;
    if !left.is_empty() {
        let ids = list(left.into_iter().map(|(id,)| id));
        let text = format!(
            "UPDATE outbox_event SET status = 'pending', lease_owner = NULL, lease_until = NULL WHERE id IN ({ids})"
        );
        run(transaction, text).await?;
    }
    let shards = found.into_iter().map(|(shard, ..)| shard).collect();
    Ok(Some(Locked { shards, now, here }))
}

/// Rows that are in hand of nobody, as the lease of these shards is over.
pub(super) fn left(shards: &str) -> String {
    // Both values are named for MySQL, whose index has them before the shard.
    format!(
        "SELECT id FROM outbox_event WHERE shard IN ({shards}) AND status = 'sending' AND held IN (0, 1)"
    )
}

/// Rows of lanes whose time has come; a lane that is empty is none any more.
async fn lanes(
    transaction: &mut Transaction,
    kind: Kind,
    locked: &Locked,
    rows_max: usize,
) -> Result<Vec<Found>, sqlx::Error> {
    let shards = list(locked.shards.iter().copied());
    let text = format!(
        "SELECT aggregate FROM outbox_lane WHERE shard IN ({shards}) AND due_at <= {} ORDER BY due_at LIMIT {LANES_MAX}",
        locked.now
    );
    let due: Vec<(i64,)> = all(transaction, text).await?;
    let due: Vec<i64> = due.into_iter().map(|(aggregate,)| aggregate).collect();
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let each = (rows_max / due.len()).max(1);
    let found = select(transaction, held(kind, due.len(), each), &due).await?;
    let empty = due
        .iter()
        .filter(|lane| !found.iter().any(|row| row.aggregate == **lane));
    let empty: Vec<i64> = empty.copied().collect();
    if !empty.is_empty() {
        let empty = list(empty);
        run(
            transaction,
            format!("DELETE FROM outbox_lane WHERE aggregate IN ({empty})"),
        )
        .await?;
    }
    Ok(found)
}

/// Ready rows; those whose aggregate is a lane are sent there.
async fn ready(
    transaction: &mut Transaction,
    kind: Kind,
    locked: &Locked,
    rows_max: usize,
) -> Result<Vec<Found>, sqlx::Error> {
    let each = (rows_max / locked.shards.len().max(1)).max(1);
    let shards: Vec<i64> = locked.shards.iter().map(|shard| (*shard).into()).collect();
    for _ in 0..LOOKS_MAX {
        let found = select(transaction, pending(kind, shards.len(), each), &shards).await?;
        let (blocked, free): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|row| row.lane.is_some());
        if blocked.is_empty() {
            return Ok(free);
        }
        let ids = list(blocked.into_iter().map(|row| row.id));
        run(
            transaction,
            format!("UPDATE outbox_event SET held = 1 WHERE id IN ({ids})"),
        )
        .await?;
        if !free.is_empty() {
            return Ok(free);
        }
    }
    Ok(Vec::new())
}

/// The first ready rows of each of `count` shards, in order.
pub(super) fn pending(kind: Kind, count: usize, each: usize) -> String {
    let condition = "e.shard = {} AND e.status = 'pending' AND e.held = 0";
    let lane = "(SELECT l.due_at FROM outbox_lane l WHERE l.aggregate = e.aggregate)";
    arms(kind, count, each, condition, lane)
}

/// The first rows of each of `count` lanes, in order.
pub(super) fn held(kind: Kind, count: usize, each: usize) -> String {
    let condition = "e.aggregate = {} AND e.status = 'pending' AND e.held = 1";
    arms(kind, count, each, condition, "0")
}

/// One arm for each number that is bound: only so every database walks one index for each.
fn arms(kind: Kind, count: usize, each: usize, condition: &str, lane: &str) -> String {
    let arm = |number: usize| {
        let marker = match kind {
            Kind::Postgres => format!("${number}"),
            Kind::Sqlite | Kind::MySql => "?".to_owned(),
        };
        let condition = condition.replace("{}", &marker);
        format!(
            "SELECT * FROM (SELECT {COLUMNS}, CAST({lane} AS {}) AS lane FROM outbox_event e WHERE {condition} \
             ORDER BY e.id LIMIT {each}) arm{number}",
            match kind {
                Kind::MySql => "SIGNED",
                Kind::Sqlite | Kind::Postgres => "BIGINT",
            }
        )
    };
    let arms: Vec<String> = (1..=count).map(arm).collect();
    arms.join(" UNION ALL ")
}

async fn select(
    transaction: &mut Transaction,
    text: String,
    numbers: &[i64],
) -> Result<Vec<Found>, sqlx::Error> {
    on!(transaction, connection => {
        let mut query = sqlx::query_as::<_, Found>(AssertSqlSafe(text));
        for number in numbers {
            query = query.bind(*number);
        }
        query.fetch_all(connection).await
    })
}

fn claim(found: Vec<Found>, owner: String, locked: &Locked, until: Instant) -> Claim {
    let (mut rows, mut kept) = (
        Vec::with_capacity(found.len()),
        Vec::with_capacity(found.len()),
    );
    let mut shards = BTreeSet::new();
    for found in found {
        let headers = enqueue::read(&found.headers).unwrap_or_else(|| {
            tracing::error!(
                id = found.id,
                "outbox row with headers that are not JSON: they are left out"
            );
            Default::default()
        });
        shards.insert(found.shard);
        kept.push(Kept {
            aggregate: found.aggregate,
            shard: found.shard,
            attempts: found.attempts,
            is_lane: found.lane.is_some(),
            age_ms: locked.now - found.created_at,
        });
        rows.push(Row {
            id: found.id,
            // In this process's time, as its age is what matters.
            tried_ms: found.tried_at.map(|at| locked.here - (locked.now - at)),
            event: Event {
                event_id: found.event_id,
                event_type: found.event_type.into(),
                event_version: found.event_version.into(),
                aggregate_type: found.aggregate_type.into(),
                aggregate_id: found.aggregate_id.into(),
                subject: found.subject.into(),
                payload: found.payload.into(),
                headers,
                trace_id: found.trace_id.into(),
            },
        });
    }
    Claim {
        rows,
        until,
        kept,
        owner,
        shards: shards.into_iter().collect(),
    }
}

/// Writes down who has them. From here on the broker may have a row, if this relay is not heard of again.
async fn mark(
    transaction: &mut Transaction,
    claim: &Claim,
    locked: &Locked,
    lease: Duration,
) -> Result<(), sqlx::Error> {
    let until = locked
        .now
        .saturating_add(i64::try_from(lease.as_millis()).unwrap_or(i64::MAX));
    let (owner, now) = (&claim.owner, locked.now);
    let ids = list(claim.rows.iter().map(|row| row.id));
    let text = format!(
        "UPDATE outbox_event SET status = 'sending', lease_owner = '{owner}', lease_until = {until}, \
         tried_at = COALESCE(tried_at, {now}) WHERE id IN ({ids})"
    );
    run(transaction, text).await?;
    // A shard of which nothing is taken may have been left by somebody: it is nobody's now.
    let (taken, all) = (
        list(claim.shards.iter().copied()),
        list(locked.shards.iter().copied()),
    );
    let text = format!(
        "UPDATE outbox_shard SET lease_owner = CASE WHEN shard IN ({taken}) THEN '{owner}' END, \
         lease_until = CASE WHEN shard IN ({taken}) THEN {until} ELSE {now} END WHERE shard IN ({all})"
    );
    run(transaction, text).await?;
    Ok(())
}
