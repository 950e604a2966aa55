//! The real gateway binary as a child process, started as an operator or a newcomer would start it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::device::Credentials;
use super::http;
use super::nats_server;
use super::port::free_ports;
use super::tools::jetway;
use super::wait::{eventually, within};

/// The line that `--json` prints when everything is ready.
#[derive(Debug, Clone, Deserialize)]
pub struct Ready {
    /// Where devices connect over plain TCP, unless that is switched off.
    pub mqtt: Option<SocketAddr>,
    /// The further listeners, in the order of the configuration.
    pub listeners: Vec<Listening>,
    /// The NATS server's URL.
    pub nats: String,
    /// The operator's port.
    pub http: SocketAddr,
    /// The gateway's process.
    pub pid: u32,
    /// The nats-server's process at the start (`jetway dev`).
    pub nats_pid: Option<u32>,
    /// A device to try (`jetway dev`).
    pub device: Option<DemoDevice>,
}

/// A further listener: an address or a path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Listening {
    /// Address and port.
    pub listen: Option<SocketAddr>,
    /// Path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// `tcp`, `tls`, `ws` or `wss`.
    pub transport: String,
}

/// A device that exists, with everything a client needs to connect as it.
#[derive(Debug, Clone, Deserialize)]
pub struct DemoDevice {
    /// Its product id.
    pub product: String,
    /// Its name.
    pub name: String,
    /// Its secret in base64.
    pub secret: String,
    /// For CONNECT.
    #[serde(flatten)]
    pub credentials: Credentials,
}

/// For `jetway dev`. The default is a fresh state folder and free ports.
#[derive(Debug, Default)]
pub struct DevOptions {
    /// An existing state folder; `None` makes one that goes away with the gateway.
    pub state_dir: Option<PathBuf>,
    /// 0 means any free port.
    pub mqtt_port: u16,
    /// 0 means any free port.
    pub nats_port: u16,
    /// 0 means any free port.
    pub http_port: u16,
    /// Further arguments, such as `--demo 2`.
    pub arguments: Vec<String>,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
}

/// For `jetway run`: servers that run already.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// `JETWAY_NATS_URL`.
    pub nats_url: String,
    /// `JETWAY_DATABASE_URL`.
    pub database_url: String,
    /// A configuration file for `--config`.
    pub config: Option<PathBuf>,
    /// `JETWAY_MQTT_LISTEN`; `None` means any free port.
    pub mqtt_listen: Option<SocketAddr>,
    /// Further environment variables; they win.
    pub environment: Vec<(String, String)>,
}

/// A running gateway; killed when dropped.
pub struct Gateway {
    /// Its addresses.
    pub ready: Ready,
    child: Child,
    /// Kept open: a closed pipe would make the gateway's later prints fail.
    _stdout: BufReader<ChildStdout>,
    logs: TempDir,
    /// Of its products and devices.
    database_url: String,
}

impl Gateway {
    /// `jetway dev --json`, with a nats-server of its own.
    pub async fn dev(options: DevOptions) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let fresh = logs.path().join("state");
        let state_dir = options.state_dir.unwrap_or(fresh);
        let database_url = format!("sqlite:{}", state_dir.join("devices.db").display());
        let mut command = program();
        command
            .args(["dev", "--json", "--state-dir"])
            .arg(state_dir)
            .args(["--mqtt-port", &options.mqtt_port.to_string()])
            .args(["--nats-port", &options.nats_port.to_string()])
            .args(["--http-port", &options.http_port.to_string()])
            .args(options.arguments)
            .env("JETWAY_NATS_SERVER", nats_server::binary().await)
            .envs(options.environment);
        Self::start(command, logs, database_url).await
    }

    /// `jetway run --json`, configured by the environment, or by a file under it.
    pub async fn run(options: RunOptions) -> Self {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        // Held, since another gateway may come in its place.
        let [mqtt] = free_ports().map(local);
        let mut command = program();
        command.args(["run", "--json"]);
        if let Some(config) = options.config {
            command.arg("--config").arg(config);
        }
        command
            .env("JETWAY_NATS_URL", options.nats_url)
            .env("JETWAY_DATABASE_URL", &options.database_url)
            .env(
                "JETWAY_MQTT_LISTEN",
                options.mqtt_listen.unwrap_or(mqtt).to_string(),
            )
            .env("JETWAY_HTTP_LISTEN", local(0).to_string())
            .envs(options.environment);
        Self::start(command, tempfile::tempdir().unwrap(), options.database_url).await
    }

    async fn start(mut command: Command, logs: TempDir, database_url: String) -> Self {
        let stderr = File::create(logs.path().join("stderr")).unwrap();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        within("the gateway to be ready", stdout.read_line(&mut line))
            .await
            .unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| {
            let stderr = fs::read_to_string(logs.path().join("stderr")).unwrap_or_default();
            panic!("{command:?} printed {line:?} ({error}); its log:\n{stderr}---")
        });
        Self {
            ready,
            child,
            _stdout: stdout,
            logs,
            database_url,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// How many sockets it holds; files are the database's, which opens them as it needs them.
    pub fn sockets(&self) -> usize {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = descriptors.filter_map(|descriptor| {
            let target = fs::read_link(descriptor.ok()?.path()).ok()?;
            Some(target.to_string_lossy().into_owned())
        });
        targets
            .filter(|target| target.starts_with("socket:"))
            .count()
    }

    /// Where devices connect.
    pub fn mqtt(&self) -> SocketAddr {
        self.ready.mqtt.expect("the plain listener is on")
    }

    /// Asks the operator's port: status code and body.
    pub async fn get(&self, path: &str) -> (u16, String) {
        http::get(self.ready.http, path).await
    }

    /// Waits until it says that it is ready.
    pub async fn until_ready(&self) {
        eventually("the gateway is ready", async || {
            match self.get("/readyz").await {
                (200, _) => Ok(()),
                (status, body) => Err(format!("{status}: {body}")),
            }
        })
        .await;
    }

    /// Waits until it says that it is not ready, and these words of why. A server that is killed is missed only some
    /// milliseconds later.
    pub async fn until_not_ready(&self, why: &str) {
        eventually("the gateway is not ready", async || {
            match self.get("/readyz").await {
                (503, body) if body.contains(why) => Ok(()),
                (status, body) => Err(format!("{status}: {body}, but for: {why}")),
            }
        })
        .await;
    }

    /// The value of a metric, `name` with its labels as `/metrics` prints it; 0 where it is not there yet.
    pub async fn metric(&self, name: &str) -> f64 {
        http::metric(self.ready.http, name).await
    }

    /// Where its catalogue is.
    pub fn database_url(&self) -> &str {
        &self.database_url
    }

    /// Adds devices NAME0, NAME1, … of the product `demo` to its database.
    pub fn add_devices(&self, name: &str, count: usize) -> Vec<DemoDevice> {
        let count = count.to_string();
        let added = jetway(
            &["device", "add", "demo", name, "--count", &count, "--json"],
            &[("JETWAY_DATABASE_URL", &self.database_url)],
        );
        let devices = added.lines().map(serde_json::from_str);
        devices.collect::<Result<_, _>>().unwrap()
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.logs.path().join("stderr")).unwrap_or_default()
    }

    /// Kills it as a crash would; returns when it is gone.
    pub async fn kill9(&mut self) {
        self.child.start_kill().unwrap();
        self.wait().await;
    }

    /// Asks it to drain and stop (SIGTERM); `wait` tells when it did.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Asks it to read its certificates again (SIGHUP).
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Stops its process for a while (SIGSTOP): its sockets stay open and nothing is answered, from when this returns on.
    pub async fn pause(&self) {
        self.signal(Signal::STOP);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        eventually("the gateway is stopped", async || {
            match waitid(WaitId::Pid(self.process()), stopped) {
                Ok(Some(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).unwrap();
    }

    fn process(&self) -> Pid {
        let pid = self.child.id().expect("the gateway runs");
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    /// Waits until it ends.
    pub async fn wait(&mut self) -> ExitStatus {
        within("the gateway to end", self.child.wait())
            .await
            .unwrap()
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of jetway {}:\n{}---", self.ready.pid, self.log());
        }
    }
}

/// The binary, with nothing in its environment that would configure it behind the test's back.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("JETWAY_")) {
        command.env_remove(name);
    }
    command
}
