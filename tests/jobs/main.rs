//! Jobs on each kind of database: one node at a time, their ends, the scheduler, an XXL-JOB admin, and what the three jobs write.
//! With real databases; the admin is an HTTP server that keeps what it is told.

#![allow(
    clippy::large_futures,
    reason = "a check runs on three databases at once, in one future"
)]

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
#[path = "../gateway/site.rs"]
#[expect(dead_code, reason = "the tests of flows use all of it")]
mod site;

#[cfg(test)]
mod databases;
#[cfg(test)]
mod executor;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod history;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod notifications;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod windows;
