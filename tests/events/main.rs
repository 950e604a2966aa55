//! Application events: from what lies in the uplink stream to what lies in the stream of events, through real processes.
//!
//! The workers run as `jetway run` with the role `events` alone, as many as a test wants; the uplinks are published by the test
//! as a gateway would store them, or by a device through a gateway.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod load;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reports;
#[cfg(test)]
mod site;
#[cfg(test)]
mod workers;
