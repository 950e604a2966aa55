//! Shared subscriptions: each message goes to one of the members of `$share/<name>/<filter>`, on whichever node it is.
//!
//! All members of a share use one durable consumer of the delivery stream. A node pulls while one of its
//! members has room (`share`, a task for each share with members here), and gives what comes to its members in turn. Each
//! answers by its [`ShareToken`](super::ShareToken). The consumer outlives its members while one of their sessions is stored, on
//! any node, so that what comes meanwhile waits for it; who leaves last and for good takes it along, and who joins a share that
//! nobody has (`share_holders`) begins it anew.
//! Not here: what a member's quality of service makes of the messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::Metrics;
use super::share::{Service, Share};
use super::share_members::Shared;
use crate::device::DeviceId;
use crate::jetstream::Link;
use crate::jetstream::consumer::Durable;
use crate::mapping::Mapping;
use crate::message::Subject;
use crate::mqtt::TopicFilter;
use crate::registry::Mailbox;
use crate::tasks::{OnExit, Tasks};

/// A node that dies hands its members' messages on after this; while it lives it says so in time.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// The most of a share's text that is shown to an operator who lists consumers, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1_024;

/// The shared subscriptions that have members on this node. `M` is what their mailboxes hold.
pub struct Shares<M>(Arc<Inner<M>>);

impl<M> Clone for Shares<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// What shares read from and who does, and for how long they wait for their members.
#[derive(Debug, Clone)]
pub struct Source {
    /// This run of this node: one token, no other has it.
    pub node: Box<str>,
    /// The delivery stream.
    pub stream: Arc<str>,
    /// The longest session expiry: after this without a member the server forgets a share.
    pub inactive_threshold: Duration,
    /// How far this node's feed has come: a part is given to a member behind what it gets by other subscriptions.
    pub passed: watch::Receiver<u64>,
}

/// A shared subscription, as a member has it.
#[derive(Debug, Clone)]
pub struct SharedSubscription {
    /// The whole `$share/<name>/<filter>`.
    pub filter: TopicFilter,
    /// NATS filters that select all that it matches, no two of them the same subject.
    pub subjects: Vec<Subject>,
    /// The stream sequence at which the member subscribed: a share that is new begins behind it.
    pub position: u64,
}

/// Why a member leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Its connection ended, its session is stored: it may come back.
    Away,
    /// It unsubscribed, or its session ended.
    ForGood,
}

pub(super) struct Inner<M> {
    pub(super) link: Link,
    pub(super) mapping: Arc<Mapping>,
    pub(super) metrics: Metrics,
    tasks: Tasks,
    pub(super) source: Source,
    /// By the text of the topic filter.
    shares: Mutex<HashMap<Box<str>, Arc<Shared<M>>>>,
}

impl<M: From<Share> + Send + 'static> Shares<M> {
    /// No members yet; each share's task is one of `tasks` and ends with its last member here.
    #[must_use]
    pub fn new(
        link: Link,
        mapping: Arc<Mapping>,
        metrics: Metrics,
        tasks: Tasks,
        source: Source,
    ) -> Self {
        Self(Arc::new(Inner {
            link,
            mapping,
            metrics,
            tasks,
            source,
            shares: Mutex::default(),
        }))
    }

    /// Gives the member its part from here on. Whoever is a member already stays one. `stored`: its session may outlive its
    /// connection, and keeps the share while the device is away.
    pub fn join(&self, subscription: SharedSubscription, mailbox: &Arc<Mailbox<M>>, stored: bool) {
        let position = subscription.position;
        let join = |shared: &Shared<M>| shared.join(mailbox, position, stored);
        self.0.with(subscription, join);
    }

    /// The member gets nothing more. What is in its hands goes to another one unless it is answered otherwise.
    pub fn leave(&self, filter: &TopicFilter, mailbox: &Arc<Mailbox<M>>, leave: Leave) {
        if let Some(shared) = self.0.lock().get(filter.as_str()) {
            shared.leave(mailbox, leave);
        }
    }

    /// The session of a device that was away has ended, and keeps the share no more.
    pub fn forget(&self, subscription: SharedSubscription, device: &DeviceId) {
        self.0.with(subscription, |shared| shared.forget(device));
    }
}

impl<M: From<Share> + Send + 'static> Inner<M> {
    /// Changes a share; one that has no task here gets one.
    fn with(self: &Arc<Self>, subscription: SharedSubscription, change: impl Fn(&Shared<M>)) {
        let mut shares = self.lock();
        if let Some(shared) = shares.get(subscription.filter.as_str()) {
            return change(shared);
        }
        let durable = self.durable(&subscription.filter, subscription.subjects);
        let shared = Arc::new(Shared::new(subscription.filter, durable));
        change(&shared);
        shares.insert(shared.filter.as_str().into(), Arc::clone(&shared));
        let service = Service::new(Arc::clone(self), shared, subscription.position + 1);
        self.tasks.spawn("share", OnExit::Log, service.run());
    }
}

impl<M> Inner<M> {
    fn durable(&self, filter: &TopicFilter, filters: Vec<Subject>) -> Durable {
        // A name of a consumer takes fewer characters than a topic filter, and fewer kinds of them.
        let hash = Sha256::digest(filter.as_str());
        let digits: String = hash
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut description = filter.as_str().to_owned();
        description.truncate(description.floor_char_boundary(DESCRIPTION_BYTES_MAX));
        Durable {
            stream: Arc::clone(&self.source.stream),
            name: format!("share_{digits}").into(),
            description,
            filters,
            ack_wait: ACK_WAIT,
            inactive_threshold: self.source.inactive_threshold,
        }
    }

    /// Ends a share for which nothing is to do here; gives whether it was so.
    pub(super) fn end(&self, shared: &Shared<M>) -> bool {
        let mut shares = self.lock();
        // Under the lock, so that nobody joins what ends.
        let ends = shared.is_done();
        if ends {
            shares.remove(shared.filter.as_str());
        }
        ends
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Shared<M>>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
