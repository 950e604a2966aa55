//! The time that is measured, what was counted in it, and what processes used meanwhile.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::sleep_until;

use crate::arguments::Arguments;
use crate::check::Published;
use crate::client::Client;
use crate::histogram::Sample;
use crate::process::{cpu_time, resident_bytes};
use crate::target::Target;

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Answers within the time.
    pub(crate) samples: Vec<Sample>,
    /// What each device published; empty if the stream is not to be compared.
    pub(crate) published: Vec<Published>,
    pub(crate) elapsed: Duration,
    pub(crate) usage: Vec<Usage>,
    /// Figures of one scenario: what, how much, unit.
    pub(crate) figures: Vec<(String, f64, &'static str)>,
}

/// What a process used within the time.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    pub(crate) name: String,
    pub(crate) cpu: Duration,
    /// At the end.
    pub(crate) resident_bytes: f64,
    /// CPU time of each second.
    pub(crate) seconds: Vec<Duration>,
}

/// From when to when answers count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

impl Span {
    pub(crate) fn after_warm_up(arguments: &Arguments) -> Self {
        let begin = Instant::now() + Duration::from_secs(arguments.warm_up);
        Self {
            begin,
            end: begin + Duration::from_secs(arguments.seconds),
        }
    }

    /// The answer that came at `now` to what began at `since`; none outside the time.
    pub(crate) fn sample(self, since: Instant, now: Instant) -> Option<Sample> {
        let within = self.begin <= now && now < self.end;
        within.then(|| Sample::new(now - self.begin, now - since))
    }
}

/// Answers so far, for the line on the terminal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<AtomicU64>);

impl Tally {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks at the processes from the span's beginning to its end, a second each, and says on the terminal how it goes.
pub(crate) async fn watch(target: &Target, span: Span, tally: &Tally) -> Result<Vec<Usage>> {
    let own = ("this client".to_owned(), std::process::id());
    let mut watched = Vec::new();
    for (name, pid) in target.watched.iter().chain([&own]) {
        let usage = Usage {
            name: name.clone(),
            cpu: Duration::ZERO,
            resident_bytes: 0.0,
            seconds: Vec::new(),
        };
        watched.push((*pid, Duration::ZERO, usage));
    }
    sleep_until(span.begin.into()).await;
    for (pid, last, _) in &mut watched {
        *last = cpu_time(*pid)?;
    }
    let mut count = tally.get();
    let mut at = span.begin;
    while at < span.end {
        at = (at + Duration::from_secs(1)).min(span.end);
        sleep_until(at.into()).await;
        for (pid, last, usage) in &mut watched {
            let now = cpu_time(*pid)?;
            usage.cpu += now - *last;
            usage.seconds.push(now - *last);
            *last = now;
        }
        let now = tally.get();
        line(target, at - span.begin, span, now - count);
        count = now;
    }
    for (pid, _, usage) in &mut watched {
        usage.resident_bytes = resident_bytes(*pid)?;
    }
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    Ok(watched.into_iter().map(|(_, _, usage)| usage).collect())
}

fn line(target: &Target, at: Duration, span: Span, rate: u64) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let (at, all) = (at.as_secs(), (span.end - span.begin).as_secs());
        let text = format!("\r{}: {at}/{all} s, {rate}/s   ", target.name);
        // A line that cannot be written is not worth the run.
        drop(stderr.write_all(text.as_bytes()));
    }
}

/// Connects devices `from` to `to`, some at a time.
pub(crate) async fn connect(
    target: &Target,
    arguments: &Arguments,
    numbers: std::ops::Range<usize>,
) -> Result<Vec<(usize, Client)>> {
    let server = target.server()?;
    let mut clients: Vec<(usize, Client)> = stream::iter(numbers)
        .map(async |number| {
            let login = target.login(number)?;
            anyhow::Ok((number, Client::connect(server, &login).await?))
        })
        .buffer_unordered(arguments.connects.max(1))
        .try_collect()
        .await?;
    clients.sort_unstable_by_key(|(number, _)| *number);
    Ok(clients)
}
