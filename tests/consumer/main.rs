//! The consumer library with a real nats-server and a real database: sharing, retries, dead letters, the inbox, stopping; and
//! its recipe for Python.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod stopping;
