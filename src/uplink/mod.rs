//! FLOW: one PUBLISH from a device, start to end: acl → mapping → publisher. The PUBACK follows from the receipts.

mod answer;
mod flow;
mod routes;
mod span;

pub use answer::not_stored;
pub use flow::{Limits, Prepared, Sender, Uplink};

use crate::auth::acl;
use crate::mapping;
use crate::session::Problem;

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not this device's topic.
    #[error("not authorized: {0}")]
    NotAuthorized(acl::Denied),
    /// More of something than one message may have.
    #[error("above a limit: {}", .0.words)]
    Limit(Problem),
    /// No subject can be made of it.
    #[error("no subject for this message: {0}")]
    Unmapped(#[from] mapping::Error),
}
