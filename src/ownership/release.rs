//! Node to node: "let this device go". Asked before a claim by force, so that the holder's last word is written.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Ownership;
use crate::registry::{Command, Registry};
use crate::tasks::{OnExit, Tasks};

fn subject(node: &str) -> String {
    format!("_jw.node.{node}.release")
}

/// Asks a node, and returns when it let go, cannot be reached, or took too long.
pub(super) async fn ask(ownership: &Ownership, node: &str, key: &str) {
    let limit = Duration::from_millis(ownership.config().release_timeout_ms);
    let key = Bytes::copy_from_slice(key.as_bytes());
    let request = ownership.link().client.request(subject(node), key);
    match timeout(limit, request).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::info!(node, %error, "node does not answer; its device is taken"),
        Err(_) => tracing::warn!(node, "node does not let a device go; it is taken"),
    }
}

impl Ownership {
    /// Subscribes to what other nodes ask of this one.
    ///
    /// # Errors
    /// The client's.
    pub async fn releases(&self) -> Result<Subscriber, async_nats::SubscribeError> {
        self.link().client.subscribe(subject(self.node())).await
    }

    /// Lets devices go that other nodes ask for, until `shutdown`.
    pub async fn run_releases<M: Send + 'static>(
        self,
        mut requests: Subscriber,
        registry: Arc<Registry<M>>,
        tasks: Tasks,
        shutdown: CancellationToken,
    ) {
        let limit = Duration::from_millis(self.config().release_timeout_ms);
        loop {
            let request = tokio::select! {
                () = shutdown.cancelled() => return,
                request = requests.next() => request,
            };
            let Some(request) = request else { return };
            let Some(reply) = request.reply else { continue };
            let mailbox = std::str::from_utf8(&request.payload)
                .ok()
                .and_then(|key| registry.find(key));
            let client = self.link().client.clone();
            tasks.spawn("release", OnExit::Log, async move {
                if let Some(mailbox) = mailbox {
                    mailbox.command(Command::TakenOver);
                    drop(timeout(limit, mailbox.left()).await);
                }
                if let Err(error) = client.publish(reply, Bytes::new()).await {
                    tracing::warn!(%error, "release not answered");
                }
            });
        }
    }
}
