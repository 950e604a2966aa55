//! Hostile input: every malformed packet, and peers that use TCP against us.
//!
//! The promise is G-ISOLATE: whatever one peer sends, it ends that peer's connection with the announced code and nothing
//! else. So a healthy neighbour is connected through all of it, publishes and receives in between, and must notice nothing.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod case;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod neighbour;
#[cfg(test)]
mod own;
#[cfg(test)]
mod random;
#[cfg(test)]
mod transport;

use support::Gateway;

/// Asserts that nothing in the gateway ended that should not have; a panic of one task is caught, and logged.
fn unharmed(gateway: &mut Gateway) {
    assert!(gateway.is_alive());
    let log = gateway.log();
    assert!(!log.contains("panicked"), "{log}");
}
