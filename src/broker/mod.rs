//! Brokers other than JetStream: the outbox publishes to them, and some of them services consume from.
//!
//! All have the streams and durables that are declared for JetStream ([`Layout`]), under the same names and with the same meaning,
//! as far as a broker can: which it cannot is said in its module. A message goes to the stream that takes its subject.
//!
//! Invariant: [`Broker::store`] says `Ok` only for what the broker has said that it has.

pub mod kafka;
mod layout;
pub mod memory;
pub mod rabbitmq;
pub mod redis;

pub use layout::{Durable, Layout, Stream};

use std::time::Duration;

use uuid::Uuid;

use crate::message::Message;

/// A message to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// By which brokers that can, and consumers, know a repeated one.
    pub id: Uuid,
    /// What it is about: messages of one key keep their order where a broker has several logs for a stream.
    pub key: Box<str>,
    /// Subject, headers, bytes.
    pub message: Message,
}

/// A message that a durable gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message.
    pub message: Message,
    /// Its sequence in its stream.
    pub sequence: u64,
    /// How often it was delivered.
    pub attempts: u64,
    /// Why it was given up: what its handler said, or that its deliveries are used up.
    pub reason: String,
}

/// The reason of a dead letter whose deliveries are used up.
const USED_UP: &str = "max_deliver";

/// Why a message is not stored, or not known to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The broker does not want this one, however often it gets it.
    #[error("{0}")]
    Refused(String),
    /// It has none, or none for now: it is full, not there, or about to be.
    #[error("the broker takes nothing: {0}")]
    Away(String),
    /// It was handed over, and what became of it is not known.
    #[error("the broker did not answer: {0}")]
    Unanswered(String),
}

/// A broker that messages are handed to.
pub trait Broker: Send + Sync + 'static {
    /// Stores messages of different keys, and says what became of each, in their order. One that the broker has from an earlier
    /// time is stored, if it can know. Returns within a few seconds, also when the broker does not answer.
    fn store(&self, postings: &[Posting]) -> impl Future<Output = Vec<Result<(), Fault>>> + Send;
}

/// How long a broker may take to be connected to and to answer. A relay's lease lasts longer.
const STORE_MAX: Duration = Duration::from_secs(3);

/// The same for each of so many.
fn all(postings: &[Posting], fault: &Fault) -> Vec<Result<(), Fault>> {
    postings.iter().map(|_| Err(fault.clone())).collect()
}
