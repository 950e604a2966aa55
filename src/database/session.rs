//! What is set on each connection, so that all of them behave the same whatever the server's own settings are.
//!
//! It does not begin transactions. Invariants: a value that does not fit is an error and never cut; every lock is waited for in
//! bounded time; a connection that does not answer leaves its pool, and its place there, within [`SILENCE_MAX`].

use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions};
use sqlx::{Connection, Database, Executor as _};

use super::error::{Fate, fate};
use super::{Config, Error};

/// Between two tries to open a SQLite file that another program is just making.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// How long a connection is waited for that is given back, or was idle: a server that is stopped keeps it open and says nothing.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// One that was used just now is not asked again whether it is there.
const FRESH: Duration = Duration::from_secs(1);
/// After it the server ends a connection that says nothing inside a transaction: what it holds blocks others, and its program may
/// have been cut off without a word.
const ABANDONED_SECONDS: u64 = 60;
/// Connections that nobody needs are closed before the server does it.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The SQLite file of `url`; it and its folder are made if they are missing.
pub(super) async fn sqlite(url: &str, config: &Config) -> Result<SqlitePool, Error> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(Error::Open)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(config.busy_timeout());
    if let Some(folder) = options.get_filename().parent() {
        fs::create_dir_all(folder).map_err(|source| Error::Folder(folder.into(), source))?;
    }
    let pool = limits(SqlitePoolOptions::new(), config)
        // A connection to a local file does not age, and the last one to leave would take a database in memory with it.
        .idle_timeout(None)
        .max_lifetime(None);
    let begun = Instant::now();
    loop {
        // Two programs that open a new file at once are in each other's way when they switch it to WAL: SQLite refuses one
        // without its usual waiting, so the waiting is here.
        match pool.clone().connect_with(options.clone()).await {
            Err(error)
                if fate(&error) == Fate::Conflict && begun.elapsed() < config.busy_timeout() =>
            {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            connected => return connected.map_err(Error::Open),
        }
    }
}

/// The PostgreSQL of `url`, connected to when it is needed.
pub(super) fn postgres(url: &str, config: &Config) -> Result<PgPool, Error> {
    let options = PgConnectOptions::from_str(url).map_err(Error::Open)?;
    let abandoned = format!("{ABANDONED_SECONDS}s");
    let options = options.application_name("jetway").options([
        ("lock_timeout", &*config.busy_timeout_ms.to_string()),
        ("idle_in_transaction_session_timeout", &*abandoned),
        ("default_transaction_isolation", "read committed"),
    ]);
    let pool = watched(limits(PgPoolOptions::new(), config));
    Ok(pool.connect_lazy_with(options))
}

/// The MySQL or MariaDB of `url`, connected to when it is needed.
pub(super) fn mysql(url: &str, config: &Config) -> Result<MySqlPool, Error> {
    let options = MySqlConnectOptions::from_str(url).map_err(Error::Open)?;
    // What is compared without a column is compared by its bytes too.
    let options = options.charset("utf8mb4").collation("utf8mb4_bin");
    let lock_seconds = config.busy_timeout_ms.div_ceil(1_000);
    // Read committed, as PostgreSQL: repeatable read locks the gaps between rows as well, so that claims of one worker block what
    // others insert, and a statement after a wait for a lock would see the table as it was before. `||` joins texts, as
    // everywhere else.
    let session = format!(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
         NO_ENGINE_SUBSTITUTION,PIPES_AS_CONCAT', innodb_lock_wait_timeout = {lock_seconds}, \
         lock_wait_timeout = {lock_seconds}, wait_timeout = {ABANDONED_SECONDS}; \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    );
    let pool = watched(limits(MySqlPoolOptions::new(), config)).after_connect(
        move |connection, _metadata| {
            let session = sqlx::AssertSqlSafe(session.clone());
            Box::pin(async move { connection.execute(session).await.map(drop) })
        },
    );
    Ok(pool.connect_lazy_with(options))
}

fn limits<D: Database>(pool: PoolOptions<D>, config: &Config) -> PoolOptions<D> {
    pool.max_connections(config.connections_max)
        .acquire_timeout(config.busy_timeout())
}

/// sqlx asks a connection that is given back whether it is there, and without a limit: a statement that was cancelled because the
/// server is silent would keep the connection's place in the pool for as long as the server is. Here it is asked before, and a
/// silent connection is closed. On the other way sqlx asks every connection that is taken; here only one that was idle.
fn watched<D: Database>(pool: PoolOptions<D>) -> PoolOptions<D> {
    pool.idle_timeout(IDLE_MAX)
        .test_before_acquire(false)
        .before_acquire(|connection, metadata| {
            Box::pin(async move {
                match metadata.idle_for < FRESH {
                    true => Ok(true),
                    false => answers::<D>(connection).await,
                }
            })
        })
        .after_release(|connection, _metadata| Box::pin(answers::<D>(connection)))
}

async fn answers<D: Database>(connection: &mut D::Connection) -> Result<bool, sqlx::Error> {
    super::within(SILENCE_MAX, connection.ping()).await?;
    Ok(true)
}
