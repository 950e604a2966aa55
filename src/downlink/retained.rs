//! Retained messages: the last one of each topic, in a bucket. Of what a client publishes its gateway writes the copy before
//! the message itself; of what a service publishes every node does, before it hands the message to its sessions. So a subscriber
//! who does not get the message live finds it here.
//!
//! Nodes that are not equally far in the delivery stream write each copy once and none over that of a later message: each
//! says which message it is of, and is written only in the place of what was read before.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::jetstream::bucket::{self, Expect};
use crate::jetstream::{Bucket, Link, ReadError, Reader, Stored};
use crate::mapping::{Downlink, Mapping};
use crate::message::{Message, Subject};
use crate::telemetry;

const BUCKET: &str = "jetway_retained";
/// How long it is known that a retained message was removed.
const MARKER: Duration = Duration::from_secs(60);
/// How long until a write that failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// The retained messages; cheap to clone.
#[derive(Clone)]
pub struct Retained {
    bucket: Bucket,
    reader: Reader,
    mapping: Arc<Mapping>,
}

impl Retained {
    /// The bucket of all nodes.
    #[must_use]
    pub fn new(link: &Link, mapping: Arc<Mapping>) -> Self {
        Self {
            bucket: Bucket::new(link, BUCKET),
            reader: Reader::new(link, &format!("KV_{BUCKET}")),
            mapping,
        }
    }

    /// Sets or clears one, however long that takes.
    pub async fn write(&self, retained: &Message) {
        loop {
            let written = self.bucket.put_message(retained, Expect::Any, MARKER);
            match written.await {
                Ok(_revision) => return,
                Err(error) => {
                    tracing::debug!(%error, "retained message not written yet");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Does what a message of the delivery stream does to the retained message of its topic, if a service wants that; waits
    /// as long as JetStream does not answer. A copy that it refuses is not written.
    pub async fn follow(&self, stored: &Stored) {
        let (message, now_ms) = (&stored.message, telemetry::now_unix_ms());
        let copied = (self.mapping).retained_copy(message, stored.time_ms, now_ms);
        let copied = copied.map_err(|error| error.to_string());
        let followed = match copied {
            Ok(None) => return,
            Ok(Some(copy)) => self.write_in_order(&copy).await,
            Err(error) => Err(error),
        };
        if let Err(error) = followed {
            tracing::warn!(subject = %message.subject, sequence = stored.sequence, %error, "downlink not retained");
        }
    }

    async fn write_in_order(&self, copy: &Message) -> Result<(), String> {
        loop {
            match self.try_in_order(copy).await {
                Ok(()) => return Ok(()),
                // Another node was faster, with the same message or another one.
                Err(bucket::Error::Conflict { .. }) => {}
                Err(error @ bucket::Error::Read(ReadError::Refused { .. })) => {
                    return Err(error.to_string());
                }
                Err(error @ bucket::Error::Read(ReadError::Unanswered { .. })) => {
                    tracing::debug!(%error, "retained message not written yet");
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn try_in_order(&self, copy: &Message) -> Result<(), bucket::Error> {
        let expected = match self.reader.last_on(&copy.subject).await? {
            None => Expect::Absent,
            Some(last) if Mapping::replaces_retained(copy, &last.message, last.time_ms) => {
                Expect::Revision(last.sequence)
            }
            Some(_newer) => return Ok(()),
        };
        let written = self.bucket.put_message(copy, expected, MARKER);
        written.await.map(|_revision| ())
    }

    /// Those whose subjects one of the filters selects, at most `max`; more than a topic filter may match.
    ///
    /// # Errors
    /// The reader's.
    pub async fn select(
        &self,
        filters: &[Subject],
        max: usize,
    ) -> Result<Vec<Arc<Downlink>>, ReadError> {
        let stored = self.reader.last(filters, max).await?;
        Ok(stored
            .iter()
            .filter_map(|stored| self.read(stored))
            .collect())
    }

    /// The one of a topic.
    ///
    /// # Errors
    /// The reader's.
    pub async fn on(&self, topic: &str) -> Result<Option<Arc<Downlink>>, ReadError> {
        let Some(filters) = self.mapping.retained_filters(topic) else {
            return Ok(None);
        };
        let found = self.select(&filters, filters.len()).await?;
        Ok(found.into_iter().find(|downlink| downlink.topic == topic))
    }

    fn read(&self, stored: &Stored) -> Option<Arc<Downlink>> {
        match self.mapping.retained(&stored.message) {
            Ok(downlink) => downlink.map(Arc::new),
            Err(error) => {
                tracing::warn!(subject = %stored.message.subject, %error, "retained message cannot be mapped");
                None
            }
        }
    }
}
