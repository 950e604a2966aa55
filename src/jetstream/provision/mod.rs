//! The streams and durables exist and are what `subjects/` says.
//!
//! A missing one is created. One that differs is reported key by key and left alone, unless the operator asked for it to be
//! applied: someone may have had a reason. What the gateway cannot work without is an error, not a report.
//! `stream` and `durable` are one of each, `plan` is all of them, `watch` looks again while the gateway runs, `floors` is how
//! far durables were, `risk` what a stream may drop too early, `api` the requests.

mod api;
mod difference;
mod durable;
mod floors;
mod plan;
mod risk;
mod stream;
mod watch;

pub(super) use api::{refused, request};
pub use difference::Difference;
pub use durable::{Durable, ensure_durables};
pub use floors::Floors;
pub use plan::{Action, Applied, Change, Kind, apply, plan};
pub use risk::{Limit, Risk, risks};
pub use stream::{Durability, Stream, created, ensure, missing, register};
pub(super) use stream::{keeps, replicas};
pub use watch::{Config, Watch};
