//! STEP 3: who is it. A CONNECT's client id, user name and password become an authenticated
//! [`Device`](crate::device::Device), or a refusal with its reason.
//!
//! `credentials` is pure: what a device says and whether a secret proves it. `devices` is the database of products
//! and devices, `lookups` asks it for many at once. `authenticate` joins these behind a bounded cache. `exchange` does the same for the enhanced
//! authentication of MQTT 5, whose one method so far is `scram`.
//!
//! Invariants: a database that is slow or away never turns into "bad credentials"; no secret is logged.

pub mod acl;
pub mod authenticate;
pub mod credentials;
pub mod devices;
pub mod exchange;
mod lookups;
pub mod scram;

pub use authenticate::{Authenticator, Config, Denied, Error};
pub use devices::Devices;
pub use exchange::{Exchange, Step};
