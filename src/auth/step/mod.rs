//! The steps of the authentication chain, a file each. All answer an attempt with the same verdict.
//!
//! A step knows one kind of credentials. It passes on what is of another kind, and denies what is of its own and proves nothing; a
//! source that does not answer is [`Unavailable`](crate::auth::Unavailable), never a denial (G24).

pub mod certificate;
pub(super) mod device;
mod hook;
pub mod http;
mod jwks;
pub mod jwt;
mod kind;
pub mod nats;
pub mod password;
pub mod strict;

pub(super) use device::claimed;
pub use jwks::Reading;
pub use kind::Kind;
pub(super) use kind::Step;
use kind::names;
