//! Where events go: one trait, a broker each.

mod any;
mod jetstream;
mod message;
mod publish;
mod waves;

pub use crate::outbox::store::{Answer, Row};
pub use any::{Any, Error, layout};
pub use jetstream::JetStream;
pub use publish::Publisher;
pub use waves::Waves;
