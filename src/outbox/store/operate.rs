//! What operators do: list, show, replay, purge.
//!
//! They never touch a row that is to be published or in a relay's hands. A listing walks an index of the state that is asked
//! for, in the order of the rows' numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::dialect::{CHANNEL, all, list, now, on, run};
use super::filter::{Filter, Status};
use super::{Error, Store, enqueue};
use crate::database::{Kind, Transaction};
use crate::event;

/// Rows that one statement changes, so that it holds nobody up for long.
const BATCH: usize = 500;
const COLUMNS: &str = "id, event_id, event_type, event_version, aggregate_type, aggregate_id, subject, trace_id, status, attempts, \
     next_attempt_at, lease_owner, lease_until, tried_at, last_error, created_at, published_at";

/// A row as operators see it; serialises to JSON, times as ISO 8601.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its number.
    pub id: i64,
    /// Its event's identity.
    pub event_id: String,
    /// Its event's name.
    pub event: String,
    /// Its event's version.
    pub event_version: String,
    /// What kind of thing it is about.
    pub aggregate_type: String,
    /// Which one.
    pub aggregate: String,
    /// Where it is published.
    pub subject: String,
    /// 32 hex digits, or empty.
    pub trace_id: String,
    /// `pending`, `sending`, `published` or `dead`.
    pub status: String,
    /// How often the broker refused it.
    pub attempts: i32,
    /// The broker's last reason.
    pub error: Option<String>,
    /// When it was written.
    pub created: String,
    /// When it is tried again, at the earliest.
    pub next_attempt: Option<String>,
    /// Who has it in hand.
    pub lease_owner: Option<String>,
    /// Until when.
    pub lease_until: Option<String>,
    /// When it was first tried without a known answer.
    pub tried: Option<String>,
    /// When it was published.
    pub published: Option<String>,
}

/// A row with what it publishes.
#[derive(Debug, Clone)]
pub struct Shown {
    /// What lists tell of it.
    pub listed: Listed,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl Shown {
    /// As JSON: what lists tell, headers, and the payload as text, or as base64 where it is none.
    #[must_use]
    pub fn described(&self) -> Value {
        let (key, payload) = match str::from_utf8(&self.payload) {
            Ok(text) => ("payload", text.to_owned()),
            Err(_) => ("payload_base64", STANDARD.encode(&self.payload)),
        };
        let mut described = json!(self.listed);
        if let Some(members) = described.as_object_mut() {
            members.insert("headers".to_owned(), json!(self.headers));
            members.insert(key.to_owned(), json!(payload));
        }
        described
    }
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
    trace_id: String,
    status: String,
    attempts: i32,
    next_attempt_at: Option<i64>,
    lease_owner: Option<String>,
    lease_until: Option<i64>,
    tried_at: Option<i64>,
    last_error: Option<String>,
    created_at: i64,
    published_at: Option<i64>,
}

impl From<Found> for Listed {
    fn from(found: Found) -> Self {
        let time = |ms: i64| event::iso8601(u64::try_from(ms).unwrap_or(0));
        Self {
            id: found.id,
            event_id: found.event_id.hyphenated().to_string(),
            event: found.event_type,
            event_version: found.event_version,
            aggregate_type: found.aggregate_type,
            aggregate: found.aggregate_id,
            subject: found.subject,
            trace_id: found.trace_id,
            status: found.status,
            attempts: found.attempts,
            error: found.last_error,
            created: time(found.created_at),
            next_attempt: found.next_attempt_at.map(time),
            lease_owner: found.lease_owner,
            lease_until: found.lease_until.map(time),
            tried: found.tried_at.map(time),
            published: found.published_at.map(time),
        }
    }
}

/// What is done to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Dead rows get all their attempts anew.
    Replay,
    /// Dead and published rows are removed.
    Purge,
}

impl Store {
    /// At most `limit` rows that are meant, behind the one with the number `after`, in the order of their numbers.
    ///
    /// # Errors
    /// [`Error::Database`]
    pub async fn list(
        &self,
        filter: &Filter,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Listed>, Error> {
        let mut transaction = self.pool.begin().await?;
        let found = find(&mut transaction, self.pool.kind(), filter, after, limit).await?;
        transaction.rollback().await?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    /// One row.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Database`]
    pub async fn show(&self, id: i64) -> Result<Shown, Error> {
        let filter = Filter {
            ids: vec![id],
            ..Filter::default()
        };
        let mut transaction = self.pool.begin().await?;
        let found = find(&mut transaction, self.pool.kind(), &filter, 0, 1).await?;
        let text = format!("SELECT headers, payload FROM outbox_event WHERE id = {id}");
        let content: Vec<(String, Vec<u8>)> = all(&mut transaction, text).await?;
        transaction.rollback().await?;
        let both = found.into_iter().next().zip(content.into_iter().next());
        let (found, (headers, payload)) = both.ok_or(Error::Unknown(id))?;
        let headers = enqueue::read(&headers).unwrap_or_default();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Shown {
            listed: found.into(),
            headers: headers.collect(),
            payload,
        })
    }

    /// The dead rows that are meant are pending again, with all their attempts; gives them, at most `limit`. They go out before what
    /// is pending of their aggregate, and after what was published meanwhile.
    ///
    /// # Errors
    /// [`Error::Database`]; some may be replayed by then.
    pub async fn replay(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, Error> {
        self.act(Action::Replay, filter, limit).await
    }

    /// Removes the dead and published rows that are meant; gives them, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Database`]; some may be removed by then.
    pub async fn purge(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>, Error> {
        self.act(Action::Purge, filter, limit).await
    }

    /// The rows that it would be done to, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Database`]
    pub async fn meant(
        &self,
        action: Action,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Listed>, Error> {
        let mut meant = Vec::new();
        for filter in action.filters(filter) {
            meant.extend(self.list(&filter, 0, limit - meant.len()).await?);
        }
        Ok(meant)
    }

    /// Does that, in batches; gives the rows that it was done to, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Database`]; some of it may be done by then.
    pub async fn act(
        &self,
        action: Action,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Listed>, Error> {
        let kind = self.pool.kind();
        let mut done = Vec::new();
        for filter in action.filters(filter) {
            let mut after = 0;
            while done.len() < limit {
                let mut transaction = self.pool.begin().await?;
                let batch = BATCH.min(limit - done.len());
                let found = find(&mut transaction, kind, &filter, after, batch).await?;
                let Some(last) = found.last() else {
                    transaction.rollback().await?;
                    break;
                };
                after = last.id;
                run(&mut transaction, action.statement(kind, &found)).await?;
                if action == Action::Replay && kind == Kind::Postgres {
                    run(&mut transaction, format!("NOTIFY {CHANNEL}")).await?;
                }
                transaction.commit().await?;
                done.extend(found.into_iter().map(Listed::from));
            }
        }
        Ok(done)
    }
}

impl Action {
    /// What was done, in a word.
    #[must_use]
    pub fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Purge => "purged",
        }
    }

    /// The conditions with each state of rows that it can be done to.
    fn filters(self, filter: &Filter) -> impl Iterator<Item = Filter> {
        let takes: &[Status] = match self {
            Self::Replay => &[Status::Dead],
            Self::Purge => &[Status::Dead, Status::Published],
        };
        let takes = takes
            .iter()
            .filter(|status| filter.status.is_none_or(|own| own == **status));
        takes.map(|status| Filter {
            status: Some(*status),
            ..filter.clone()
        })
    }

    /// Somebody may have changed a row since it was found.
    fn statement(self, kind: Kind, found: &[Found]) -> String {
        let ids = list(found.iter().map(|row| row.id));
        match self {
            Self::Replay => format!(
                "UPDATE outbox_event SET status = 'pending', attempts = 0, next_attempt_at = {} \
                 WHERE id IN ({ids}) AND status = 'dead'",
                now(kind)
            ),
            Self::Purge => format!(
                "DELETE FROM outbox_event WHERE id IN ({ids}) AND status IN ('dead', 'published')"
            ),
        }
    }
}

async fn find(
    transaction: &mut Transaction,
    kind: Kind,
    filter: &Filter,
    after: i64,
    limit: usize,
) -> Result<Vec<Found>, sqlx::Error> {
    let (text, texts) = query(kind, filter, after, limit);
    let event_id = filter.event_id;
    on!(transaction, connection => {
        let mut query = sqlx::query_as::<_, Found>(AssertSqlSafe(text)).persistent(false);
        for text in texts {
            query = query.bind(text);
        }
        if let Some(event_id) = event_id {
            query = query.bind(event_id);
        }
        query.fetch_all(connection).await
    })
}

/// The statement, and the texts that are bound in front of the event's identity.
fn query(kind: Kind, filter: &Filter, after: i64, limit: usize) -> (String, Vec<String>) {
    let mut conditions = vec![format!("id > {after}")];
    if !filter.ids.is_empty() {
        conditions.push(format!("id IN ({})", list(filter.ids.iter().copied())));
    }
    if let Some(status) = filter.status {
        conditions.push(format!("status = '{}'", status.word()));
    }
    conditions.extend(
        filter
            .since_ms
            .map(|since| format!("created_at >= {since}")),
    );
    conditions.extend(filter.until_ms.map(|until| format!("created_at < {until}")));
    let mut texts = Vec::new();
    let mut bound = 0;
    let mut marker = |column: &str| {
        bound += 1;
        match kind {
            Kind::Postgres => format!("{column} = ${bound}"),
            Kind::Sqlite | Kind::MySql => format!("{column} = ?"),
        }
    };
    for (column, text) in [
        ("event_type", &filter.event),
        ("aggregate_id", &filter.aggregate),
    ] {
        if let Some(text) = text {
            conditions.push(marker(column));
            texts.push(text.clone());
        }
    }
    if filter.event_id.is_some() {
        conditions.push(marker("event_id"));
    }
    let conditions = conditions.join(" AND ");
    let text =
        format!("SELECT {COLUMNS} FROM outbox_event WHERE {conditions} ORDER BY id LIMIT {limit}");
    (text, texts)
}
