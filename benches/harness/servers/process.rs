//! Starting a program, and waiting until it listens.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a server may take to listen.
pub(super) const START_MAX: Duration = Duration::from_secs(30);
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Starts a program that ends when it is dropped; what it says goes to a file.
pub(super) fn spawn(program: &OsStr, config: &Path) -> Result<Child> {
    let log = std::fs::File::create(log_of(config))?;
    Command::new(program)
        .arg("-c")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}; is it installed?", program.display()))
}

fn log_of(config: &Path) -> std::path::PathBuf {
    config.with_extension("log")
}

pub(super) fn pid(child: &Child) -> Result<u32> {
    child.id().context("it has ended")
}

/// So many free addresses, no two the same.
pub(super) fn free_addresses(count: usize) -> Result<Vec<SocketAddr>> {
    let listeners: Result<Vec<TcpListener>, _> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect();
    let addresses: Result<Vec<SocketAddr>, _> =
        listeners?.iter().map(TcpListener::local_addr).collect();
    Ok(addresses?)
}

/// Waits until the program of this configuration listens there; if it ends or hangs, the error has what it said.
pub(super) async fn listening(child: &mut Child, config: &Path, address: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + START_MAX;
    while TcpStream::connect(address).await.is_err() {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() > deadline {
            let said = std::fs::read_to_string(log_of(config)).unwrap_or_default();
            bail!(
                "nobody listens on {address}; {} said:\n{said}",
                config.display()
            );
        }
        sleep(LOOK).await;
    }
    Ok(())
}
