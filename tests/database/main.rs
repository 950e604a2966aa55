//! Databases and brokers of the tests, and what the gateway's database layer makes of real ones.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod devices;
#[cfg(test)]
mod fates;
#[cfg(test)]
mod import;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod migrations;
#[cfg(test)]
mod registration;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod silence;
