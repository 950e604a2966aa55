//! One nats-server process with JetStream: started in a state folder, on one port for its whole life.
//!
//! The folder holds its configuration, its log and its store; a restart finds all of them again. The server runs in a
//! process group of its own, so that Ctrl-C in a terminal reaches the gateway alone, which stops the server last.
//! It also dies with us when we are killed: a shell that holds the other end of a pipe of ours then kills it.
//! Invariant: a folder has one server at a time; two would destroy each other's store.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::cli::dev::nats_server::Error;
use crate::cli::dev::nats_server::binary::file_error;

/// Recovery of a large store happens before the server listens.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A server that was asked to stop flushes its store first.
const STOPPED_WITHIN: Duration = Duration::from_secs(20);
/// What is left of an earlier process of ours ends sooner.
const UNLOCKED_WITHIN: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Becomes the server (`exec` keeps the process id), after it left a watcher behind that kills it when standard input
/// ends without a line. We hold that pipe: the kernel closes it however we die. Linux alone has a signal for this, and
/// it comes when the *thread* ends that started the child, which is not ours to decide under a runtime.
const WITH_LIFELINE: &str = r#"
exec 3<&0
{ read -r _ <&3 || kill -9 $$; } &
exec 3<&- </dev/null "$@"
"#;

/// What [`NatsServer::start`] needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nats-server program, from [`locate`](super::locate).
    pub binary: PathBuf,
    /// The folder of its configuration, log and store; made when it is missing.
    pub state_dir: PathBuf,
    /// The port on 127.0.0.1; 0 means any free one, which then stays the same through restarts.
    pub port: u16,
}

/// A nats-server on 127.0.0.1. Dropping it kills the process.
#[derive(Debug)]
pub struct NatsServer {
    options: Options,
    pid: u32,
    child: Child,
    /// `None` once the process is known to have ended.
    lifeline: Option<ChildStdin>,
}

impl NatsServer {
    /// Starts the server and returns when it accepts connections and its streams are recovered.
    ///
    /// # Errors
    /// [`Error::InUse`] when the folder has a server, [`Error::NotRunning`] with the end of the server's log, or what
    /// failed in `state_dir`.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let log = lock_log(&options.state_dir).await?;
        let (child, pid, lifeline) = spawn(&options, log)?;
        let mut server = Self {
            options,
            pid,
            child,
            lifeline: Some(lifeline),
        };
        server.ready().await?;
        Ok(server)
    }

    /// The process id of the process that was started last.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.options.port
    }

    /// `nats://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.options.port)
    }

    /// The file its log goes to.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        log_file(&self.options.state_dir)
    }

    /// Waits until the process ends by itself. Cancel safe.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when the process cannot be waited for.
    pub async fn wait(&mut self) -> Result<ExitStatus, Error> {
        let ended = self.child.wait().await;
        let status = ended.map_err(|error| self.not_running(format!("was lost: {error}")))?;
        if let Some(mut lifeline) = self.lifeline.take() {
            // Sends the watcher home. It fails only when the watcher is gone already, which is the same to us.
            drop(lifeline.write_all(b"\n").await);
        }
        Ok(status)
    }

    /// Asks the server to stop, waits until it did, and kills it when it takes too long.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when the process cannot be waited for.
    pub async fn stop(&mut self) -> Result<ExitStatus, Error> {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok())
            && let Some(pid) = Pid::from_raw(pid)
        {
            // It fails only when the process has ended meanwhile, which `wait` tells.
            kill_process(pid, Signal::TERM).ok();
        }
        match timeout(STOPPED_WITHIN, self.wait()).await {
            Ok(ended) => ended,
            Err(_elapsed) => self.kill().await,
        }
    }

    /// Kills the server as a crash would (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when the process cannot be waited for.
    pub async fn kill(&mut self) -> Result<ExitStatus, Error> {
        // It fails only when the process has ended already, which `wait` tells.
        self.child.start_kill().ok();
        self.wait().await
    }

    /// Starts it again on the same port and store; one that still runs is stopped first.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop().await?;
        let log = lock_log(&self.options.state_dir).await?;
        let (child, pid, lifeline) = spawn(&self.options, log)?;
        self.child = child;
        self.pid = pid;
        self.lifeline = Some(lifeline);
        self.ready().await
    }

    /// Waits for the file in which the server tells its addresses: it writes it when it listens, and it listens when
    /// its store is recovered.
    async fn ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(port) = listening_port(&ports_dir(&self.options.state_dir), self.pid) {
                self.options.port = port;
                return Ok(());
            }
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => sleep(POLL_INTERVAL).await,
                Ok(None) => {
                    self.kill().await?;
                    return Err(self.not_running(format!("does not listen after {READY_WITHIN:?}")));
                }
                Ok(Some(status)) => {
                    return Err(self.not_running(format!("ended with {status} before it listened")));
                }
                Err(error) => return Err(self.not_running(format!("was lost: {error}"))),
            }
        }
    }

    fn not_running(&self, what: String) -> Error {
        let log = self.log_file();
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(10)..);
        Error::NotRunning {
            what,
            log,
            tail: tail.unwrap_or_default().join("\n"),
        }
    }
}

fn log_file(state_dir: &Path) -> PathBuf {
    state_dir.join("nats-server.log")
}

fn ports_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("ports")
}

/// The log file, locked. The server and its watcher have it open for as long as they live, and the lock with it, however
/// we end.
async fn lock_log(state_dir: &Path) -> Result<File, Error> {
    fs::create_dir_all(state_dir).map_err(file_error("create", state_dir))?;
    let path = log_file(state_dir);
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.map_err(file_error("open", &path))?;
    let deadline = Instant::now() + UNLOCKED_WITHIN;
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(log),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                sleep(POLL_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(state_dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &path)(error)),
        }
    }
}

fn spawn(options: &Options, log: File) -> Result<(Child, u32, ChildStdin), Error> {
    // A file of an earlier process that had the same id must not be taken for this one's.
    let ports_dir = ports_dir(&options.state_dir);
    match fs::remove_dir_all(&ports_dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(file_error("empty", &ports_dir)(error));
        }
        _ => fs::create_dir_all(&ports_dir).map_err(file_error("create", &ports_dir))?,
    }
    let config = options.state_dir.join("nats-server.conf");
    fs::write(&config, config_text(options)).map_err(file_error("write", &config))?;
    let not_started = |error| Error::Run(options.binary.display().to_string(), error);
    let mut command = Command::new("sh");
    command
        .args(["-c", WITH_LIFELINE, "sh"])
        .arg(&options.binary)
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().map_err(not_started)?)
        .stderr(log)
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(not_started)?;
    match (child.id(), child.stdin.take()) {
        (Some(pid), Some(lifeline)) => Ok((child, pid, lifeline)),
        _ => Err(not_started(io::ErrorKind::BrokenPipe.into())),
    }
}

/// JSON, which nats-server reads as its own format: paths need no second way of quoting.
fn config_text(options: &Options) -> String {
    // -1 asks for any free port.
    let port = match options.port {
        0 => -1,
        port => i32::from(port),
    };
    let config = serde_json::json!({
        "server_name": "jetway-dev",
        "host": "127.0.0.1",
        "port": port,
        "jetstream": { "store_dir": options.state_dir.join("jetstream") },
        "ports_file_dir": ports_dir(&options.state_dir),
    });
    format!("{config:#}\n")
}

/// The port in `<program>_<pid>.ports`; `None` until the file is there and whole.
fn listening_port(ports_dir: &Path, pid: u32) -> Option<u16> {
    let suffix = format!("_{pid}.ports");
    let file = fs::read_dir(ports_dir)
        .ok()?
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().ends_with(&suffix))?;
    let ports: serde_json::Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    let url = ports.get("nats")?.get(0)?.as_str()?;
    url.rsplit_once(':')?.1.parse().ok()
}
