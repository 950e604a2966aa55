//! Step `password`: user name and password of an application, from a file with Argon2 hashes.
//!
//! Each user comes in as one device, whose name is in the client id. The file is read again when it changes; one that cannot be
//! read leaves the users that there were.
//!
//! Invariants: hashing is done beside the runtime's threads, by so many at once as `limits.inflight_max` says and for no longer than
//! the hash's bounded cost, also for logins that are given up; a user name that is not in the file costs nothing.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use argon2::{Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _};
use serde::Deserialize;

use crate::auth::attempt::{Attempt, Decision, Verdict};
use crate::auth::denied::{Denied, Refusal, Unavailable};
use crate::auth::gate::{Gate, Limits, Room};
use crate::auth::step::claimed;
use crate::device::DeviceId;

/// How often the file is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How many random bytes a new hash has.
const SALT_BYTES: usize = 16;
/// What one hash may take: memory in KiB, passes over it, lanes.
const COST_MAX: (u32, u32, u32) = (256 * 1024, 16, 16);

/// Who may come in with a password (`[auth.password]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// TOML: `[[user]]` tables with `name`, `hash` (`$argon2id$…`, the PHC form), `product` and `device`.
    pub file: PathBuf,
    /// Time, cache, and how many passwords are hashed at once.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            limits: Limits {
                timeout_ms: 5_000,
                inflight_max: 2,
                ..Limits::default()
            },
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`; reads the file.
    pub(in crate::auth) fn validate(&self) -> Vec<String> {
        let mut faults = self.limits.validate();
        if let Err(fault) = Users::read(&self.file) {
            faults.push(format!("file: {}: {fault}", self.file.display()));
        }
        faults
    }
}

/// A user as the file has it. Its `Debug` form leaves out the hash.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    hash: String,
    product: String,
    device: String,
}

/// A user that may come in.
struct User {
    hash: PasswordHash,
    device: DeviceId,
}

struct Users(HashMap<String, Arc<User>>);

impl Users {
    /// Reads the file.
    ///
    /// # Errors
    /// What was expected; the text holds no hash.
    fn read(path: &Path) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            user: Vec<Row>,
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let file: File = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
        let mut users = HashMap::new();
        for row in file.user {
            let of = |fault: &dyn fmt::Display| format!("user {:?}: {fault}", row.name);
            let hash = PasswordHash::new(&row.hash)
                .ok()
                .filter(is_affordable)
                .ok_or_else(|| of(&"hash: expected $argon2id$v=19$m=…,t=…,p=…$salt$hash of at most 256 MiB, 16 passes and 16 lanes"))?;
            let device = DeviceId::new(&row.product, &row.device).map_err(|fault| of(&fault))?;
            if users.contains_key(&row.name) {
                return Err(of(&"expected once"));
            }
            users.insert(row.name, Arc::new(User { hash, device }));
        }
        Ok(Self(users))
    }
}

fn is_affordable(hash: &PasswordHash) -> bool {
    let (memory, passes, lanes) = COST_MAX;
    hash.algorithm.as_str().starts_with("argon2")
        && hash.hash.is_some()
        && Params::try_from(hash).is_ok_and(|params| {
            params.m_cost() <= memory && params.t_cost() <= passes && params.p_cost() <= lanes
        })
}

/// The step.
pub(in crate::auth) struct Password {
    file: PathBuf,
    state: Arc<Mutex<State>>,
    gate: Gate,
}

struct State {
    users: Users,
    /// Of the file when it was last read, whatever came of it.
    stamp: Option<(SystemTime, u64)>,
    next_check: Instant,
}

impl Password {
    /// None where the file cannot be used.
    pub(in crate::auth) fn new(config: &Config) -> Option<Self> {
        let state = State {
            // Looked at before it is read: a change in between is seen the next time.
            stamp: stamp(&config.file),
            users: Users::read(&config.file).ok()?,
            next_check: Instant::now(),
        };
        Some(Self {
            file: config.file.clone(),
            state: Arc::new(Mutex::new(state)),
            gate: Gate::new(&config.limits),
        })
    }

    pub(super) async fn ask(
        &self,
        now: Instant,
        attempt: &Attempt<'_>,
    ) -> Result<Verdict, Unavailable> {
        let (Some(username), Some(password)) = (attempt.username, attempt.password) else {
            return Ok(Verdict::Pass(None));
        };
        self.check(now).await;
        let user = lock(&self.state).users.0.get(username).cloned();
        let Some(user) = user else {
            return Ok(Verdict::Pass(None));
        };
        let client_id = attempt.client_id;
        let source = |room| async { verify(room, user, password.to_vec(), client_id).await };
        self.gate.ask(now, attempt, source).await
    }

    /// Reads the file again if it changed.
    async fn check(&self, now: Instant) {
        {
            let mut state = lock(&self.state);
            if now < state.next_check {
                return;
            }
            state.next_check = now + CHECK_INTERVAL;
        }
        let (file, state) = (self.file.clone(), Arc::clone(&self.state));
        // Files may be on a slow disk, and this thread has connections to serve.
        let read = tokio::task::spawn_blocking(move || reload(&file, &state));
        if let Err(error) = read.await {
            tracing::error!(%error, "users not read");
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn reload(file: &Path, state: &Mutex<State>) {
    let stamp = stamp(file);
    if lock(state).stamp == stamp {
        return;
    }
    let read = Users::read(file);
    let mut state = lock(state);
    state.stamp = stamp;
    match read {
        Ok(users) => state.users = users,
        Err(fault) => {
            tracing::error!(file = %file.display(), fault, "users not read, the old ones stay");
        }
    }
}

/// Hashes the password. The room is kept for as long as that takes, whether or not somebody still waits for it.
async fn verify(
    room: Room,
    user: Arc<User>,
    password: Vec<u8>,
    client_id: &str,
) -> Result<Verdict, Unavailable> {
    let device = user.device.clone();
    let hashed = tokio::task::spawn_blocking(move || {
        let verified = Argon2::default().verify_password(&password, &user.hash);
        drop(room);
        verified.is_ok()
    });
    let is_right = hashed
        .await
        .map_err(|error| Unavailable::Source(error.to_string()))?;
    if !is_right {
        return Ok(Verdict::Deny(Denied::Refused(Refusal::Password)));
    }
    Ok(match claimed(client_id) {
        Ok(claimed) if claimed == device => Verdict::Accept(Decision::of(device)),
        Ok(_) | Err(_) => Verdict::Deny(Denied::Refused(Refusal::OtherDevice("user name", device))),
    })
}

/// The hash of a password, with a random salt, in the form that the file has: Argon2id with 19 MiB and two passes.
///
/// # Errors
/// What the system does not give.
pub fn hash(password: &str) -> Result<String, String> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|error| error.to_string())?;
    let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    hash.map(|hash| hash.to_string())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "password_tests.rs"]
mod tests;
