//! How full the outbox is, and published rows removed. Neither reads rows that it does not want, however many there are.

use std::time::Duration;

use serde::Serialize;

use super::dialect::{all, list, look, now, run};
use super::{Error, Store};
use crate::database::Kind;

/// Rows that one statement removes, so that it holds nobody up for long.
const BATCH: usize = 1_000;
/// How long nobody purges again after all is purged, in milliseconds.
const PURGED_MS: i64 = 30_000;
/// The lock of the one who purges.
const PURGE: i16 = -1;

/// How many rows are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Not published, and in no relay's hands.
    pub pending: u64,
    /// In the hands of a relay.
    pub sending: u64,
    /// Have used up their attempts.
    pub dead: u64,
    /// For how long the oldest row that is not published and not dead has waited, in milliseconds by the database's clock; none if
    /// there is none.
    pub oldest_pending_ms: Option<u64>,
}

impl Store {
    /// How full it is now.
    ///
    /// # Errors
    /// [`Error::Database`]
    pub async fn stats(&self) -> Result<Stats, Error> {
        let rows: Vec<(i64, i64, i64, i64, Option<i64>)> =
            look(&self.pool, stats(self.pool.kind())).await?;
        let [(ready, held, sending, dead, oldest)] = rows.as_slice() else {
            return Ok(Stats::default());
        };
        let count = |count: &i64| u64::try_from(*count).unwrap_or(0);
        Ok(Stats {
            pending: count(ready) + count(held),
            sending: count(sending),
            dead: count(dead),
            oldest_pending_ms: oldest.as_ref().map(count),
        })
    }

    /// Removes a batch of rows that were published longer ago than `retention`, unless somebody else does; gives how many, and
    /// whether there may be more.
    ///
    /// # Errors
    /// [`Error::Database`]
    pub async fn purge_published(&self, retention: Duration) -> Result<(u64, bool), Error> {
        let kind = self.pool.kind();
        let now = now(kind);
        let mut transaction = self.pool.begin().await?;
        let wait = match kind {
            Kind::Sqlite => "",
            Kind::Postgres | Kind::MySql => "FOR UPDATE SKIP LOCKED",
        };
        let text = format!(
            "SELECT shard FROM outbox_shard WHERE shard = {PURGE} AND lease_until <= {now} {wait}"
        );
        if all::<(i16,)>(&mut transaction, text).await?.is_empty() {
            transaction.rollback().await?;
            return Ok((0, false));
        }
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let ids: Vec<(i64,)> = all(&mut transaction, old(kind, retention)).await?;
        let is_full = ids.len() == BATCH;
        let mut purged = 0;
        if !ids.is_empty() {
            let ids = list(ids.into_iter().map(|(id,)| id));
            let text =
                format!("DELETE FROM outbox_event WHERE id IN ({ids}) AND status = 'published'");
            purged = run(&mut transaction, text).await?;
        }
        if !is_full {
            let text = format!(
                "UPDATE outbox_shard SET lease_until = {now} + {PURGED_MS} WHERE shard = {PURGE}"
            );
            run(&mut transaction, text).await?;
        }
        transaction.commit().await?;
        Ok((purged, is_full))
    }
}

/// Rows that were published longer ago, the oldest first.
pub(super) fn old(kind: Kind, retention_ms: i64) -> String {
    let now = now(kind);
    format!(
        "SELECT id FROM outbox_event WHERE status = 'published' AND published_at < {now} - {retention_ms} \
         ORDER BY published_at LIMIT {BATCH}"
    )
}

/// Counts over the indexes of what is not published, and the age of the first of each shard, lane and claim.
pub(super) fn stats(kind: Kind) -> String {
    let now = now(kind);
    let first = |condition: &str, of: &str| {
        format!(
            "SELECT (SELECT e.created_at FROM outbox_event e WHERE {condition} ORDER BY e.id LIMIT 1) AS at_ms FROM {of}"
        )
    };
    let of_shard = "e.shard = s.shard AND e.status =";
    let firsts = [
        first(
            &format!("{of_shard} 'pending' AND e.held = 0"),
            "outbox_shard s",
        ),
        first(
            &format!("{of_shard} 'sending' AND e.held = 0"),
            "outbox_shard s",
        ),
        first(
            &format!("{of_shard} 'sending' AND e.held = 1"),
            "outbox_shard s",
        ),
        first(
            "e.aggregate = l.aggregate AND e.status = 'pending' AND e.held = 1",
            "outbox_lane l",
        ),
    ];
    let firsts = firsts.join(" UNION ALL ");
    let count =
        |condition: &str| format!("(SELECT COUNT(*) FROM outbox_event WHERE status = {condition})");
    let [ready, held, sending, dead] = [
        "'pending' AND held = 0",
        "'pending' AND held = 1",
        "'sending'",
        "'dead'",
    ]
    .map(count);
    format!(
        "SELECT {ready}, {held}, {sending}, {dead}, (SELECT {now} - MIN(at_ms) FROM ({firsts}) firsts)"
    )
}
