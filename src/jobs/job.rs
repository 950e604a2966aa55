//! What a job is: a name, a limit, and what it does; and what it is given to do it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::Error;
use super::run::Line;
use super::store;
use crate::database::Transaction;
use crate::telemetry;

/// Lines that a run may say; what it says beyond them is left out.
const LINES_MAX: i64 = 1_000;
/// Characters of one of them.
const LINE_CHARS_MAX: usize = 2_000;

/// What a job does: gives in a few words what came of it. It is dropped when its time is over, so it keeps nothing half done
/// outside of a transaction.
pub type Work = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

/// A job.
#[derive(Clone)]
pub struct Job {
    /// What it is called by.
    pub name: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// How long a run may take.
    pub limit: Duration,
    /// What it does.
    pub work: Arc<dyn Fn(Context) -> Work + Send + Sync>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).finish()
    }
}

/// All jobs, by their exact names.
#[derive(Debug, Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Job>);

impl Registry {
    /// Adds a job; one of the same name is replaced.
    pub fn add(&mut self, job: Job) {
        self.0.insert(job.name, job);
    }

    /// All of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.0.values()
    }

    /// The job of exactly this name.
    ///
    /// # Errors
    /// [`Error::Unknown`], which names those that there are.
    pub fn get(&self, name: &str) -> Result<&Job, Error> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().copied().collect();
            Error::Unknown(name.to_owned(), names.join(", "))
        })
    }
}

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// The caller's parameters.
    pub params: String,
    pub(super) fence: Fence,
    pub(super) log: Log,
}

impl Context {
    /// Says a line, for whoever reads the run's log.
    pub fn say(&self, text: &str) {
        self.log.say(text);
    }

    /// Makes sure in the job's own transaction that this run still has the lock: what is written in it is kept only then.
    ///
    /// # Errors
    /// [`Error::LockLost`] when another run may have it; the database's.
    pub async fn hold(&self, on: &mut Transaction) -> Result<(), Error> {
        let Fence { name, run, lease } = &self.fence;
        match store::hold(on, name, run, *lease).await? {
            true => Ok(()),
            false => Err(Error::LockLost),
        }
    }
}

/// Which lock a run has.
#[derive(Debug, Clone)]
pub(super) struct Fence {
    pub(super) name: &'static str,
    pub(super) run: String,
    pub(super) lease: Duration,
}

/// What a run said and is not kept yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Log(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    count: i64,
    lines: Vec<Line>,
}

impl Log {
    pub(super) fn say(&self, text: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.count >= LINES_MAX {
            return;
        }
        said.count += 1;
        let text = match said.count {
            LINES_MAX => "… what follows is left out".to_owned(),
            _ => text.chars().take(LINE_CHARS_MAX).collect(),
        };
        let line = Line {
            number: said.count,
            at_ms: i64::try_from(telemetry::now_unix_ms()).unwrap_or(i64::MAX),
            text,
        };
        said.lines.push(line);
    }

    /// The lines that are not kept yet.
    pub(super) fn unsaved(&self) -> Vec<Line> {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.lines.clone()
    }

    /// These are kept.
    pub(super) fn saved(&self, lines: &[Line]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.lines.drain(..lines.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_bounded_and_says_so() {
        let log = Log::default();
        for number in 0..2_000 {
            log.say(&format!("line {number} {}", "x".repeat(3_000)));
        }
        let mut lines = log.unsaved();
        log.saved(&lines);
        assert_eq!(lines.len(), 1_000);
        assert!(lines.iter().all(|line| line.text.chars().count() <= 2_000));
        assert_eq!(lines.pop().unwrap().text, "… what follows is left out");
        log.say("more");
        assert_eq!(log.unsaved(), []);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let mut registry = Registry::default();
        registry.add(Job {
            name: "known",
            about: "",
            limit: Duration::ZERO,
            work: Arc::new(|_| Box::pin(async { Ok(String::new()) })),
        });
        assert!(registry.get("known").is_ok());
        let error = registry.get("Known").unwrap_err().to_string();
        assert_eq!(error, "job \"Known\": unknown, expected one of known");
    }
}
