//! What the kernel knows about a process: CPU time and resident memory.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The unit of CPU times in `/proc`: 100 a second on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// CPU time that a process has used, in user and kernel mode together.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    // Behind the name, which may hold anything, the 12th and 13th fields.
    let (_, fields) = stat.rsplit_once(')').context(path)?;
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u32> = fields.map(str::parse).collect::<Result<_, _>>()?;
    Ok(TICK * ticks.iter().sum::<u32>())
}

/// Resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<f64> {
    memory(pid, "VmRSS:")
}

/// The most resident memory that a process has had, in bytes.
pub(crate) fn peak_bytes(pid: u32) -> Result<f64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, which: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status.lines().find_map(|line| line.strip_prefix(which));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    let kibibytes: f64 = kibibytes.context(path)?.parse()?;
    Ok(kibibytes * 1024.0)
}
