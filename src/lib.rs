//! Jetway.
pub mod device;
pub mod message;
