//! `jetway-bench` itself: each scenario runs and reads back what it sent, and a message that is missing, twice or late is seen.
//!
//! With small loads for a second each: what it measures is not looked at, only that it measures.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod runs;
