//! A real PostgreSQL of one test's own, or of one test program: free port, temporary data folder, gone when dropped.
//!
//! It does not run as root, so a root's tests run it as the user `postgres`, or as `nobody`.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use sqlx::{Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

use super::port::free_ports;
use super::server::{Program, Server, own_name, prepare};

/// Where Debian has the programs of a version, newest first; elsewhere they are in the path.
const FOLDERS: [&str; 4] = [
    "/usr/lib/postgresql/18/bin/",
    "/usr/lib/postgresql/17/bin/",
    "/usr/lib/postgresql/16/bin/",
    "/usr/lib/postgresql/15/bin/",
];

/// A running PostgreSQL; [`Server`] has what can be done to its processes.
pub struct Postgres {
    server: Server,
    user: String,
    port: u16,
}

impl Postgres {
    /// Starts one that survives its own crash, but not the machine's: fast enough for tests.
    pub async fn start() -> Self {
        Self::start_with(&["fsync=off", "full_page_writes=off"]).await
    }

    /// Starts one that keeps what it confirmed, with memory as in production.
    pub async fn start_durable() -> Self {
        Self::start_with(&["shared_buffers=1GB", "max_wal_size=4GB"]).await
    }

    /// Starts one with these settings.
    pub async fn start_with(settings: &[&str]) -> Self {
        let postgres = Self::started(settings);
        let ready = async || postgres.connect().await;
        postgres.server.listens(ready).await;
        postgres
    }

    fn started(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [port] = free_ports();
        let user = own_name();
        let unprivileged = unprivileged(&folder);
        let mut initdb = as_other(&unprivileged, &program("initdb"));
        initdb.extend(
            ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"].map(OsString::from),
        );
        initdb.extend([OsString::from("--username"), user.clone().into()]);
        initdb.extend([
            OsString::from("--pgdata"),
            folder.path().join("data").into(),
        ]);
        prepare(
            Command::new(&initdb[0])
                .args(&initdb[1..])
                .current_dir(folder.path()),
        );
        let mut command = as_other(&unprivileged, &program("postgres"));
        command.extend([OsString::from("-D"), folder.path().join("data").into()]);
        let own = [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "max_connections=200".to_owned(),
            "shared_buffers=32MB".to_owned(),
        ];
        for setting in own
            .iter()
            .map(String::as_str)
            .chain(settings.iter().copied())
        {
            command.extend([OsString::from("-c"), setting.into()]);
        }
        let program = Program {
            name: "PostgreSQL",
            // Immediate: the children are ended, nothing is written.
            stop: "QUIT",
            command,
            environment: Vec::new(),
        };
        Self {
            server: Server::start(folder, program),
            user,
            port,
        }
    }

    /// `postgres://…` of a database that is always there.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Makes an empty database, and returns its `postgres://…`.
    pub async fn database(&self, name: &str) -> String {
        let mut connection = PgConnection::connect(&self.url()).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE \"{name}\""));
        connection.execute(create).await.unwrap();
        self.url_of(name)
    }

    /// Its port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it if it runs, and starts it again on its port and data; returns when it is ready.
    pub async fn restart(&self) {
        self.server.restart(async || self.connect().await).await;
    }

    fn url_of(&self, database: &str) -> String {
        let Self { user, port, .. } = self;
        format!("postgres://{user}@127.0.0.1:{port}/{database}")
    }

    async fn connect(&self) -> Result<(), String> {
        let connected = PgConnection::connect(&self.url()).await;
        let closed = connected.map_err(|error| error.to_string())?.close().await;
        closed.map_err(|error| error.to_string())
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn program(name: &str) -> String {
    let folder = FOLDERS.iter().find(|folder| Path::new(folder).is_dir());
    format!("{}{name}", folder.unwrap_or(&""))
}

/// Who runs it, if we are root; the folder is theirs then.
fn unprivileged(folder: &TempDir) -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let exists = |user: &str| {
        Command::new("id")
            .arg(user)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let user = if exists("postgres") {
        "postgres"
    } else {
        "nobody"
    };
    prepare(Command::new("chown").arg(user).arg(folder.path()));
    Some(user)
}

fn as_other(user: &Option<&str>, program: &str) -> Vec<OsString> {
    let mut command = Vec::new();
    if let Some(user) = user {
        command.push("setpriv".into());
        command.push(format!("--reuid={user}").into());
        command.push("--clear-groups".into());
    }
    command.push(program.into());
    command
}
