//! All nodes at once: who is blocked, lifting and setting blocks, what a device was refused.
//!
//! Each node keeps its own tables, so whoever asks asks all of them by one subject, and takes what comes until there is silence. A node
//! that does not answer in time is missed; what it did not hear of ends by itself.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{StatusCode, Subscriber};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::bans::{Ban, Kind};
use super::guard::Protection;
use super::refusals::Refusal;
use crate::device::DeviceId;
use crate::jetstream::Link;
use crate::telemetry;

/// What all nodes listen to.
const SUBJECT: &str = "_jw.nodes.protection";
/// How long the first answer may take.
const FIRST_MAX: Duration = Duration::from_secs(2);
/// How long after an answer another one may come.
const SILENCE: Duration = Duration::from_millis(250);

/// What nodes are asked, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Who is blocked.
    Bans,
    /// Block somebody.
    Ban {
        /// What it is.
        kind: Kind,
        /// Which one.
        value: String,
        /// For how long.
        seconds: u64,
    },
    /// Let somebody in again.
    Lift {
        /// What it is.
        kind: Kind,
        /// Which one.
        value: String,
    },
    /// What a device was refused.
    Refusals {
        /// Its product.
        product: String,
        /// Its name.
        device: String,
    },
}

/// What a node says, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Which one.
    pub node: String,
    /// Who is blocked there, if that was asked.
    pub bans: Vec<Ban>,
    /// Whether a block was lifted there.
    pub lifted: bool,
    /// What the device was refused there, if that was asked.
    pub refusals: Vec<Refusal>,
}

/// Why nodes could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NATS takes nothing.
    #[error("nodes cannot be asked: {0}")]
    Nats(#[source] async_nats::Error),
}

/// Answers for this node.
pub struct Desk {
    /// Of this node.
    pub protection: Arc<Protection>,
    /// The connection to NATS.
    pub link: Link,
    /// This node.
    pub node: Box<str>,
}

impl Desk {
    /// Subscribes to what is asked.
    ///
    /// # Errors
    /// The client's.
    pub async fn open(&self) -> Result<Subscriber, async_nats::SubscribeError> {
        self.link.client.subscribe(SUBJECT).await
    }

    /// Answers until `shutdown`.
    pub async fn run(self, mut asks: Subscriber, shutdown: CancellationToken) {
        while let Some(Some(message)) = shutdown.run_until_cancelled(asks.next()).await {
            let ask = serde_json::from_slice(&message.payload);
            let (Some(reply), Ok(ask)) = (message.reply, ask) else {
                continue;
            };
            // Plain values always serialise.
            let answer = serde_json::to_vec(&self.answer(ask)).unwrap_or_default();
            if let Err(error) = self.link.client.publish(reply, answer.into()).await {
                tracing::warn!(%error, "question about blocks and refusals not answered");
            }
        }
    }

    fn answer(&self, ask: Ask) -> Answer {
        let mut answer = Answer {
            node: self.node.to_string(),
            bans: Vec::new(),
            lifted: false,
            refusals: Vec::new(),
        };
        match ask {
            Ask::Bans => answer.bans = self.protection.bans(),
            Ask::Ban {
                kind,
                value,
                seconds,
            } => {
                tracing::info!(?kind, value, seconds, "blocked by an operator");
                let time = Duration::from_secs(seconds);
                self.protection.ban(kind, &value, time);
            }
            Ask::Lift { kind, value } => {
                answer.lifted = self.protection.lift(kind, &value);
                tracing::info!(
                    ?kind,
                    value,
                    lifted = answer.lifted,
                    "block lifted by an operator"
                );
            }
            Ask::Refusals { product, device } => {
                if let Ok(device) = DeviceId::new(&product, &device) {
                    answer.refusals = self.protection.refusals.of(&device);
                }
            }
        }
        answer
    }
}

/// What all nodes say to that; nothing where no gateway runs.
///
/// # Errors
/// NATS takes nothing.
pub async fn ask(link: &Link, ask: &Ask) -> Result<Vec<Answer>, Error> {
    let inbox = format!("_jw.ask.{:016x}", telemetry::random_u64());
    let subscribed = link.client.subscribe(inbox.clone()).await;
    let mut answers = subscribed.map_err(|error| Error::Nats(error.into()))?;
    // Plain values always serialise.
    let payload = serde_json::to_vec(ask).unwrap_or_default();
    let asked = link
        .client
        .publish_with_reply(SUBJECT, inbox, payload.into());
    asked.await.map_err(|error| Error::Nats(error.into()))?;
    let (mut all, mut limit) = (Vec::new(), FIRST_MAX);
    while let Ok(Some(message)) = timeout(limit, answers.next()).await {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        all.extend(serde_json::from_slice::<Answer>(&message.payload));
        limit = SILENCE;
    }
    all.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(all)
}
