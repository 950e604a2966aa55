//! Databases and brokers of the tests, and what the gateway's database layer makes of real ones.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod servers;
