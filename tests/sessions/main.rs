//! Sessions outlive connections, gateways and nodes: what was promised to a client is true wherever it comes back.
//!
//! Promises: G-ONCE, G-DOWN, G-STATUS; behaviours G01, G02, G07, G10, G28, G29. Gateways are processes that are killed or
//! stopped (SIGKILL, SIGSTOP) between two steps of a client that does each step by itself.
//!
//! `JETWAY_SOAK_SECONDS=60` makes each test with random moments go on for so long instead of a fixed number of rounds;
//! `JETWAY_SEED` repeats the choices of an earlier run, which printed it.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod alternating;
#[cfg(test)]
mod backlog;
#[cfg(test)]
mod client;
#[cfg(test)]
mod exactly_once_down;
#[cfg(test)]
mod exactly_once_up;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod fenced;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod random;
#[cfg(test)]
mod random_clients;
#[cfg(test)]
mod release;
#[cfg(test)]
mod site;
#[cfg(test)]
mod slow;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod will;
#[cfg(test)]
mod will_across_nodes;
