//! What gateway devices ask about the sub-devices behind them (profile §4.6), answered from the catalogue: `bind`, `unbind` and
//! `getTopo` on `$gateway/up/topo`, `online` and `offline` on `$gateway/up/status`.
//!
//! `request` reads, `answer` writes, `desk` does what is asked of the catalogue. Whose sub-devices are online is known to the gateway
//! device's connection alone, and not here. All other methods are for services.
//!
//! Invariant: a sub-device is bound to nobody without a signature with its own secret, which is good once where
//! `[auth.binding] replay_window_s` says so.

mod answer;
mod desk;
mod request;

pub use answer::Code;
pub use desk::{Bound, Desk};
pub use request::{Named, Request, Verb};
