//! One shared subscription on this node: its members, and the task that pulls for them.
//!
//! Invariants: a member has at most [`HELD_MAX`] messages in its hands; every message that came is answered once, by the
//! member that has it or here; the task lives until its members have left, everything in their hands is answered and what
//! is to be known about their sessions is marked.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Outcome;
use super::share_token::{Answers, ShareToken};
use super::shared::{Inner, Leave};
use crate::device::DeviceId;
use crate::jetstream;
use crate::jetstream::consumer::{self, Answer, Consumer, Delivered, Durable, Next};
use crate::jetstream::marks;
use crate::mapping::{Downlink, Mapping};
use crate::message::Subject;
use crate::mqtt::{QoS, TopicFilter};
use crate::registry::Mailbox;

/// The most messages that one member may have in its hands.
const HELD_MAX: usize = 32;
/// The most messages of one pull.
const PULL_MAX: usize = 256;
/// How often the server is told that members still work; well within the time after which it gives their messages away.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long a message waits for the node's feed.
const FEED_MAX: Duration = Duration::from_millis(500);
/// Between two tries of what the server did not take, and two looks whether a mailbox has room again.
const RETRY: Duration = Duration::from_millis(500);
/// Where it is marked which sessions keep a share: the bucket of sessions.
const MARKS_STREAM: &str = "KV_jetway_sessions";
const MARKS_PREFIX: &str = "$KV.jetway_sessions";

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

/// A member on this node.
struct Member<M> {
    mailbox: Arc<Mailbox<M>>,
    /// Messages in its hands.
    held: Arc<AtomicUsize>,
}

impl<M> Member<M> {
    fn new(mailbox: Arc<Mailbox<M>>) -> Self {
        let held = Arc::default();
        Self { mailbox, held }
    }

    fn is(&self, mailbox: &Arc<Mailbox<M>>) -> bool {
        Arc::ptr_eq(&self.mailbox, mailbox)
    }

    fn room(&self) -> usize {
        match self.mailbox.has_room() {
            true => HELD_MAX.saturating_sub(self.held.load(Ordering::Relaxed)),
            false => 0,
        }
    }
}

/// What connections and the task of a share have in common.
pub(super) struct Shared<M> {
    pub(super) filter: TopicFilter,
    durable: Durable,
    members: Mutex<Members<M>>,
    answers: Arc<Answers>,
}

struct Members<M> {
    all: Vec<Member<M>>,
    /// Whose turn it is.
    turn: usize,
    /// How the last one left.
    left: Leave,
    /// Devices whose sessions begin (true) or end to keep the share, not yet marked.
    marks: VecDeque<(DeviceId, bool)>,
}

impl<M> Shared<M> {
    /// Without members.
    pub(super) fn new(filter: TopicFilter, durable: Durable) -> Self {
        let members = Members {
            all: Vec::new(),
            turn: 0,
            left: Leave::ForGood,
            marks: VecDeque::new(),
        };
        Self {
            filter,
            durable,
            members: Mutex::new(members),
            answers: Arc::default(),
        }
    }

    pub(super) fn join(&self, mailbox: &Arc<Mailbox<M>>, stored: bool) {
        let mut members = self.lock();
        if !members.all.iter().any(|member| member.is(mailbox)) {
            members.all.push(Member::new(Arc::clone(mailbox)));
            if stored {
                let device = mailbox.device.clone();
                members.marks.push_back((device, true));
            }
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    pub(super) fn leave(&self, mailbox: &Arc<Mailbox<M>>, leave: Leave) {
        let mut members = self.lock();
        if let Some(at) = members.all.iter().position(|member| member.is(mailbox)) {
            members.all.remove(at);
            members.left = leave;
            if leave == Leave::ForGood {
                let device = mailbox.device.clone();
                members.marks.push_back((device, false));
            }
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    pub(super) fn forget(&self, device: &DeviceId) {
        let mut members = self.lock();
        members.marks.push_back((device.clone(), false));
        if members.all.is_empty() {
            // It was away, and the last one: now it has left for good.
            members.left = Leave::ForGood;
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    /// Whether there is nothing to do for it.
    pub(super) fn is_done(&self) -> bool {
        let members = self.lock();
        members.all.is_empty() && members.marks.is_empty()
    }

    fn next_mark(&self) -> Option<(DeviceId, bool)> {
        self.lock().marks.pop_front()
    }

    /// Marks it later, while there are members; else nobody waits for it.
    fn mark_later(&self, mark: (DeviceId, bool)) {
        let mut members = self.lock();
        if !members.all.is_empty() {
            members.marks.push_front(mark);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    fn ends_for_good(&self) -> bool {
        let members = self.lock();
        members.all.is_empty() && members.left == Leave::ForGood
    }

    fn room(&self) -> usize {
        self.lock().all.iter().map(Member::room).sum()
    }

    /// Leaves the message with the next member that takes it, and gives that one's count of messages in its hands.
    fn offer(&self, mut message: M, bytes: usize) -> Option<Arc<AtomicUsize>> {
        let mut members = self.lock();
        let count = members.all.len();
        for _ in 0..count {
            let turn = members.turn % count;
            members.turn = turn + 1;
            let member = members.all.get(turn)?;
            if member.room() == 0 {
                continue;
            }
            // Counted before the device can answer it.
            member.held.fetch_add(1, Ordering::Relaxed);
            match member.mailbox.offer(message, bytes) {
                Ok(()) => return Some(Arc::clone(&member.held)),
                Err(refused) => {
                    member.held.fetch_sub(1, Ordering::Relaxed);
                    message = refused;
                }
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Members<M>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message in a member's hands.
struct Given {
    /// Where its answer goes; none if it has been answered already.
    reply: Option<Subject>,
    held: Arc<AtomicUsize>,
}

/// The task of a share.
pub(super) struct Service<M> {
    node: Arc<Inner<M>>,
    shared: Arc<Shared<M>>,
    /// Where the consumer begins if it must be made.
    start: u64,
    given: HashMap<u64, Given>,
    /// What the server is still to be told.
    unsaid: Vec<(Subject, Answer)>,
    /// The number of the last token.
    number: u64,
    /// When the next pull may be.
    pull_at: Instant,
}

impl<M: From<Share> + Send + 'static> Service<M> {
    pub(super) fn new(node: Arc<Inner<M>>, shared: Arc<Shared<M>>, start: u64) -> Self {
        Self {
            node,
            shared,
            start,
            given: HashMap::new(),
            unsaid: Vec::new(),
            number: 0,
            pull_at: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        while !self.node.end(&self.shared) {
            let durable = &self.shared.durable;
            match Consumer::open(&self.node.link, durable, self.start).await {
                Ok(consumer) => self.serve(consumer).await,
                Err(error) => {
                    tracing::warn!(share = self.shared.filter.as_str(), %error, "share cannot be served");
                    // Without members this gives up, and the task ends.
                    self.mark().await;
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Pulls for the members until none is left and nothing is in anyone's hands, or the consumer is gone.
    async fn serve(&mut self, mut consumer: Consumer) {
        let mut progress_at = Instant::now() + PROGRESS;
        loop {
            self.mark().await;
            self.answer(&consumer).await;
            let without_members = self.shared.is_empty();
            if self.shared.is_done() && self.given.is_empty() && !consumer.is_pulling() {
                return self.close(&consumer).await;
            }
            if !without_members && !consumer.is_pulling() && Instant::now() >= self.pull_at {
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
                    Next::Gone => return sleep(RETRY).await,
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
        // Without members it would come back to us while our last pull lasts.
        let keep = |answer| answer == Answer::Nak && self.shared.is_empty();
        for (reply, answer) in std::mem::take(&mut self.unsaid) {
            match keep(answer) {
                true => self.unsaid.push((reply, answer)),
                false => consumer.answer(reply, answer).await,
            }
        }
    }

    /// Marks which sessions that are stored keep the share, while their devices are away too.
    async fn mark(&self) {
        while let Some((device, keeps)) = self.shared.next_mark() {
            let link = &self.node.link;
            let subject = mark_subject(&self.shared.durable, &Mapping::device_tokens(&device));
            let marked = match keeps {
                true => marks::set(link, MARKS_STREAM, &subject).await,
                false => marks::clear(link, MARKS_STREAM, &subject).await,
            };
            if let Err(error) = marked {
                tracing::warn!(share = self.shared.filter.as_str(), %device, keeps, %error, "member not marked");
                return self.shared.mark_later((device, keeps));
            }
        }
    }

    /// Ends without members: who left for good leaves no consumer behind that nobody else uses.
    async fn close(&mut self, consumer: &Consumer) {
        let unwanted = std::mem::take(&mut self.unsaid);
        if self.shared.ends_for_good() && self.delete(unwanted.len()).await {
            return;
        }
        for (reply, answer) in unwanted {
            consumer.answer(reply, answer).await;
        }
    }

    async fn delete(&self, unwanted: usize) -> bool {
        let (link, durable) = (&self.node.link, &self.shared.durable);
        let delete = async {
            let kept = marks::any(link, MARKS_STREAM, &mark_subject(durable, ">")).await?;
            Ok(!kept && consumer::delete_unused(link, durable, unwanted as u64).await?)
        };
        delete.await.unwrap_or_else(|error: jetstream::Error| {
            tracing::warn!(share = self.shared.filter.as_str(), %error, "consumer not deleted");
            false
        })
    }
}

/// The mark of a device's session, in the bucket of sessions beside the session's own key `P.D`.
fn mark_subject(durable: &Durable, device: &str) -> String {
    format!("{MARKS_PREFIX}.{}.{device}", durable.name)
}
