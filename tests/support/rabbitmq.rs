//! A real RabbitMQ of one test's own, or of one test program: free ports, temporary data folder, gone when dropped.
//!
//! Erlang's name server (epmd) runs beside it on a port of its own, so that nothing of the machine's is used or left.

use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::Path;

use lapin::{Connection, ConnectionProperties};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::port::free_ports;
use super::server::{Program, Server, own_name};

/// Debian's scripts in the path are for its service only; elsewhere the path has the real ones.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

fn program(name: &str) -> OsString {
    let program = Path::new(PROGRAMS).join(name);
    if program.is_file() {
        program.into()
    } else {
        name.into()
    }
}

/// A running RabbitMQ without plugins; [`Server`] has what can be done to its processes.
pub struct RabbitMq {
    server: Server,
    /// Dropped after the broker. It stays when the broker is killed.
    epmd: Server,
    environment: Vec<(&'static str, OsString)>,
    user: String,
    port: u16,
}

impl RabbitMq {
    /// Starts one; it takes some seconds.
    pub async fn start() -> Self {
        let rabbitmq = Self::started().await;
        let ready = async || rabbitmq.connect().await;
        rabbitmq.server.listens(ready).await;
        rabbitmq
    }

    async fn started() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [port, epmd_port, distribution_port] = free_ports();
        let user = own_name();
        let epmd = [
            "epmd",
            "-address",
            "127.0.0.1",
            "-port",
            &epmd_port.to_string(),
        ]
        .map(OsString::from);
        let epmd = Program {
            name: "epmd",
            stop: "KILL",
            command: epmd.into(),
            environment: Vec::new(),
        };
        let config = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\ndefault_user = {user}\ndefault_pass = {user}\n\
             disk_free_limit.absolute = 1MB\nlog.console = true\nlog.file = false\n"
        );
        let at = |name: &str| folder.path().join(name).into_os_string();
        fs::write(at("rabbitmq.conf"), config).unwrap();
        fs::write(at("plugins"), "[].\n").unwrap();
        let environment = vec![
            ("HOME", folder.path().into()),
            // One process that stays in front, as under systemd.
            ("RUNNING_UNDER_SYSTEMD", "true".into()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".into()),
            ("ERL_EPMD_PORT", epmd_port.to_string().into()),
            ("RABBITMQ_NODENAME", "jetway@localhost".into()),
            ("RABBITMQ_DIST_PORT", distribution_port.to_string().into()),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".into()),
            ("RABBITMQ_CONFIG_FILE", at("rabbitmq")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins")),
            ("RABBITMQ_MNESIA_BASE", at("mnesia")),
            ("RABBITMQ_LOG_BASE", at("logs")),
            ("RABBITMQ_LOGS", "-".into()),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false".into(),
            ),
        ];
        let rabbitmq = Program {
            name: "RabbitMQ",
            stop: "KILL",
            command: vec![program("rabbitmq-server")],
            environment: environment.clone(),
        };
        let epmd = Server::start(tempfile::tempdir().unwrap(), epmd);
        // The broker registers there as it starts, and ends if it cannot.
        let ready = async || {
            let connected = TcpStream::connect(("127.0.0.1", epmd_port)).await;
            connected.map(drop).map_err(|error| error.to_string())
        };
        epmd.listens(ready).await;
        Self {
            server: Server::start(folder, rabbitmq),
            epmd,
            environment,
            user,
            port,
        }
    }

    /// `amqp://…` of the virtual host `/`.
    pub fn url(&self) -> String {
        let Self { user, port, .. } = self;
        format!("amqp://{user}:{user}@127.0.0.1:{port}/%2f")
    }

    /// Its port on 127.0.0.1, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Has its tables (Mnesia) written to its files: it says that a durable queue is declared before that, and forgets it when it
    /// is killed.
    pub async fn write_tables(&self) {
        let written = Command::new(program("rabbitmqctl"))
            .args(["eval", "mnesia:dump_log()."])
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .output();
        let written = written.await.unwrap();
        let said = String::from_utf8_lossy(&written.stdout);
        assert_eq!(said.trim(), "dumped", "{written:?}");
    }

    /// Kills it if it runs, and starts it again on its port and data; returns when it is ready.
    pub async fn restart(&self) {
        self.server.restart(async || self.connect().await).await;
    }

    async fn connect(&self) -> Result<(), String> {
        let connected = Connection::connect(&self.url(), ConnectionProperties::default()).await;
        let connection = connected.map_err(|error| error.to_string())?;
        let closed = connection.close(200, "ready".into()).await;
        closed.map_err(|error| error.to_string())
    }
}

impl Deref for RabbitMq {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
