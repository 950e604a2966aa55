//! Where events go: one trait, a broker each.

mod any;
mod jetstream;
mod publish;

pub use crate::outbox::store::{Answer, Row};
pub use any::{Any, Error};
pub use jetstream::JetStream;
pub use publish::Publisher;
