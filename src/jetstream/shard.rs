//! One publisher shard: a task that owns its queue, sends a batch, waits for what became of it, finishes messages in order.
//!
//! Invariants: one batch is open at a time; messages are finished from the front only, each exactly once; a message
//! that may be stored without our knowing is never sent again after the retry budget, since the server's
//! duplicate window might have forgotten it; and before that, on a replicated stream, only by itself: in a batch the server takes
//! a duplicate for stored even if the original is with the stream's leader alone, and lost with it.

use std::collections::VecDeque;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::fence::{self, Fence};
use super::guard::Guards;
use super::inbox::Inbox;
use super::protocol::Protocol;
use super::publisher::{Metrics, Outgoing};
use super::wire::{Dispatch, Wire};
use super::{Claimant, Link, Refusal, provision};
use crate::message::Headers;
use crate::telemetry;

/// Bytes of one batch: what the client buffers at once.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// First wait after a failure; doubles.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(250);

pub(super) struct Shard {
    pub(super) stream: Arc<str>,
    pub(super) protocol: Protocol,
    pub(super) link: Link,
    /// Which connection of the link it was that stood when the next batch was begun.
    pub(super) connects: u64,
    /// None: nobody else publishes for the same devices, or it does so under the same ids.
    pub(super) fence: Option<Arc<dyn Fence>>,
    pub(super) queue: mpsc::Receiver<Outgoing>,
    pub(super) pool: Arc<Semaphore>,
    pub(super) metrics: Metrics,
    /// The highest stream sequence that is known to be used, by all shards together.
    pub(super) stored_sequence: Arc<AtomicU64>,
    pub(super) ack_timeout: Duration,
    pub(super) retry_budget: Duration,
    /// Taken from the queue and not finished, in the order of publishing.
    pub(super) unfinished: VecDeque<Outgoing>,
    pub(super) batches: u64,
    /// What this shard has added to the gauge of waiting messages.
    pub(super) waiting: i64,
    /// Whether this shard's last batch had no answer.
    pub(super) stalled: bool,
    /// Where batches go and their answers come from; none before the first one, and after any doubt.
    pub(super) wire: Option<Wire>,
    /// Whether the stream is replicated, asked when something came into doubt, until nothing is any more.
    pub(super) replicated: Option<bool>,
    pub(super) guards: Guards,
}

/// How a batch ended.
pub(super) enum End {
    /// Every message of it is finished or will be without sending it again.
    Done,
    /// Send the unfinished ones again.
    Again(String),
}

impl Shard {
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let inbox = Inbox::new(telemetry::random_u64());
        let mut backoff = BACKOFF_MIN;
        loop {
            self.take_queued();
            if self.unfinished.is_empty() {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    first = self.queue.recv() => match first {
                        Some(first) => self.unfinished.push_back(first),
                        None => return,
                    },
                    () = keep(&mut self.wire, &self.link, &inbox, self.ack_timeout) => {
                        tokio::time::sleep(BACKOFF_MIN).await;
                        continue;
                    }
                }
                self.take_queued();
            }
            let end = tokio::select! {
                () = shutdown.cancelled() => return,
                end = self.publish_batch(&inbox) => end,
            };
            self.finish_refused();
            match end {
                End::Done => {
                    backoff = BACKOFF_MIN;
                    // Only by a shard that was: another one may still be.
                    if std::mem::take(&mut self.stalled) {
                        self.metrics.stalled.set(0);
                    }
                }
                End::Again(reason) => {
                    // Nothing of what is in doubt is kept to be sent later.
                    self.wire = None;
                    self.metrics.retries.inc();
                    if self.link.is_connected() {
                        tracing::warn!(
                            stream = &*self.stream,
                            reason,
                            unfinished = self.unfinished.len(),
                            "publishing again"
                        );
                    }
                    self.give_up_unanswered();
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    fn take_queued(&mut self) {
        // One more than a batch has: it says whether the next batch may have a guard.
        while self.unfinished.len() <= self.protocol.messages_max() {
            let Ok(next) = self.queue.try_recv() else {
                break;
            };
            self.unfinished.push_back(next);
        }
        // The gauge is the sum of all shards.
        let waiting = self.queue.len() + self.unfinished.len();
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.metrics.waiting.inc_by(waiting - self.waiting);
        self.waiting = waiting;
    }

    /// Sends the front of what is unfinished as one batch and waits until it ended.
    async fn publish_batch(&mut self, inbox: &Inbox) -> End {
        if let Err(reason) = self.connect(inbox).await {
            self.stall();
            return End::Again(reason);
        }
        if let Err(reason) = self.recover(inbox).await {
            self.stall();
            return End::Again(reason);
        }
        self.refuse_too_large();
        self.connects = self.link.connects();
        if self.is_deaf() {
            self.stall();
            return End::Again("NATS is away".to_owned());
        }
        self.refuse_fenced().await;
        if self.is_front_refused() {
            self.abandon();
        }
        let (protocol, count) = self.next_batch().await;
        if count == 0 {
            return End::Done;
        }
        self.batches += 1;
        self.metrics.batches.inc();
        match protocol {
            Protocol::Fast => self.publish_fast(inbox, count).await,
            Protocol::Atomic => self.publish_whole(inbox, count).await,
            Protocol::Single => self.publish_wave(inbox, count).await,
        }
    }

    /// Whether others may have found the node deaf and taken its devices, which their messages must not follow: it listens to them
    /// over the other connection, and that may be lost while the shard's own stands.
    fn is_deaf(&self) -> bool {
        self.fence.is_some() && !(self.link.is_connected() && self.link.connects() == self.connects)
    }

    /// A connection for the next batch: the one there is, or a new one.
    async fn connect(&mut self, inbox: &Inbox) -> Result<(), String> {
        self.wire.take_if(|wire| wire.is_leaving());
        if self.wire.is_none() {
            let filter = inbox.filter();
            let connected = self.link.access.connect(&filter, self.ack_timeout).await;
            self.wire = Some(connected.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Refuses what this server would close the connection for, and the client does not send: its headers can take more
    /// than MQTT's properties did. Asked at each batch, because the next server may take less.
    fn refuse_too_large(&mut self) {
        let max = (self.wire.as_ref()).map_or(usize::MAX, Wire::payload_max);
        let looked_at = self.protocol.messages_max();
        for outgoing in self.unfinished.iter_mut().take(looked_at) {
            let bytes = outgoing.message.wire_bytes();
            if bytes > max {
                let reason = format!("{bytes} bytes with headers, max_payload is {max}");
                outgoing.refusal = Some(Refusal::TooLarge(reason));
            }
        }
    }

    /// Refuses what its connection may publish no more; returns once that is known of all that may go now.
    async fn refuse_fenced(&mut self) {
        let Some(fence) = self.fence.clone() else {
            return;
        };
        let looked_at = self.protocol.messages_max();
        loop {
            let Some(term) = fence.term() else {
                self.stall();
                fence.renewed().await;
                continue;
            };
            let mut unconfirmed = Vec::new();
            for outgoing in self.unfinished.iter_mut().take(looked_at) {
                match outgoing.claimant() {
                    Some(claimant) if claimant.is_confirmed(term) => {}
                    Some(claimant) if claimant.is_lost() => {
                        outgoing.refusal = Some(Refusal::Fenced)
                    }
                    Some(claimant) => unconfirmed.push(Arc::clone(claimant)),
                    None => {}
                }
            }
            if unconfirmed.is_empty() {
                return;
            }
            fence::confirm(&*fence, unconfirmed).await;
        }
    }

    /// How the next messages go, and how many.
    async fn next_batch(&mut self) -> (Protocol, usize) {
        let fits = self.batch_messages();
        if let Some(doubt) = &self.guards.doubt {
            return (self.protocol, fits.min(doubt.count));
        }
        if self.doubt_goes_singly().await {
            let in_doubt = self.unfinished.iter().take(fits);
            let in_doubt = in_doubt.take_while(|outgoing| outgoing.sent_at.is_some());
            let count = in_doubt.count();
            return (Protocol::Single, self.spread(count));
        }
        match self.protocol {
            Protocol::Single => (Protocol::Single, self.spread(fits)),
            Protocol::Atomic if fits == 1 => (Protocol::Single, 1),
            batches => (batches, self.cut(fits).await),
        }
    }

    /// Whether the next message may be stored already, and a batch with it would say too much or be refused: on a replicated
    /// stream, and in an atomic batch. What is in doubt is in front of what was never sent. The stream is asked, since an operator
    /// may have changed it; without an answer it counts as replicated.
    async fn doubt_goes_singly(&mut self) -> bool {
        let front = self.unfinished.front();
        if front.is_none_or(|front| front.sent_at.is_none() || front.refusal.is_some()) {
            self.replicated = None;
            return false;
        }
        if self.protocol != Protocol::Fast {
            return true;
        }
        if self.replicated.is_none() {
            let replicas = provision::replicas(&self.link, &self.stream);
            if let Ok(Ok(replicas)) = timeout(self.ack_timeout, replicas).await {
                self.replicated = Some(replicas > 1);
            }
        }
        self.replicated.unwrap_or(true)
    }

    /// How many messages the next batch takes: up to a refused one, within the batch's limits, at least one.
    fn batch_messages(&self) -> usize {
        let mut bytes = 0;
        self.unfinished
            .iter()
            .take(self.protocol.messages_max())
            .take_while(|outgoing| outgoing.refusal.is_none())
            .take_while(|outgoing| {
                let fits = bytes == 0 || bytes + outgoing.bytes as usize <= BATCH_BYTES_MAX;
                bytes += outgoing.bytes as usize;
                fits
            })
            .count()
    }

    /// Sends the next `count` messages, each as its number says; what was not sent then is in doubt like what was.
    ///
    /// # Errors
    /// Why not, or not all of them.
    pub(super) async fn send<'d>(
        &mut self,
        count: usize,
        dispatch: impl Fn(usize) -> Dispatch<'d>,
    ) -> Result<(), String> {
        let mut state = self.link.state.clone();
        let before = *state.borrow_and_update();
        if self.is_deaf() {
            return Err("NATS was away".to_owned());
        }
        let is_fenced = self.fence.is_some();
        let limit = self.ack_timeout;
        let sent = tokio::select! {
            biased;
            // With a server that reads nothing, buffers fill up and sending waits.
            sent = timeout(limit, self.write(count, dispatch)) => sent,
            _changed = state.wait_for(|now| *now != before), if is_fenced => {
                return Err("NATS is away".to_owned());
            }
        };
        let sent = sent.map_err(|_elapsed| "the connection takes nothing more".to_owned())?;
        sent.map_err(|error| error.to_string())
    }

    async fn write<'d>(
        &mut self,
        count: usize,
        dispatch: impl Fn(usize) -> Dispatch<'d>,
    ) -> io::Result<()> {
        let now = Instant::now();
        let wire = self.wire.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        for (number, outgoing) in (1..).zip(self.unfinished.iter_mut().take(count)) {
            outgoing.sent_at.get_or_insert(now);
            let message = &outgoing.message;
            wire.publish(&message.subject, message, &dispatch(number));
        }
        wire.flush().await
    }

    /// Shows for how long the oldest message has had no answer.
    pub(super) fn stall(&mut self) {
        let sent = self.unfinished.front().and_then(|oldest| oldest.sent_at);
        let seconds = sent.map_or(1, |sent| sent.elapsed().as_secs().max(1));
        self.stalled = true;
        self.metrics
            .stalled
            .set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
}

impl Outgoing {
    pub(super) fn claimant(&self) -> Option<&Arc<Claimant>> {
        self.receipts.as_ref()?.claimant()
    }

    pub(super) fn finish(&self, refusal: Option<Refusal>) {
        if let Some(receipts) = &self.receipts {
            receipts.finish(refusal);
        }
    }
}

/// Makes a connection before there is something to send, and keeps it: the server's pings are answered. Returns when there is
/// none, or none any more.
async fn keep(wire: &mut Option<Wire>, link: &Link, inbox: &Inbox, limit: Duration) {
    if wire.is_none() {
        *wire = link.access.connect(&inbox.filter(), limit).await.ok();
    }
    if let Some(open) = wire {
        while open.next().await.is_ok() {}
    }
    *wire = None;
}

/// Plain data to what the NATS client sends; a header that would break the protocol was encoded where it was added.
/// As the client takes them.
pub(super) fn wire_headers(headers: &Headers) -> HeaderMap {
    let mut wire = HeaderMap::new();
    for (name, value) in headers.iter() {
        match (HeaderName::from_str(name), HeaderValue::from_str(value)) {
            (Ok(name), Ok(value)) => wire.append(name, value),
            _ => tracing::error!(name, "header left out: it would break NATS framing"),
        }
    }
    wire
}
