//! What became of a claim, written down: by the one who has it, and only as long as nobody else has taken it over.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::dialect::{list, now, on, run};
use super::{Answer, Claim, Row, Store};
use crate::database::{Kind, Transaction};

/// Characters that are kept of a broker's reason.
const REASON_CHARS_MAX: usize = 1_000;

/// What becomes of rows that are not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// So often a broker may refuse a row before it is dead.
    pub attempts_max: u32,
    /// How long to wait after the first, second, … refusal; after more than that, as after the last.
    pub backoff: Vec<Duration>,
    /// How long to wait after a try that said nothing about the row.
    pub pause: Duration,
}

/// How many rows of a claim became what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Published.
    pub published: u64,
    /// Refused, and to be tried again.
    pub refused: u64,
    /// Refused for the last time.
    pub dead: u64,
    /// Not answered, or not handed over.
    pub unanswered: u64,
    /// Somebody else's by now: nothing was changed.
    pub late: u64,
}

/// One row that goes back, and why.
struct Refusal<'r> {
    row: &'r Row,
    reason: &'r str,
    attempts: i32,
    /// None: it is dead.
    wait_ms: Option<i64>,
}

/// A claim sorted by what became of its rows.
#[derive(Default)]
struct Sorted<'r> {
    published: Vec<i64>,
    /// Not handed over, now or ever.
    untried: Vec<i64>,
    /// In doubt.
    tried: Vec<i64>,
    refused: Vec<Refusal<'r>>,
    /// Aggregates that wait: their shard, and for how long, in milliseconds.
    lanes: HashMap<i64, (i16, i64)>,
}

impl Store {
    /// Writes down what became of the rows of a claim, in their order, and lets go of it. The same may be said again when it is not
    /// known whether it was heard.
    ///
    /// # Errors
    /// The database's: nothing is changed, or all of it.
    pub async fn settle(
        &self,
        claim: &Claim,
        answers: &[Answer],
        policy: &Policy,
    ) -> Result<Settled, sqlx::Error> {
        let (kind, owner) = (self.pool.kind(), &claim.owner);
        let now = now(kind);
        let sorted = sort(claim, answers, policy);
        let mut transaction = self.pool.begin().await?;
        // First, as claims do: so two that write never wait for each other.
        let shards = list(claim.shards.iter().copied());
        let text = format!(
            "UPDATE outbox_shard SET lease_owner = NULL, lease_until = {now} WHERE shard IN ({shards}) AND lease_owner = '{owner}'"
        );
        if run(&mut transaction, text).await? == 0 {
            transaction.rollback().await?;
            let late = claim.rows.len() as u64;
            return Ok(Settled {
                late,
                ..Settled::default()
            });
        }
        let still = format!("status = 'sending' AND lease_owner = '{owner}'");
        let published =
            format!("status = 'published', held = 0, published_at = {now}, next_attempt_at = NULL");
        let pause = millis(policy.pause);
        let back = format!("status = 'pending', held = 1, next_attempt_at = {now} + {pause}");
        let mut changed = [0; 3];
        for ((ids, change), changed) in [
            (&sorted.published, published),
            (&sorted.untried, format!("{back}, tried_at = NULL")),
            (&sorted.tried, back),
        ]
        .into_iter()
        .zip(&mut changed)
        {
            if !ids.is_empty() {
                let ids = list(ids.iter().copied());
                let text = format!(
                    "UPDATE outbox_event SET {change}, lease_owner = NULL, lease_until = NULL WHERE id IN ({ids}) AND {still}"
                );
                *changed = run(&mut transaction, text).await?;
            }
        }
        let [published, untried, tried] = changed;
        let mut settled = Settled {
            published,
            unanswered: untried + tried,
            ..Settled::default()
        };
        for refusal in &sorted.refused {
            let changed = refuse(&mut transaction, kind, refusal, &still).await?;
            match refusal.wait_ms {
                Some(_) => settled.refused += changed,
                None => settled.dead += changed,
            }
        }
        move_lanes(&mut transaction, kind, &sorted, claim).await?;
        transaction.commit().await?;
        let rows = claim.rows.len() as u64;
        let told = settled.published + settled.refused + settled.dead + settled.unanswered;
        settled.late = rows.saturating_sub(told);
        Ok(settled)
    }
}

impl Claim {
    /// How long each of its rows had waited when it was claimed, in milliseconds.
    pub fn ages_ms(&self) -> impl Iterator<Item = i64> {
        self.kept.iter().map(|kept| kept.age_ms)
    }
}

fn sort<'r>(claim: &'r Claim, answers: &'r [Answer], policy: &Policy) -> Sorted<'r> {
    let mut sorted = Sorted::default();
    // A publisher that says too little has not answered.
    let answers = answers.iter().chain(std::iter::repeat(&Answer::Unanswered));
    for ((row, kept), answer) in claim.rows.iter().zip(&claim.kept).zip(answers) {
        let mut wait = millis(policy.pause);
        match answer {
            Answer::Stored => {
                sorted.published.push(row.id);
                continue;
            }
            Answer::Refused(reason) => {
                let attempts = kept.attempts.saturating_add(1);
                let is_dead =
                    u32::try_from(attempts).is_ok_and(|count| count >= policy.attempts_max);
                let step = usize::try_from(kept.attempts)
                    .unwrap_or(0)
                    .min(policy.backoff.len().saturating_sub(1));
                let backoff = millis(policy.backoff.get(step).copied().unwrap_or(policy.pause));
                // Those behind one that is dead go on at once.
                wait = if is_dead { 0 } else { backoff };
                let wait_ms = (!is_dead).then_some(backoff);
                sorted.refused.push(Refusal {
                    row,
                    reason,
                    attempts,
                    wait_ms,
                });
            }
            Answer::Held if row.tried_ms.is_none() => sorted.untried.push(row.id),
            Answer::Unanswered | Answer::Held => sorted.tried.push(row.id),
        }
        // The first row of an aggregate says how long the others wait.
        sorted
            .lanes
            .entry(kept.aggregate)
            .or_insert((kept.shard, wait));
    }
    sorted
}

/// The reason is a stranger's text, so it is bound.
async fn refuse(
    transaction: &mut Transaction,
    kind: Kind,
    refusal: &Refusal<'_>,
    still: &str,
) -> Result<u64, sqlx::Error> {
    let now = now(kind);
    let fate = match refusal.wait_ms {
        Some(wait) => format!("status = 'pending', held = 1, next_attempt_at = {now} + {wait}"),
        None => "status = 'dead', held = 0, next_attempt_at = NULL".to_owned(),
    };
    // The answer is known; an earlier one may still not be.
    let tried = match refusal.row.tried_ms {
        Some(_) => "",
        None => ", tried_at = NULL",
    };
    let marker = match kind {
        Kind::Postgres => "$1",
        Kind::Sqlite | Kind::MySql => "?",
    };
    let (id, attempts) = (refusal.row.id, refusal.attempts);
    let text = format!(
        "UPDATE outbox_event SET {fate}, attempts = {attempts}, lease_owner = NULL, lease_until = NULL{tried}, last_error = {marker} \
         WHERE id = {id} AND {still}"
    );
    let reason: String = refusal
        .reason
        .chars()
        .filter(|c| *c != '\0')
        .take(REASON_CHARS_MAX)
        .collect();
    on!(transaction, connection => {
        let query = sqlx::query(AssertSqlSafe(text)).persistent(false).bind(reason);
        Ok(query.execute(connection).await?.rows_affected())
    })
}

/// Aggregates that wait become lanes; lanes that went well stand behind the others.
async fn move_lanes(
    transaction: &mut Transaction,
    kind: Kind,
    sorted: &Sorted<'_>,
    claim: &Claim,
) -> Result<(), sqlx::Error> {
    let now = now(kind);
    let mut values = String::new();
    for (aggregate, (shard, wait)) in &sorted.lanes {
        let comma = if values.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _written = write!(values, "{comma}({aggregate}, {shard}, {now} + {wait})");
    }
    if !values.is_empty() {
        let known = match kind {
            Kind::MySql => "ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)",
            Kind::Sqlite | Kind::Postgres => {
                "ON CONFLICT (aggregate) DO UPDATE SET due_at = excluded.due_at"
            }
        };
        let text =
            format!("INSERT INTO outbox_lane (aggregate, shard, due_at) VALUES {values} {known}");
        run(transaction, text).await?;
    }
    let went_well = claim
        .kept
        .iter()
        .filter(|kept| kept.is_lane && !sorted.lanes.contains_key(&kept.aggregate));
    let went_well: Vec<i64> = went_well.map(|kept| kept.aggregate).collect();
    if !went_well.is_empty() {
        let went_well = list(went_well);
        run(
            transaction,
            format!("UPDATE outbox_lane SET due_at = {now} WHERE aggregate IN ({went_well})"),
        )
        .await?;
    }
    Ok(())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
