//! Second opinions: clients of other makers, as users have them, against the gateway.
//!
//! Devices on Eclipse paho and scramp for Python and on mosquitto's command line tools, in both versions; services on nats-py and on
//! async-nats, which are the examples of the README. A tool that is missing fails its test: `deploy/test.sh` installs it.

#[path = "../support/mod.rs"]
mod support;

mod backend;
#[cfg(test)]
mod backends;
#[cfg(test)]
mod mosquitto;
#[cfg(test)]
mod paho;
#[cfg(test)]
mod scram;
