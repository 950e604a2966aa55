//! One process of another program's server in a folder of its own: started, killed, paused, and gone when dropped.
//!
//! It dies with the test program however that ends, also when it belongs to a `static`, which nothing drops: the kernel
//! closes our end of a pipe then, and a shell at the other end stops the server with all of its children and removes the
//! folder. It does not know the server's protocol: each kind of server says itself when it is ready.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::wait::eventually;

/// Becomes the server (`exec` keeps the process id), after it left a watcher behind. The watcher is nobody's child, so that a
/// server does not wait for it. It asks the server to stop first: PostgreSQL gives its shared memory back only then.
const WITH_WATCHER: &str = r#"
folder=$1 signal=$2
shift 2
exec 3<&0
tree() {
    echo "$1"
    for child in $(grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | cut -d/ -f3); do tree "$child"; done
}
watch() {
    if read -r _ <&3; then return; fi
    all=$(tree $$)
    kill -CONT $all
    kill "-$signal" $$
    tries=0
    while kill -0 $$ && [ $tries -lt 100 ] && ! grep -q '^State:[[:space:]]*Z' /proc/$$/status; do
        tries=$((tries + 1))
        sleep 0.05
    done
    kill -9 $all
    rm -rf "$folder"
}
( watch >/dev/null 2>&1 & )
exec 3<&- </dev/null "$@"
"#;

/// What makes one kind of server.
pub struct Program {
    /// What it is called in messages.
    pub name: &'static str,
    /// The signal that ends it at once and in good order, as `kill` has it.
    pub stop: &'static str,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// What is set in its environment.
    pub environment: Vec<(&'static str, OsString)>,
}

/// A process that runs, or is killed and can be started again.
pub struct Server {
    program: Program,
    folder: TempDir,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    watcher: ChildStdin,
}

impl Server {
    /// Starts it. `folder` is its own: its log is added there, and it goes with the server.
    pub fn start(folder: TempDir, program: Program) -> Self {
        let server = Self {
            program,
            folder,
            running: Mutex::new(None),
        };
        server.run();
        server
    }

    /// Starts the process again after it was killed.
    pub fn run(&self) {
        let mut running = self.running();
        assert!(running.is_none(), "{} runs already", self.program.name);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .unwrap();
        let mut child = Command::new("sh")
            .args(["-c", WITH_WATCHER, "sh"])
            .arg(self.folder())
            .arg(self.program.stop)
            .args(&self.program.command)
            .envs(
                self.program
                    .environment
                    .iter()
                    .map(|(key, value)| (key, value)),
            )
            .current_dir(self.folder())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            // Ctrl-C in a terminal is for the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        let watcher = child.stdin.take().unwrap();
        *running = Some(Running { child, watcher });
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it logged, from its first start on.
    pub fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Whether the process has not ended by itself.
    pub fn is_running(&self) -> bool {
        let mut running = self.running();
        let ended = running.as_mut().map(|running| running.child.try_wait());
        matches!(ended, Some(Ok(None)))
    }

    /// Waits until `ready` says so.
    pub async fn listens(&self, mut ready: impl AsyncFnMut() -> Result<(), String>) {
        let name = self.program.name;
        eventually(&format!("{name} is ready"), async || {
            assert!(self.is_running(), "{name} ended by itself");
            ready().await
        })
        .await;
    }

    /// Kills it and all its children as a power cut would (SIGKILL); returns when they are gone. Its folder stays.
    pub async fn kill9(&self) {
        let Some(mut running) = self.running().take() else {
            return;
        };
        let all = self.stop_all(&running).await;
        // Sends the watcher home.
        running.watcher.write_all(b"\n").unwrap();
        for pid in &all {
            signal(*pid, Signal::KILL);
        }
        running.child.wait().unwrap();
        eventually("all its children are gone", async || {
            match all
                .iter()
                .find(|pid| state(**pid).is_some_and(|state| state != 'Z'))
            {
                Some(left) => Err(format!("process {left} is there")),
                None => Ok(()),
            }
        })
        .await;
    }

    /// Stops it and all its children for a while (SIGSTOP): connections stay open and nothing is answered, from when this
    /// returns on.
    pub async fn pause(&self) {
        let running = self.running().take().expect("it runs");
        self.stop_all(&running).await;
        *self.running() = Some(running);
    }

    /// Lets a paused one go on (SIGCONT).
    pub fn resume(&self) {
        let running = self.running();
        let child = &running.as_ref().expect("it runs").child;
        for pid in descendants(child.id()) {
            signal(pid, Signal::CONT);
        }
    }

    /// Stops every process, also those that are started meanwhile, and returns them.
    async fn stop_all(&self, running: &Running) -> Vec<u32> {
        eventually("every process is stopped", async || {
            let all = descendants(running.child.id());
            let moving: Vec<u32> = all
                .iter()
                .copied()
                .filter(|pid| state(*pid).is_some_and(|state| !"TtZ".contains(state)))
                .collect();
            for pid in &moving {
                signal(*pid, Signal::STOP);
            }
            if moving.is_empty() {
                Ok(all)
            } else {
                Err(format!("{moving:?} run"))
            }
        })
        .await
    }

    /// Kills it if it runs, starts it again, and waits until `ready` says so.
    pub async fn restart(&self, ready: impl AsyncFnMut() -> Result<(), String>) {
        self.kill9().await;
        self.run();
        self.listens(ready).await;
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("log")
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(100)..].join("\n");
            eprintln!("--- end of the log of {}:\n{end}\n---", self.program.name);
        }
        if let Some(mut running) = self.running().take() {
            drop(running.watcher);
            drop(running.child.wait());
        }
    }
}

/// A name that no other server's user or database has, so that nobody takes another's server for its own.
pub fn own_name() -> String {
    format!(
        "jetway_{}",
        &uuid::Uuid::now_v7().simple().to_string()[20..]
    )
}

/// Runs a program that prepares a server, to its end.
pub fn prepare(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}",
        output.status
    );
}

/// The process and all below it, parents first.
fn descendants(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, stat(pid)?.1))
        })
        .collect();
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        all.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    all
}

fn state(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// State and parent; the program's name before them may have any character.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It fails only when the process has ended meanwhile.
    kill_process(pid, signal).ok();
}
