//! STEP 3: who is it. A CONNECT's client id, user name and password become an authenticated
//! [`Device`](crate::device::Device), or a refusal with its reason.
//!
//! `attempt` is what a CONNECT says and what a `step` of the chain answers; `authenticate` asks the steps in their order.
//! `credentials` is pure: what a device says and whether a secret proves it. `records` is what logins see of the
//! catalogue: through a bounded cache, a time limit and a `breaker`; `lookups` asks it for many devices at once. A `gate` is the same
//! for other sources. `registrar` answers what `registration` reads from devices that have no secret yet, `replay` lets it in once, and
//! `activation` notes who logged in. `exchange` is the enhanced authentication of MQTT 5, whose one method so far is `scram`.
//!
//! Invariants: a source that is slow or away never turns into "bad credentials"; no secret is logged.

pub mod acl;
pub mod activation;
mod attempt;
pub mod authenticate;
mod breaker;
pub mod credentials;
mod denied;
pub mod exchange;
pub mod gate;
mod lookups;
mod metrics;
mod product_rules;
mod records;
pub mod registrar;
pub mod registration;
pub mod replay;
pub mod scram;
pub mod step;

pub use activation::Activation;
pub use attempt::{Attempt, Decision, Verdict};
pub use authenticate::{Authenticator, Config};
pub use denied::{Denied, Error, Refusal, Unavailable};
pub use exchange::{Exchange, Step};
pub use metrics::Metrics;
pub use product_rules::ProductRules;
pub use registrar::Registrar;
pub use replay::ReplayWindow;
