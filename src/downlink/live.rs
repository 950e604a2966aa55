//! Live delivery: one subscription, a look into the registry, the device's mailbox.

use std::sync::Arc;

use async_nats::Subscriber;
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{Metrics, Outcome};
use crate::jetstream::Link;
use crate::mapping::{self, Downlink, Mapping};
use crate::message::{Headers, Message};
use crate::registry::Registry;

/// Hands live downlinks to the connections of this node.
pub struct Live {
    link: Link,
    mapping: Arc<Mapping>,
    registry: Arc<Registry<Downlink>>,
    metrics: Metrics,
}

impl Live {
    /// Live delivery to the devices in `registry`.
    #[must_use]
    pub fn new(
        link: Link,
        mapping: Arc<Mapping>,
        registry: Arc<Registry<Downlink>>,
        metrics: Metrics,
    ) -> Self {
        Self {
            link,
            mapping,
            registry,
            metrics,
        }
    }

    /// Subscribes; from here on nothing that is stored is missed while NATS stands.
    ///
    /// # Errors
    /// The client's.
    pub async fn subscribe(&self) -> Result<Subscriber, async_nats::SubscribeError> {
        self.link
            .client
            .subscribe(self.mapping.live_downlinks.to_string())
            .await
    }

    /// Delivers until `shutdown`.
    pub async fn run(self, mut messages: Subscriber, shutdown: CancellationToken) {
        loop {
            let message = tokio::select! {
                () = shutdown.cancelled() => return,
                message = messages.next() => message,
            };
            match message {
                Some(message) => self.deliver(message),
                None => return,
            }
        }
    }

    fn deliver(&self, message: async_nats::Message) {
        let mailbox = mapping::downlink_device(&message.subject)
            .and_then(|device| self.registry.find(device));
        let Some(mailbox) = mailbox else {
            self.metrics.count(Outcome::Offline);
            return;
        };
        let bytes = message.length;
        let message = plain(message);
        let downlink = match self.mapping.downlink(&message) {
            Ok(downlink) => downlink,
            Err(error) => {
                self.metrics.count(Outcome::Unmapped);
                tracing::warn!(device = %mailbox.connection.device, %error, "downlink cannot be mapped");
                return;
            }
        };
        match mailbox.deliver(downlink, bytes) {
            Ok(()) => self.metrics.count(Outcome::Handed),
            Err(downlink) => {
                self.metrics.count(Outcome::MailboxFull);
                tracing::warn!(device = %mailbox.connection.device, id = downlink.id, "downlink dropped: the device does not take what waits for it");
            }
        }
    }
}

/// What the NATS client received, as plain data.
fn plain(message: async_nats::Message) -> Message {
    let mut headers = Headers::default();
    if let Some(received) = &message.headers {
        for (name, values) in received.iter() {
            for value in values {
                headers.push(name.to_string(), value.as_str());
            }
        }
    }
    Message {
        subject: message.subject.as_str().into(),
        headers,
        payload: message.payload,
    }
}
