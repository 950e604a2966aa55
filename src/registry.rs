//! Which device is connected here, and the mailbox of its connection.
//!
//! A device has at most one live connection. Whoever connects takes its place, tells the one before to leave and waits
//! until it left: so connections of one device follow each other, and what they say about it is in order (G01, G28).
//! The lock covers one of many small tables and is never held across an await; uplinks do not touch it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use crate::device::DeviceId;

const TABLES: usize = 64;

/// What others may say to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Another connection has the device now: leave, and touch nothing.
    TakenOver,
    /// The device may not be here any more: leave.
    Revoked,
    /// The node stops: answer what you have, then leave.
    Drain,
}

/// Whether a gateway device is known to have other sub-devices than it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rebound {
    /// Perhaps, if it has any: nobody was heard for a while.
    Perhaps,
    /// It is.
    Surely,
}

/// What a mailbox has room for; one message always fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Messages.
    pub messages: u32,
    /// Bytes of all messages.
    pub bytes: u32,
}

/// The way into one connection: commands, and messages of type `M` for its device.
#[derive(Debug)]
pub struct Mailbox<M> {
    /// Whose it is.
    pub device: DeviceId,
    limit: Limit,
    queue: Mutex<Queue<M>>,
    waker: AtomicWaker,
    gone: Notify,
    epoch: AtomicU64,
}

#[derive(Debug)]
struct Queue<M> {
    /// Each with what it counts, in bytes.
    messages: VecDeque<(M, usize)>,
    bytes: usize,
    command: Option<Command>,
    rung: bool,
    rebound: Option<Rebound>,
    rules: bool,
    is_gateway: bool,
    overflow: Overflow,
    left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    No,
    /// Something was refused; the connection is told behind what is in the queue.
    Unsaid,
    /// The connection knows.
    Said,
}

impl<M> Queue<M> {
    fn push(&mut self, message: M, bytes: usize, limit: Limit) -> Result<(), M> {
        let full = self.messages.len() >= limit.messages as usize
            || (!self.messages.is_empty() && self.bytes + bytes > limit.bytes as usize);
        if full || self.overflow != Overflow::No {
            return Err(message);
        }
        self.bytes += bytes;
        self.messages.push_back((message, bytes));
        Ok(())
    }
}

/// What a connection finds in its mailbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Mail<M> {
    /// A command; comes before all messages.
    Command(Command),
    /// The oldest message.
    Message(M),
    /// Something waits elsewhere; said once, however often it was rung for.
    Rung,
    /// The sub-devices that the device may act for are others; said once.
    Rebound(Rebound),
    /// The rules that the device is held to are others; said once.
    Rules,
    /// Everything behind the messages so far was refused, and will be until the connection rejoins; said once.
    Overflowed,
}

impl<M> Mailbox<M> {
    /// The mailbox of a connection of this device, with room for so much.
    #[must_use]
    pub fn new(device: DeviceId, limit: Limit) -> Self {
        Self {
            device,
            limit,
            queue: Mutex::new(Queue {
                messages: VecDeque::new(),
                bytes: 0,
                command: None,
                rung: false,
                rebound: None,
                rules: false,
                is_gateway: false,
                overflow: Overflow::No,
                left: false,
            }),
            waker: AtomicWaker::new(),
            gone: Notify::new(),
            epoch: AtomicU64::new(0),
        }
    }

    /// The connection holds its session, since this epoch.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// The epoch of the connection; 0 while it does not hold the session yet.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns once the connection has left the registry: it will do nothing for its device any more.
    pub async fn left(&self) {
        let gone = self.gone.notified();
        if !self.lock().left {
            gone.await;
        }
    }

    /// Leaves a message of so many bytes for the device. A full mailbox overflows: it refuses everything until it is
    /// reopened, so that what it holds has no gap.
    ///
    /// # Errors
    /// Gives the message back when the mailbox is full or has overflowed.
    pub fn deliver(&self, message: M, bytes: usize) -> Result<(), M> {
        let mut queue = self.lock();
        let refused = queue.push(message, bytes, self.limit);
        if refused.is_err() && queue.overflow == Overflow::No {
            queue.overflow = Overflow::Unsaid;
        }
        drop(queue);
        self.waker.wake();
        refused
    }

    /// As [`deliver`](Self::deliver), but what is refused is no gap: someone else gets it.
    ///
    /// # Errors
    /// Gives the message back when the mailbox is full or has overflowed.
    pub fn offer(&self, message: M, bytes: usize) -> Result<(), M> {
        self.lock().push(message, bytes, self.limit)?;
        self.waker.wake();
        Ok(())
    }

    /// Refuses messages as if it were full: there is a gap.
    fn overflow(&self) {
        let mut queue = self.lock();
        if queue.overflow == Overflow::No {
            queue.overflow = Overflow::Unsaid;
        }
        drop(queue);
        self.waker.wake();
    }

    /// Takes messages again after an overflow.
    pub fn reopen(&self) {
        self.lock().overflow = Overflow::No;
    }

    /// Tells the connection to leave; the first command counts.
    pub fn command(&self, command: Command) {
        self.lock().command.get_or_insert(command);
        self.waker.wake();
    }

    /// Returns once the connection is told something that it does not know yet.
    pub async fn commanded(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match self.lock().command {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            }
        })
        .await;
    }

    /// Something waits for the connection elsewhere.
    pub fn ring(&self) {
        self.lock().rung = true;
        self.waker.wake();
    }

    /// The sub-devices that the device may act for are others.
    pub fn rebind(&self, rebound: Rebound) {
        let mut queue = self.lock();
        queue.rebound = queue.rebound.max(Some(rebound));
        drop(queue);
        self.waker.wake();
    }

    /// The rules that the device is held to are others.
    pub fn hold_to_rules(&self) {
        self.lock().rules = true;
        self.waker.wake();
    }

    /// Says whether the device has sub-devices, so that it is held to the rules of their products, too.
    pub fn set_gateway(&self, is_gateway: bool) {
        self.lock().is_gateway = is_gateway;
    }

    /// Whether the device was said to have sub-devices.
    #[must_use]
    pub fn is_gateway(&self) -> bool {
        self.lock().is_gateway
    }

    /// The next mail; messages and the overflow stay where they are while `has_room` is false.
    pub fn poll_mail(&self, context: &Context<'_>, has_room: bool) -> Poll<Mail<M>> {
        self.waker.register(context.waker());
        let mut queue = self.lock();
        if let Some(command) = queue.command.take() {
            return Poll::Ready(Mail::Command(command));
        }
        if std::mem::take(&mut queue.rung) {
            return Poll::Ready(Mail::Rung);
        }
        if let Some(rebound) = queue.rebound.take() {
            return Poll::Ready(Mail::Rebound(rebound));
        }
        if std::mem::take(&mut queue.rules) {
            return Poll::Ready(Mail::Rules);
        }
        if has_room && let Some((message, bytes)) = queue.messages.pop_front() {
            queue.bytes -= bytes;
            return Poll::Ready(Mail::Message(message));
        }
        if queue.messages.is_empty() {
            queue.messages = VecDeque::new(); // An idle device keeps no buffer.
            if has_room && queue.overflow == Overflow::Unsaid {
                queue.overflow = Overflow::Said;
                return Poll::Ready(Mail::Overflowed);
            }
        }
        Poll::Pending
    }

    /// Whether a small message would be taken now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.overflow == Overflow::No
            && queue.messages.len() < self.limit.messages as usize
            && queue.bytes < self.limit.bytes as usize
    }

    /// Takes out all messages that wait.
    pub fn take_messages(&self) -> impl Iterator<Item = M> + use<M> {
        let mut queue = self.lock();
        queue.bytes = 0;
        let messages = std::mem::take(&mut queue.messages);
        messages.into_iter().map(|(message, _bytes)| message)
    }

    /// How many messages wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().messages.len()
    }

    /// Whether no message waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Queue<M>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Table<M> = HashMap<Box<str>, Arc<Mailbox<M>>>;

/// The live connections of this node, by device.
#[derive(Debug)]
pub struct Registry<M> {
    hasher: RandomState,
    tables: Box<[Mutex<Table<M>>]>,
}

impl<M> Default for Registry<M> {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            tables: (0..TABLES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl<M> Registry<M> {
    /// Puts a new connection in the device's place; gives the one that was there, which is to be told and waited for.
    pub fn take(&self, device: &str, mailbox: &Arc<Mailbox<M>>) -> Option<Arc<Mailbox<M>>> {
        self.table(device)
            .insert(device.into(), Arc::clone(mailbox))
    }

    /// The connection is over: removes it, unless another one has its place already, and lets that one go on.
    pub fn leave(&self, device: &str, mailbox: &Arc<Mailbox<M>>) {
        self.leave_to(device, mailbox, None);
    }

    /// As [`leave`](Self::leave), and gives the place back to the one before, unless that has left by now.
    pub fn leave_to(
        &self,
        device: &str,
        mailbox: &Arc<Mailbox<M>>,
        previous: Option<Arc<Mailbox<M>>>,
    ) {
        let mut table = self.table(device);
        let is_owner = |owner: &Arc<Mailbox<M>>| Arc::ptr_eq(owner, mailbox);
        if table.get(device).is_some_and(is_owner) {
            match previous.filter(|previous| !previous.lock().left) {
                Some(previous) => drop(table.insert(device.into(), previous)),
                None => drop(table.remove(device)),
            }
        }
        mailbox.lock().left = true;
        drop(table);
        mailbox.gone.notify_waiters();
    }

    /// The mailbox of a connected device.
    #[must_use]
    pub fn find(&self, device: &str) -> Option<Arc<Mailbox<M>>> {
        self.table(device).get(device).map(Arc::clone)
    }

    /// All connected devices.
    #[must_use]
    pub fn all(&self) -> Vec<(Box<str>, Arc<Mailbox<M>>)> {
        let mut all = Vec::new();
        for table in &self.tables {
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(
                table
                    .iter()
                    .map(|(key, mailbox)| (key.clone(), Arc::clone(mailbox))),
            );
        }
        all
    }

    /// Says `command` to every connection.
    pub fn broadcast(&self, command: Command) {
        for table in &self.tables {
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            for mailbox in table.values() {
                mailbox.command(command);
            }
        }
    }

    /// Makes every connection read back what it may have missed.
    pub fn overflow(&self) {
        for table in &self.tables {
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            for mailbox in table.values() {
                mailbox.overflow();
            }
        }
    }

    fn table(&self, device: &str) -> MutexGuard<'_, Table<M>> {
        let hash = self.hasher.hash_one(device);
        let index = usize::try_from(hash % TABLES as u64).unwrap_or(0);
        self.tables
            .get(index)
            .expect("the index is a remainder by the number of tables")
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
