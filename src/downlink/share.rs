//! The task of one shared subscription on this node, which pulls for its members.
//!
//! Invariants: every message that came is answered once, by the member that has it or here, unless the share is over; the
//! task lives until its members have left, everything in their hands is answered and all changes are followed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Outcome;
use super::share_holders::Holders;
use super::share_members::{Change, Shared};
use super::share_token::ShareToken;
use super::shared::Inner;
use crate::jetstream;
use crate::jetstream::bucket;
use crate::jetstream::consumer::{self, Answer, Consumer, Delivered, Durable, Next};
use crate::mapping::Downlink;
use crate::message::Subject;
use crate::mqtt::{QoS, TopicFilter};
use crate::telemetry;

/// The most messages of one pull.
const PULL_MAX: usize = 256;
/// How often the server is told that members still work; well within the time after which it gives their messages away.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long a message waits for the node's feed.
const FEED_MAX: Duration = Duration::from_millis(500);
/// Between two tries of what the server did not take, and two looks whether a mailbox has room again.
const RETRY: Duration = Duration::from_millis(500);

/// Why a share is not served.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Consumer(#[from] jetstream::Error),
    #[error(transparent)]
    Holders(#[from] bucket::Error),
}

/// A message for one member of a share.
#[derive(Debug, Clone)]
pub struct Share {
    /// What it is, with its stream sequence.
    pub downlink: Downlink,
    /// The shared subscription.
    pub filter: TopicFilter,
    /// To be answered when the device has it.
    pub token: ShareToken,
}

/// A message in a member's hands.
struct Given {
    /// Where its answer goes; none if it has been answered already, or nobody asks any more.
    reply: Option<Subject>,
    held: Arc<AtomicUsize>,
}

/// The task of a share.
pub(super) struct Service<M> {
    node: Arc<Inner<M>>,
    shared: Arc<Shared<M>>,
    /// The consumer that is served.
    durable: Durable,
    /// Where it begins if it must be made.
    start: u64,
    given: HashMap<u64, Given>,
    /// What the server is still to be told.
    unsaid: Vec<(Subject, Answer)>,
    /// The number of the last token.
    number: u64,
    /// When the next pull may be.
    pull_at: Instant,
    /// Whether the consumer that is served is over.
    is_over: bool,
}

impl<M: From<Share> + Send + 'static> Service<M> {
    pub(super) fn new(node: Arc<Inner<M>>, shared: Arc<Shared<M>>, start: u64) -> Self {
        Self {
            durable: shared.durable.clone(),
            node,
            shared,
            start,
            given: HashMap::new(),
            unsaid: Vec::new(),
            number: 0,
            pull_at: Instant::now(),
            is_over: false,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.node.end(&self.shared) {
            if let Err(error) = self.serve().await {
                tracing::warn!(share = self.shared.filter.as_str(), %error, "share cannot be served");
                self.shared.give_up_without_members();
                sleep(RETRY).await;
            }
        }
    }

    /// Pulls for the members until none is left and nothing is in anyone's hands, or the consumer is gone.
    async fn serve(&mut self) -> Result<(), Error> {
        self.follow().await?;
        // None is left, or there are changes again.
        if !self.shared.is_served() {
            return Ok(());
        }
        self.is_over = false;
        let mut consumer = Consumer::open(&self.node.link, &self.durable, self.start).await?;
        let mut progress_at = Instant::now() + PROGRESS;
        loop {
            if let Err(error) = self.follow().await {
                tracing::warn!(share = self.shared.filter.as_str(), %error, "change of members not followed");
                self.shared.give_up_without_members();
                self.pull_at = Instant::now() + RETRY;
            }
            if self.is_over {
                return Ok(());
            }
            self.answer(&consumer).await;
            let without_members = self.shared.is_empty();
            let owes_answers = self.given.values().any(|given| given.reply.is_some());
            if self.shared.is_done() && !owes_answers && !consumer.is_pulling() {
                for (reply, answer) in std::mem::take(&mut self.unsaid) {
                    consumer.answer(reply, answer).await;
                }
                return Ok(());
            }
            if self.shared.is_served() && !consumer.is_pulling() && Instant::now() >= self.pull_at {
                match self.shared.room() {
                    0 => self.pull_at = Instant::now() + RETRY,
                    room => consumer.pull(room.min(PULL_MAX)).await,
                }
            }
            tokio::select! {
                () = self.shared.answers.changed.notified() => self.pull_at = Instant::now(),
                next = consumer.next() => match next {
                    Next::Message(delivered) => {
                        self.await_feed(delivered.sequence).await;
                        self.give(delivered);
                    }
                    Next::Ended => {}
                    Next::Refused(reason) => {
                        tracing::warn!(share = self.shared.filter.as_str(), reason, "pull refused");
                        self.pull_at = Instant::now() + RETRY;
                    }
                    Next::Gone => {
                        self.shared.lost_consumer(self.start);
                        sleep(RETRY).await;
                        return Ok(());
                    }
                },
                () = sleep_until(self.pull_at), if !without_members && !consumer.is_pulling() => {}
                () = sleep_until(progress_at) => {
                    progress_at = Instant::now() + PROGRESS;
                    for reply in self.given.values().filter_map(|given| given.reply.clone()) {
                        consumer.answer(reply, Answer::Progress).await;
                    }
                }
            }
        }
    }

    /// Waits until members have what was stored before, so that their messages come in the order of the stream.
    async fn await_feed(&self, sequence: u64) {
        let mut passed = self.node.source.passed.clone();
        // A feed that stands still does not stop the share.
        drop(timeout(FEED_MAX, passed.wait_for(|passed| *passed >= sequence)).await);
    }

    /// Gives a message to a member, or answers one that is nobody's.
    fn give(&mut self, delivered: Delivered) {
        let Delivered {
            message,
            sequence,
            bytes,
            reply,
            attempt: _,
        } = delivered;
        self.start = self.start.max(sequence + 1);
        let downlink = match self.node.mapping.downlink(&message) {
            Ok(downlink) => downlink,
            Err(error) => {
                self.node.metrics.count(Outcome::Unmapped);
                tracing::warn!(subject = %message.subject, %error, "downlink cannot be mapped");
                return self.unsaid.push((reply, Answer::Ack));
            }
        };
        // The consumer may select more than the topic filter matches.
        if !self.shared.filter.matches(&downlink.topic) {
            return self.unsaid.push((reply, Answer::Ack));
        }
        self.number += 1;
        let at_most_once = downlink.qos == QoS::AtMostOnce;
        let share = Share {
            downlink,
            filter: self.shared.filter.clone(),
            token: ShareToken::new(self.number, &self.shared.answers),
        };
        let Some(held) = self.shared.offer(share.into(), bytes) else {
            // It is not in `given`, so what its token says is not heard.
            return self.unsaid.push((reply, Answer::Nak));
        };
        self.node.metrics.count(Outcome::Handed);
        let reply = match at_most_once {
            false => Some(reply),
            // Whatever becomes of the member, nobody gets it again.
            true => {
                self.unsaid.push((reply, Answer::Ack));
                None
            }
        };
        self.given.insert(self.number, Given { reply, held });
    }

    /// Tells the server what members and we ourselves say about messages.
    async fn answer(&mut self, consumer: &Consumer) {
        for (number, answer) in self.shared.answers.take() {
            if let Some(given) = self.given.remove(&number) {
                given.held.fetch_sub(1, Ordering::Relaxed);
                self.unsaid.extend(given.reply.map(|reply| (reply, answer)));
            }
        }
        // While nobody may have it, it would come back to us as long as our last pull lasts.
        let keep = |answer: &Answer| *answer == Answer::Nak && !self.shared.is_served();
        for (reply, answer) in std::mem::take(&mut self.unsaid) {
            match keep(&answer) {
                true => self.unsaid.push((reply, answer)),
                false => consumer.answer(reply, answer).await,
            }
        }
    }

    /// Makes known what became of the members here, in its order; what failed is still to be followed.
    async fn follow(&mut self) -> Result<(), Error> {
        let (node, shared) = (Arc::clone(&self.node), Arc::clone(&self.shared));
        let holders = Holders::new(&node.link, &shared.durable.name, &node.source.node);
        while let Some(change) = shared.change() {
            match change {
                Change::Keeps(device) => holders.add_session(&device).await?,
                Change::KeepsNoMore(device) => holders.remove_session(&device).await?,
                Change::First(start) => {
                    // At once: who leaves next has it now.
                    let goes_on = holders.are_there().await?;
                    self.begin(&holders, start, goes_on).await?;
                }
                Change::Lost(start) => self.begin(&holders, start, true).await?,
                Change::Last => holders.remove_node().await?,
                Change::Over => self.end(&holders).await?,
            }
            shared.followed();
        }
        Ok(())
    }

    /// A share that nobody has begins where its first member subscribed, whatever an earlier one left behind.
    async fn begin(&mut self, holders: &Holders, start: u64, goes_on: bool) -> Result<(), Error> {
        holders.add_node().await?;
        let (node, template) = (Arc::clone(&self.node), self.shared.durable.clone());
        let stream = &template.stream;
        loop {
            let current = holders.current().await?;
            let consumer = current.consumer.as_deref();
            // Another node may have begun it meanwhile.
            if let Some(name) = consumer
                && (goes_on || holders.are_there().await?)
            {
                if *self.durable.name != *name {
                    self.durable.name = name.into();
                    self.forget();
                }
                return Ok(());
            }
            let name = format!("{}_{:016x}", template.name, telemetry::random_u64()).into();
            let durable = Durable {
                name,
                ..template.clone()
            };
            consumer::create(&node.link, &durable, start).await?;
            if !holders.replace(&current, &durable.name).await? {
                consumer::delete(&node.link, stream, &durable.name).await?;
                continue;
            }
            (self.durable, self.start) = (durable, start);
            self.forget();
            if let Some(name) = consumer {
                consumer::delete(&node.link, stream, name).await?;
            }
            return Ok(());
        }
    }

    /// A share that nobody has is over, and what waits in it.
    async fn end(&mut self, holders: &Holders) -> Result<(), Error> {
        let current = holders.current().await?;
        let is_served = current.consumer.as_deref() == Some(&*self.durable.name);
        if let Some(name) = &current.consumer
            && !holders.are_there().await?
            && holders.end(&current).await?
        {
            self.forget();
            consumer::delete(&self.node.link, &self.durable.stream, name).await?;
        } else if !is_served {
            // Another node has ended it meanwhile, or begun it anew.
            self.forget();
        }
        Ok(())
    }

    /// The consumer is another one or none: what came by the one of before is nobody's.
    fn forget(&mut self) {
        let given = self.given.values_mut();
        given.for_each(|given| given.reply = None);
        self.unsaid.clear();
        self.is_over = true;
    }
}
