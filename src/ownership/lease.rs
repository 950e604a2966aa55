//! Node leases: a sign of life of this node, and what is done about nodes that give none any more.
//!
//! A node believes in its own lease only while it renewed it in time. One whose lease was in doubt asks for each of its
//! sessions whether it still holds it, and does not judge others until it has been sure for a whole lease: what kept it from
//! renewing may have kept them. Until then it publishes nothing of theirs either: each doubt begins a new term ([`Fence`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Error, Orphan, Ownership};
use crate::jetstream::bucket::{Expect, NODE_MARK};
use crate::registry::{Command, Registry};

/// How many sessions are asked for at once.
const ASKED_AT_ONCE: usize = 64;

/// What this node knows about its own lease.
pub(super) struct Lease {
    lasts: Duration,
    state: Mutex<State>,
    doubt: Notify,
    renewal: Notify,
}

struct State {
    /// When the last renewal began that was answered.
    renewed: Option<Instant>,
    /// Since when there was no doubt.
    sure_since: Instant,
    /// The NATS connection, by how often there was another, and the revision of that renewal.
    connects: u64,
    revision: u64,
    /// Raised with every doubt.
    term: u64,
}

impl Lease {
    pub(super) fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            state: Mutex::new(State {
                renewed: None,
                sure_since: Instant::now(),
                connects: 0,
                revision: 0,
                term: 1,
            }),
            doubt: Notify::new(),
            renewal: Notify::new(),
        }
    }

    /// The term in which nobody can take this node for lost, nor find it deaf; `connects` is the NATS connection of now, which
    /// is doubtful until the lease was renewed over it.
    pub(super) fn term(&self, connects: u64) -> Option<u64> {
        let state = self.state();
        let is_certain = self.is_within_lease(&state) && state.connects == connects;
        is_certain.then_some(state.term)
    }

    /// Returns when it is renewed the next time from now on.
    pub(super) fn renewed(&self) -> impl Future<Output = ()> + '_ {
        self.renewal.notified()
    }

    /// Whether it was certain for so long that who is missing now is lost.
    fn is_sure(&self, connects: u64) -> bool {
        self.is_sure_for(self.lasts, connects)
    }

    fn is_sure_for(&self, duration: Duration, connects: u64) -> bool {
        let state = self.state();
        self.is_within_lease(&state)
            && state.connects == connects
            && state.sure_since.elapsed() >= duration
    }

    fn is_within_lease(&self, state: &State) -> bool {
        state
            .renewed
            .is_some_and(|renewed| renewed.elapsed() < self.lasts)
    }

    /// A renewal that began at `began` was answered, and this is the NATS connection now.
    fn renew(&self, began: Instant, connects: u64, revision: u64) {
        let mut state = self.state();
        let is_first = state.renewed.is_none();
        // Late; or requests of other nodes may be lost; or all leases are, with the memory of a server.
        let is_doubtful = !self.is_within_lease(&state)
            || state.connects != connects
            || state.revision >= revision;
        if is_doubtful {
            state.sure_since = Instant::now();
            state.term += 1;
        }
        state.renewed = Some(began);
        state.connects = connects;
        state.revision = revision;
        drop(state);
        self.renewal.notify_waiters();
        if is_doubtful && !is_first {
            tracing::warn!("the lease of this node was in doubt");
            self.doubt.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ownership {
    /// Keeps this node's lease, and cares for what dead nodes and waiting Wills owe, until `shutdown`; then gives it up.
    pub async fn run<M: Send + 'static>(
        self,
        registry: Arc<Registry<M>>,
        orphans: mpsc::Sender<Orphan>,
        shutdown: CancellationToken,
    ) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.keep_lease() => {}
            () = self.resolve_doubts(&registry) => {}
            () = self.sweep_lost(&orphans) => {}
            () = self.watch_wills(&orphans) => {}
        }
        if let Err(error) = self
            .nodes()
            .delete(self.node(), Expect::Any, self.config().lease())
            .await
        {
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
        let began = Instant::now();
        let (nodes, value) = (self.nodes(), Bytes::from_static(b"{}"));
        let revision = nodes.put(self.node(), value, Expect::Any, lease).await?;
        // It may have waited for another connection than it began with.
        self.lease().renew(began, self.link().connects(), revision);
        Ok(())
    }

    /// Whether the NATS connection is so young, also that of a node that just started, that others may not have theirs again.
    pub(super) fn has_just_connected(&self) -> bool {
        let connects = self.link().connects();
        let grace = Duration::from_millis(self.config().release_timeout_ms) * 3 / 4;
        !self.lease().is_sure_for(grace, connects)
    }

    /// Whether a node is surely gone: its lease is over, and this node would know if it were not.
    pub(super) async fn is_gone(&self, node: &str) -> Result<bool, Error> {
        let lease = self.nodes().get_from_leader(node).await?;
        let is_over = lease.is_none_or(|lease| lease.value.is_none());
        Ok(is_over && self.lease().is_sure(self.link().connects()))
    }

    async fn keep_lease(&self) {
        let mut ticks = interval(self.config().lease() / 3);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = self.link().state.clone();
        loop {
            // Over another NATS connection at once: publishers wait for that, and what the last one was asked is not answered.
            self.link().connected().await;
            link.mark_unchanged();
            tokio::select! {
                Ok(()) = link.changed() => continue,
                renewed = self.renew() => if let Err(error) = renewed {
                    tracing::warn!(%error, "node lease not renewed");
                }
            }
            tokio::select! {
                Ok(()) = link.changed() => {}
                _ = ticks.tick() => {}
            }
        }
    }

    /// Ends the connections whose sessions others took while this node was not heard, or did not hear.
    async fn resolve_doubts<M>(&self, registry: &Registry<M>) {
        loop {
            self.lease().doubt.notified().await;
            let claimed = registry.all().into_iter();
            let claimed: Vec<_> = claimed.filter(|(_, mailbox)| mailbox.epoch() > 0).collect();
            let keys: Vec<&str> = claimed.iter().map(|(key, _)| &**key).collect();
            // Read together where no replica can lag behind; who seems to have lost its session is asked for by itself.
            let read = match self.sessions().is_replicated().await {
                Ok(false) => self.sessions().get_all(&keys).await.unwrap_or_default(),
                Ok(true) | Err(_) => HashMap::new(),
            };
            stream::iter(&claimed)
                .for_each_concurrent(ASKED_AT_ONCE, async |(key, mailbox)| {
                    let epoch = mailbox.epoch();
                    let is_own = |entry| self.own_in(entry, epoch).is_some();
                    if !read.get(&**key).is_some_and(is_own) && !self.surely_holds(key, epoch).await
                    {
                        tracing::info!(key = &**key, "another node has the device");
                        mailbox.command(Command::TakenOver);
                    }
                })
                .await;
        }
    }

    /// Looks for nodes that are gone, once at first and then twice a lease: whoever holds a session and has no lease is one.
    async fn sweep_lost(&self, orphans: &mpsc::Sender<Orphan>) {
        let mut known: HashSet<String> = HashSet::new();
        let mut anybody = true;
        let mut ticks = interval(self.config().lease() / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !self.lease().is_sure(self.link().connects()) {
                // Nodes may come and go unseen.
                anybody = true;
                continue;
            }
            let alive = match self.alive().await {
                Ok(alive) => alive,
                Err(error) => {
                    tracing::warn!(%error, "node leases cannot be read");
                    continue;
                }
            };
            // Scanning all sessions costs; it is needed only when a node went away.
            let gone = anybody || known.iter().any(|node| !alive.contains(node));
            if gone {
                match self.sweep(&alive, orphans).await {
                    Ok(()) => anybody = false,
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
        // Keys of one token: others are what nodes agree on.
        let mut nodes = self.nodes().scan("*");
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
        // Keys of two tokens: others are marks.
        let mut sessions = self.sessions().scan("*.*");
        loop {
            let page = sessions.next_page().await?;
            if page.is_empty() {
                return self.sweep_marks().await;
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

    /// Takes away the marks of nodes that are lost.
    async fn sweep_marks(&self) -> Result<(), Error> {
        let mut found = Vec::new();
        let mut marks = self.sessions().scan(&format!("*.{NODE_MARK}.*"));
        loop {
            let page = marks.next_page().await?;
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|(key, _)| key));
        }
        // Read behind the marks: a node has its lease before it marks anything.
        let alive = self.alive().await?;
        for key in found {
            let node = key.rsplit('.').next();
            if node.is_some_and(|node| !alive.contains(node)) {
                let marker_ttl = self.config().lease();
                self.sessions()
                    .delete(&key, Expect::Any, marker_ttl)
                    .await?;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3_600);

    /// Renewed once, a lease ago; and sure since then.
    fn sure() -> Lease {
        let lease = Lease::new(LEASE);
        lease.renew(Instant::now(), 1, 10);
        lease.state().sure_since = Instant::now().checked_sub(LEASE).unwrap();
        lease
    }

    #[test]
    fn a_new_node_is_certain_and_does_not_judge() {
        let lease = Lease::new(LEASE);
        assert_eq!(lease.term(1), None);
        lease.renew(Instant::now(), 1, 10);
        assert!(lease.term(1).is_some());
        assert!(!lease.is_sure(1));
        assert!(sure().is_sure(1));
        assert!(!sure().is_sure(2));
    }

    #[test]
    fn a_renewal_in_time_changes_nothing() {
        let lease = sure();
        let term = lease.term(1);
        lease.renew(Instant::now(), 1, 11);
        assert!(lease.is_sure(1));
        assert_eq!(lease.term(1), term);
    }

    #[test]
    fn a_late_renewal_another_connection_and_a_new_bucket_are_doubtful() {
        for (late, connects, revision) in [(true, 1, 11), (false, 2, 11), (false, 1, 1)] {
            let lease = sure();
            let term = lease.term(1);
            if late {
                lease.state().renewed = Instant::now().checked_sub(LEASE);
                assert_eq!(lease.term(1), None);
            }
            assert_eq!(lease.term(2), None);
            lease.renew(Instant::now(), connects, revision);
            assert!(lease.term(connects) > term);
            assert!(!lease.is_sure(connects));
        }
    }
}
