//! Retained messages: the last one of each topic, in a bucket. Whoever publishes one writes it before the message itself, so
//! that a subscriber who does not get the message live finds it here.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::jetstream::{Bucket, Link, ReadError, Reader, Stored, bucket};
use crate::mapping::{self, Downlink, Mapping};
use crate::message::Subject;

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
    pub async fn write(&self, retained: &mapping::Retained) {
        loop {
            match self.try_write(retained).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "retained message not written yet");
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn try_write(&self, retained: &mapping::Retained) -> Result<(), bucket::Error> {
        match retained {
            mapping::Retained::Set(message) => self.bucket.put_message(message).await?,
            mapping::Retained::Clear(subject) => {
                let prefix = self.bucket.subject("");
                let key = subject.strip_prefix(&*prefix).unwrap_or_default();
                let any = bucket::Expect::Any;
                self.bucket.delete(key, any, MARKER).await?
            }
        };
        Ok(())
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
