//! The outbox in its database: rows written by business transactions, claimed and settled by relays, looked after by operators.
//!
//! The only place with SQL about them. A row is of an aggregate, and an aggregate of one of 64 shards. Whoever claims rows takes
//! their shards with a lease, so of a shard at most one claim is out, and the order of each aggregate needs nothing more.
//! An aggregate with a row that could not be published becomes a lane: its rows wait there, out of the others' way.
//! Invariants: what settles a claim changes only rows that are in it still; claims, counts and purges read no published row that
//! they do not want. All times are the database's, since relays disagree about the time.

mod claim;
mod dialect;
mod enqueue;
mod event;
mod filter;
mod open;
mod operate;
mod plans;
mod row;
mod settle;
mod stats;
mod wake;

pub use claim::{Claim, Terms};
pub use dialect::CHANNEL;
pub use enqueue::Enqueue;
pub use event::Event;
pub use filter::{Filter, Status};
pub use open::{Error, Store};
pub use operate::{Action, Listed, Shown};
pub use row::{Answer, Row};
pub use settle::{Policy, Settled};
pub use stats::Stats;
pub use wake::Wake;
