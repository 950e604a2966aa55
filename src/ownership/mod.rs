//! FLOW: who holds a device's session, and what outlives its connection; all of it in JetStream, nothing on the node.
//!
//! A connection *claims* its device's key in the bucket of sessions by compare-and-set; the revision of that write is the
//! epoch. Whoever held it is asked to let go, here or on its node, and if it does not answer, it is fenced: no later write
//! of it succeeds. A node keeps a lease; when that ends, another node takes over what the dead one owed: the status
//! `disconnected`, Wills, the end of sessions.
//!
//! Invariants: one holder for each key; what a holder wrote last is what the next one finds; nothing is reported twice.

mod claim;
mod config;
mod document;
mod fence;
mod held;
mod lease;
mod orphan;
mod release;
mod standing;
mod turns;
mod will;

pub use claim::{Before, Claim, Ownership, Request};
pub use config::Config;
pub use document::WillMessage;
pub use held::{End, Held};
pub use orphan::{Kind, Orphan};
pub use standing::Standing;
pub use turns::Turn;
pub use will::Wills;

use crate::jetstream::bucket;

/// The bucket of sessions; its keys are `P.D`. Keys of one and three tokens beside them are shared subscriptions.
pub const SESSIONS: &str = "jetway_sessions";
/// The bucket of node leases; its keys are the runs of nodes.
pub const NODES: &str = "jetway_nodes";

/// Why a session could not be claimed or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another connection holds it now: this one may write nothing any more.
    #[error("another connection holds the session")]
    Fenced,
    /// The node that holds it is alive and does not answer: it may have something to write yet.
    #[error("node {0} holds the session and does not answer")]
    Busy(Box<str>),
    /// The bucket did not answer; what was asked may have been done or not.
    #[error("the sessions in JetStream cannot be reached: {0}")]
    Unavailable(#[from] bucket::Error),
}
