//! FLOW: connected / disconnected, to `DEVICE_STATUS` for the platform and to `APPLICATION` for applications.
//!
//! Events of one device are handed over while its ownership cannot change, and one shard stores them in that order
//! (G-STATUS, G28). A caller first takes a [`Slot`], so that publishing itself never waits.

mod event;
mod publish;

pub use publish::{Slot, Status};
