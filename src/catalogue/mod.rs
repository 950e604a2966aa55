//! The catalogue: products, devices with their secrets and states, certificates, and which gateway device acts for which
//! sub-devices, in the SQL database. The only place with SQL about them.
//!
//! `tables` opens it, `find` answers logins, `page` lists, `write`, `import`, `product`, `certificate`, `rule`, `binding`,
//! `registration` and `nonce` change it, `sealing` keeps secrets from who reads the database, a `notice` tells all nodes. It does not
//! cache and does not judge logins.
//!
//! Invariants: names are told apart by their bytes, on each kind of database; a batch is stored whole or not at all; an existing
//! device is never overwritten; no secret is logged.

mod binding;
mod certificate;
mod columns;
mod config;
mod error;
mod find;
mod import;
mod nonce;
mod notice;
mod page;
mod product;
mod record;
mod registration;
mod rule;
mod sealing;
mod statement;
mod tables;
mod write;

pub use binding::SUB_DEVICES_MAX;
pub use certificate::Fingerprint;
pub use config::Config;
pub use error::Error;
pub use find::FIND_MAX;
pub use import::{Imported, Outcome};
pub use nonce::Nonce;
pub use notice::{Notice, What, tell};
pub use page::Filter;
pub use product::Product;
pub use record::{Listed, Record, Shown, State};
pub use registration::{ProductSecret, Registration};
pub use sealing::Keys;
pub use tables::Catalogue;
pub use write::Resealed;

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
