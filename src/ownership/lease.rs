//! Node leases: a sign of life of this node, and what is done about nodes that give none any more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Error, Orphan, Ownership};
use crate::jetstream::bucket::Expect;

impl Ownership {
    /// Keeps this node's lease, and cares for what dead nodes and waiting Wills owe, until `shutdown`; then gives it up.
    pub async fn run(self, orphans: mpsc::Sender<Orphan>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.keep_lease() => {}
            () = self.sweep_lost(&orphans) => {}
            () = self.watch_wills(&orphans) => {}
        }
        if let Err(error) = self.nodes().delete(self.node(), Expect::Any, self.config().lease()).await {
            tracing::info!(%error, "node lease not given up; it runs out");
        }
    }

    /// Takes the lease for the first time.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn register(&self) -> Result<(), Error> {
        self.renew().await
    }

    async fn renew(&self) -> Result<(), Error> {
        let lease = Some(self.config().lease());
        let nodes = self.nodes();
        nodes.put(self.node(), Bytes::from_static(b"{}"), Expect::Any, lease).await?;
        Ok(())
    }

    async fn keep_lease(&self) {
        let mut ticks = interval(self.config().lease() / 3);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "node lease not renewed");
            }
        }
    }

    /// Looks for nodes that are gone, at start and then twice a lease: whoever holds a session and has no lease is one.
    async fn sweep_lost(&self, orphans: &mpsc::Sender<Orphan>) {
        let mut known: HashSet<String> = HashSet::new();
        let mut first = true;
        let mut ticks = interval(self.config().lease() / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let alive = match self.alive().await {
                Ok(alive) => alive,
                Err(error) => {
                    tracing::warn!(%error, "node leases cannot be read");
                    continue;
                }
            };
            // Scanning all sessions costs; it is needed only when a node went away.
            let gone = first || known.iter().any(|node| !alive.contains(node));
            if gone {
                match self.sweep(&alive, orphans).await {
                    Ok(()) => first = false,
                    Err(error) => {
                        tracing::warn!(%error, "sessions of lost nodes cannot be read");
                        continue;
                    }
                }
            }
            known = alive;
        }
    }

    async fn alive(&self) -> Result<HashSet<String>, Error> {
        // Late or not: this node cares for its own.
        let mut alive = HashSet::from([self.node().to_owned()]);
        let mut nodes = self.nodes().scan(">");
        loop {
            let page = nodes.next_page().await?;
            if page.is_empty() {
                return Ok(alive);
            }
            alive.extend(page.into_iter().map(|(node, _)| node));
        }
    }

    async fn sweep(
        &self,
        alive: &HashSet<String>,
        orphans: &mpsc::Sender<Orphan>,
    ) -> Result<(), Error> {
        // Keys of two tokens: others are marks of shared subscriptions.
        let mut sessions = self.sessions().scan("*.*");
        loop {
            let page = sessions.next_page().await?;
            if page.is_empty() {
                return Ok(());
            }
            for (key, entry) in page {
                let orphan = self.adopt_lost(&key, &entry, |node| alive.contains(node));
                if let Some(orphan) = orphan.await? {
                    // Nobody takes them only when the gateway stops; then another node does this again.
                    drop(orphans.send(orphan).await);
                }
            }
        }
    }

    async fn watch_wills(&self, orphans: &mpsc::Sender<Orphan>) {
        const RETRY: Duration = Duration::from_secs(1);
        loop {
            let key: Arc<str> = self.wills().next().await;
            match self.adopt_due(&key).await {
                Ok(Some(orphan)) => drop(orphans.send(orphan).await),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, key = &*key, "will not looked up");
                    let later = crate::telemetry::now_unix_ms() + RETRY.as_secs() * 1000;
                    self.wills().schedule(&key, later);
                }
            }
        }
    }
}
