//! Random clients for a while, with servers dying under them, and a model that knows what must have been received.
//!
//! `JETWAY_SOAK_SECONDS=1800` lengthens the run, `JETWAY_SOAK_SEED` chooses another one or the same again: what every client
//! does in each of its lives and which server dies when follow from the seed. A failure prints what is wrong with the lines
//! of the journals that are about it; the whole journals are in the folder that it names.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod client;
#[cfg(test)]
mod connecting;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod handling;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod model;
#[cfg(test)]
mod report;
#[cfg(test)]
mod run;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod status;
#[cfg(test)]
mod verdict;
#[cfg(test)]
mod walk;
#[cfg(test)]
mod world;
