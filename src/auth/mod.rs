//! STEP 3: who is it. A CONNECT's client id, user name and password become an authenticated
//! [`Device`](crate::device::Device), or a refusal with its reason.
//!
//! `credentials` is pure: what a device says and whether a secret proves it. `authenticate` joins it with the catalogue of
//! devices behind a bounded cache, `lookups` asks for many devices at once. `exchange` does the same for the enhanced
//! authentication of MQTT 5, whose one method so far is `scram`.
//!
//! Invariants: a database that is slow or away never turns into "bad credentials"; no secret is logged.

pub mod acl;
pub mod authenticate;
pub mod credentials;
pub mod exchange;
mod lookups;
pub mod scram;

pub use authenticate::{Authenticator, Config, Denied, Error};
pub use exchange::{Exchange, Step};
