//! Where events go: one trait, a broker each.

mod publish;

pub use crate::outbox::store::{Answer, Row};
pub use publish::Publisher;
