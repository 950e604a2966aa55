//! GPS reports: from what devices send to rows, latest positions and outbox rows, in SQLite, PostgreSQL and MariaDB alike.
//!
//! The workers are real processes, the databases real servers, and devices speak MQTT to a real gateway.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod databases;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod random;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod site;
#[cfg(test)]
mod store;
#[cfg(test)]
mod tracks;
