//! FLOW: a stored message → the sessions that subscribed to it.
//!
//! Every node reads the delivery stream by one ordered consumer ([`Live`]); the router says whose mailboxes want a message: no
//! subscription, channel, task or consumer per device (PERFORMANCE). What a session missed is read back by its connection.

mod config;
mod delivery;
mod finished;
mod lifetimes;
mod live;
mod metrics;
mod report;
mod retained;
mod share;
mod share_holders;
mod share_members;
mod share_token;
mod shared;

pub use config::Config;
pub use delivery::Delivery;
pub use finished::{Finished, Lost, Parts, Removals};
pub use lifetimes::Lifetimes;
pub use live::{Live, read};
pub use metrics::{Metrics, Outcome};
pub use report::{Receipt, Reports};
pub use retained::Retained;
pub use share::Share;
pub use share_token::ShareToken;
pub use shared::{Leave, SharedSubscription, Shares, Source};
