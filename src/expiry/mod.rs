//! FLOW: a stored downlink that nobody took → reported and removed when its lifetime is over.
//!
//! Of what is delivered, and of what a connection finds too late, `downlink` takes care; here is what waits for devices that do
//! not come back.

mod janitor;

pub use janitor::Janitor;
