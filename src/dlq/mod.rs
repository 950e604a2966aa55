//! Dead letters: what could not be mapped, handled or delivered, kept in stream `DLQ` with its original bytes and the reason.
//!
//! `writer` keeps what the gateway gives up, `once` what its workers do, `collector` what services give up; `shelf` is where an operator looks at them,
//! replays and drops them.

mod collector;
mod filter;
mod once;
mod shelf;
mod store;
mod writer;

pub use collector::Collector;
pub use filter::Filter;
pub use once::{Kept, NotKept, Once};
pub use shelf::{Action, Shelf, Walk, described};
pub use store::Error;
pub use writer::DeadLetters;

/// The stream of all dead letters.
pub const STREAM: &str = "DLQ";
