//! A real MariaDB of one test's own, or of one test program: free port, temporary data folder, gone when dropped.

use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use sqlx::{Connection as _, Executor as _, MySqlConnection};

use super::port::free_ports;
use super::server::{Program, Server, own_name, prepare};

/// Debian has it where only root looks for programs; elsewhere it is in the path.
const PROGRAM: &str = "/usr/sbin/mariadbd";

/// A running MariaDB; [`Server`] has what can be done to its processes.
pub struct MariaDb {
    server: Server,
    user: String,
    port: u16,
}

impl MariaDb {
    /// Starts one that survives its own crash, but not the machine's: fast enough for tests.
    pub async fn start() -> Self {
        Self::start_with(&[
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-doublewrite=0",
        ])
        .await
    }

    /// Starts one that keeps what it confirmed, with memory as in production.
    pub async fn start_durable() -> Self {
        let memory = ["--innodb-buffer-pool-size=1G", "--innodb-log-file-size=1G"];
        Self::start_with(&memory).await
    }

    /// Starts one with these options.
    pub async fn start_with(options: &[&str]) -> Self {
        let mariadb = Self::started(options);
        let ready = async || mariadb.connect().await;
        mariadb.server.listens(ready).await;
        mariadb
    }

    fn started(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [port] = free_ports();
        let user = own_name();
        let is_root = rustix::process::geteuid().is_root();
        let mut own = vec![OsString::from("--no-defaults")];
        if is_root {
            own.push("--user=root".into());
        }
        // A server that starts removes the temporary tables that it finds in its folder for them: in a common one, those of
        // another server that is just being prepared.
        for (option, name) in [("--datadir=", "data"), ("--tmpdir=", "tmp")] {
            let mut option = OsString::from(option);
            option.push(folder.path().join(name));
            own.push(option);
        }
        fs::create_dir(folder.path().join("tmp")).unwrap();
        prepare(Command::new("mariadb-install-db").args(&own).args([
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ]));
        let init = folder.path().join("init.sql");
        let grant = format!(
            "CREATE OR REPLACE USER {user}@'127.0.0.1';\nGRANT ALL ON *.* TO {user}@'127.0.0.1' WITH GRANT OPTION;\n\
             CREATE DATABASE IF NOT EXISTS jetway;\n"
        );
        fs::write(&init, grant).unwrap();
        let program = if Path::new(PROGRAM).is_file() {
            PROGRAM
        } else {
            "mariadbd"
        };
        let mut command = vec![OsString::from(program)];
        command.extend(own);
        let mut init_file = OsString::from("--init-file=");
        init_file.push(init);
        command.push(init_file);
        let fixed = [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--socket=socket",
            "--pid-file=pid",
            "--max-connections=200",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=16M",
        ];
        command.push(format!("--port={port}").into());
        command.extend(fixed.iter().chain(options).map(OsString::from));
        let program = Program {
            name: "MariaDB",
            stop: "KILL",
            command,
            environment: Vec::new(),
        };
        Self {
            server: Server::start(folder, program),
            user,
            port,
        }
    }

    /// `mysql://…` of a database that is always there.
    pub fn url(&self) -> String {
        self.url_of("jetway")
    }

    /// Makes an empty database, and returns its `mysql://…`.
    pub async fn database(&self, name: &str) -> String {
        let mut connection = MySqlConnection::connect(&self.url()).await.unwrap();
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE `{name}`"));
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
        format!("mysql://{user}@127.0.0.1:{port}/{database}")
    }

    async fn connect(&self) -> Result<(), String> {
        let connected = MySqlConnection::connect(&self.url()).await;
        let closed = connected.map_err(|error| error.to_string())?.close().await;
        closed.map_err(|error| error.to_string())
    }
}

impl Deref for MariaDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
