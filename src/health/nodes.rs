//! Nodes whose lease ran out, counted as the bucket of nodes says so; one that stops in good order gives its lease up.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::jetstream::{Bucket, Fed, Feed, Link};

/// When the bucket is asked for again.
const RETRY: Duration = Duration::from_secs(1);
/// What the server writes when a key's time is over.
const MARKER: (&str, &str) = ("Nats-Marker-Reason", "MaxAge");

/// Counts them.
pub(super) struct Lost {
    pub(super) link: Link,
    pub(super) nodes: Bucket,
    /// The bucket's stream.
    pub(super) stream: String,
    pub(super) metrics: Metrics,
}

impl Lost {
    /// Counts until `shutdown`.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.count() => {}
        }
    }

    async fn count(&self) {
        let mut feed = self.follow().await;
        loop {
            if let Fed::Message(stored) = feed.next().await
                && stored.message.headers.get(MARKER.0) == Some(MARKER.1)
            {
                self.metrics.nodes_lost.inc();
                tracing::warn!(key = %stored.message.subject, "a node is lost");
            }
        }
    }

    async fn follow(&self) -> Feed {
        // Keys of one token: others are what nodes agree on.
        let filters = [self.nodes.subject("*")];
        loop {
            match Feed::start(&self.link, &self.stream, &filters).await {
                Ok((feed, _position)) => return feed,
                Err(error) => tracing::warn!(%error, "leases of nodes are not watched yet"),
            }
            sleep(RETRY).await;
        }
    }
}
