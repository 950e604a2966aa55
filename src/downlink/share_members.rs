//! The members of one shared subscription on this node, and what became of them.
//!
//! Invariants: a member has at most [`HELD_MAX`] messages in its hands; while it is not known whether the share begins anew,
//! nobody is given a message.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::share_token::Answers;
use super::shared::Leave;
use crate::device::DeviceId;
use crate::jetstream::consumer::Durable;
use crate::mqtt::TopicFilter;
use crate::registry::Mailbox;

/// The most messages that one member may have in its hands.
const HELD_MAX: usize = 32;

/// A member on this node.
struct Member<M> {
    mailbox: Arc<Mailbox<M>>,
    /// Whether its session may keep the share.
    is_stored: bool,
    /// Messages in its hands.
    held: Arc<AtomicUsize>,
}

impl<M> Member<M> {
    fn new(mailbox: Arc<Mailbox<M>>, is_stored: bool) -> Self {
        Self {
            mailbox,
            is_stored,
            held: Arc::default(),
        }
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
    /// Its consumers, but for the end of their names.
    pub(super) durable: Durable,
    members: Mutex<Members<M>>,
    pub(super) answers: Arc<Answers>,
}

struct Members<M> {
    all: Vec<Member<M>>,
    /// Whose turn it is.
    turn: usize,
    /// What became of them, until the task has followed.
    changes: VecDeque<Change>,
}

/// What became of the members of a share on this node.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// The first one is here; for it the share begins with this stream sequence.
    First(u64),
    /// The consumer is gone that they had; for them the share goes on with this stream sequence.
    Lost(u64),
    /// The last one has left.
    Last,
    /// The session of a device begins to keep the share.
    Keeps(DeviceId),
    /// It keeps the share no more.
    KeepsNoMore(DeviceId),
    /// If nobody else has the share, it is over.
    Over,
}

impl<M> Members<M> {
    /// Whether it is still to be found out which messages are theirs.
    fn is_unsettled(&self) -> bool {
        let changes = &mut self.changes.iter();
        changes.any(|change| matches!(change, Change::First(_) | Change::Over))
    }
}

impl<M> Shared<M> {
    /// Without members.
    pub(super) fn new(filter: TopicFilter, durable: Durable) -> Self {
        let members = Members {
            all: Vec::new(),
            turn: 0,
            changes: VecDeque::new(),
        };
        Self {
            filter,
            durable,
            members: Mutex::new(members),
            answers: Arc::default(),
        }
    }

    pub(super) fn join(&self, mailbox: &Arc<Mailbox<M>>, position: u64, stored: bool) {
        let mut members = self.lock();
        if !members.all.iter().any(|member| member.is(mailbox)) {
            // Before its own session keeps the share.
            if members.all.is_empty() {
                members.changes.push_back(Change::First(position + 1));
            }
            let member = Member::new(Arc::clone(mailbox), stored);
            members.all.push(member);
            if stored {
                let device = mailbox.device.clone();
                members.changes.push_back(Change::Keeps(device));
            }
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    pub(super) fn leave(&self, mailbox: &Arc<Mailbox<M>>, leave: Leave) {
        let mut members = self.lock();
        if let Some(at) = members.all.iter().position(|member| member.is(mailbox)) {
            let member = members.all.remove(at);
            let is_last = members.all.is_empty();
            if is_last {
                members.changes.push_back(Change::Last);
            }
            if leave == Leave::ForGood {
                let device = mailbox.device.clone();
                let kept = member.is_stored.then_some(Change::KeepsNoMore(device));
                members.changes.extend(kept);
                members.changes.extend(is_last.then_some(Change::Over));
            }
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    pub(super) fn forget(&self, device: &DeviceId) {
        let mut members = self.lock();
        let change = Change::KeepsNoMore(device.clone());
        members.changes.push_back(change);
        if members.all.is_empty() {
            // It was away, and may be the last one: now it has left for good.
            members.changes.push_back(Change::Over);
        }
        drop(members);
        self.answers.changed.notify_one();
    }

    /// The consumer is gone; the members that are left had what is before this stream sequence.
    pub(super) fn lost_consumer(&self, start: u64) {
        let mut members = self.lock();
        if !members.all.is_empty() {
            members.changes.push_front(Change::Lost(start));
        }
    }

    /// Whether there is nothing to do for it.
    pub(super) fn is_done(&self) -> bool {
        let members = self.lock();
        members.all.is_empty() && members.changes.is_empty()
    }

    pub(super) fn change(&self) -> Option<Change> {
        self.lock().changes.front().cloned()
    }

    pub(super) fn followed(&self) {
        self.lock().changes.pop_front();
    }

    /// A change could not be followed: that is done later while there are members; else nobody waits for it.
    pub(super) fn give_up_without_members(&self) {
        let mut members = self.lock();
        if members.all.is_empty() {
            members.changes.clear();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Whether a message may be given to a member now.
    pub(super) fn is_served(&self) -> bool {
        let members = self.lock();
        !members.all.is_empty() && !members.is_unsettled()
    }

    pub(super) fn room(&self) -> usize {
        self.lock().all.iter().map(Member::room).sum()
    }

    /// Leaves the message with the next member that takes it, and gives that one's count of messages in its hands.
    pub(super) fn offer(&self, mut message: M, bytes: usize) -> Option<Arc<AtomicUsize>> {
        let mut members = self.lock();
        if members.is_unsettled() {
            return None;
        }
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
