//! Node to node: "let this device go". Asked before a claim by force, so that the holder's last word is written.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subscriber;
use async_nats::client::RequestErrorKind;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Ownership;
use crate::registry::{Command, Registry};
use crate::tasks::{OnExit, Tasks};

/// How long until a node that nobody heard of is asked again.
const RETRY: Duration = Duration::from_millis(100);

/// How often a node is asked that does not answer.
const TRIES: u32 = 4;

fn subject(node: &str) -> String {
    format!("_jw.node.{node}.release")
}

/// Asks a node for the connection of this epoch; whether it let go, or nobody is there. Otherwise it took too long.
pub(super) async fn ask(ownership: &Ownership, node: &str, key: &str, epoch: u64) -> bool {
    let limit = Duration::from_millis(ownership.config().release_timeout_ms);
    let whom = Bytes::from(format!("{key} {epoch}"));
    let until = Instant::now() + limit;
    loop {
        let request = ownership.link().client.request(subject(node), whom.clone());
        match timeout(limit / TRIES, request).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
                // It may be about to connect, as this node just did. That is over soon, and nobody keeps the device meanwhile.
                if !ownership.has_just_connected() {
                    tracing::info!(node, key, "node is not there; its device is taken");
                    return true;
                }
                sleep(RETRY).await;
            }
            Ok(Err(error)) => {
                tracing::info!(node, key, %error, "node cannot be asked");
                return false;
            }
            // It may have died with the question.
            Err(_) if Instant::now() < until => {}
            Err(_) => {
                tracing::info!(node, key, "node does not let a device go");
                return false;
            }
        }
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
            let mailbox = asked(&request.payload).and_then(|(key, epoch)| {
                // A request may come late: who connected since is not meant.
                registry
                    .find(key)
                    .filter(|mailbox| mailbox.epoch() <= epoch)
            });
            let client = self.link().client.clone();
            tasks.spawn("release", OnExit::Log, async move {
                if let Some(mailbox) = mailbox {
                    mailbox.command(Command::TakenOver);
                    if timeout(limit, mailbox.left()).await.is_err() {
                        return; // Nobody waits for the answer any more.
                    }
                }
                if let Err(error) = client.publish(reply, Bytes::new()).await {
                    tracing::warn!(%error, "release not answered");
                }
            });
        }
    }
}

/// The key and the epoch of a request.
fn asked(payload: &[u8]) -> Option<(&str, u64)> {
    let (key, epoch) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    Some((key, epoch.parse().ok()?))
}
