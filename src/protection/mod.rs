//! Who may take how much: places, rates, logins that fail too often, and what each device was refused.
//!
//! `rate` is the one measure, a token bucket. `places` counts connections of a source address or a product, `quota` what a device and
//! its product may send, `bans` who failed or came too often. `refusals` remembers for an operator what was refused to whom.
//! `guard` joins them for connections, `desk` tells of them on all nodes.
//!
//! All of it is one node's own: nodes share no counters, so a login asks nobody. Nothing here ends a connection that stands.

mod bans;
mod config;
mod desk;
mod guard;
mod places;
mod quota;
mod rate;
mod refusals;

pub use bans::{Ban, Kind, Why};
pub use config::{Config, Flapping, Logins, ProductLimits};
pub use desk::{Answer, Ask, Desk, Error, ask};
pub use guard::{Protection, Who};
pub use places::Source;
pub use quota::Allowance;
pub use refusals::{Reason, Refusal, Refusals};
