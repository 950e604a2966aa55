//! Which device is connected here, and the mailbox of its connection.
//!
//! A device has at most one live connection. Whoever connects takes its place under one lock, in which the caller also
//! records what it did (`change`), so that the order of status events is the order of ownership (G-STATUS, G01, G28).
//! The lock covers one of many small tables and is never held across an await; uplinks do not touch it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::device::Connection;

const TABLES: usize = 64;

/// What others may say to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Another connection has the device now: leave, and touch nothing.
    TakenOver,
    /// The node stops: answer what you have, then leave.
    Drain,
}

/// What a mailbox has room for; one message always fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Messages.
    pub messages: usize,
    /// Bytes of all messages.
    pub bytes: usize,
}

/// The way into one connection: commands, and messages of type `M` for its device.
#[derive(Debug)]
pub struct Mailbox<M> {
    /// Whose it is.
    pub connection: Connection,
    limit: Limit,
    queue: Mutex<Queue<M>>,
    waker: AtomicWaker,
}

#[derive(Debug)]
struct Queue<M> {
    /// Each with what it counts, in bytes.
    messages: VecDeque<(M, usize)>,
    bytes: usize,
    command: Option<Command>,
}

/// What a connection finds in its mailbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Mail<M> {
    /// A command; comes before all messages.
    Command(Command),
    /// The oldest message.
    Message(M),
}

impl<M> Mailbox<M> {
    /// The mailbox of a connection, with room for so much.
    #[must_use]
    pub fn new(connection: Connection, limit: Limit) -> Self {
        Self {
            connection,
            limit,
            queue: Mutex::new(Queue {
                messages: VecDeque::new(),
                bytes: 0,
                command: None,
            }),
            waker: AtomicWaker::new(),
        }
    }

    /// Leaves a message of so many bytes for the device.
    ///
    /// # Errors
    /// Gives the message back when the mailbox is full.
    pub fn deliver(&self, message: M, bytes: usize) -> Result<(), M> {
        let mut queue = self.lock();
        let full = queue.messages.len() >= self.limit.messages
            || (!queue.messages.is_empty() && queue.bytes + bytes > self.limit.bytes);
        if full {
            return Err(message);
        }
        queue.bytes += bytes;
        queue.messages.push_back((message, bytes));
        drop(queue);
        self.waker.wake();
        Ok(())
    }

    /// Tells the connection to leave; the first command counts.
    pub fn command(&self, command: Command) {
        self.lock().command.get_or_insert(command);
        self.waker.wake();
    }

    /// The next mail; messages stay where they are while `has_room` is false.
    pub fn poll_mail(&self, context: &Context<'_>, has_room: bool) -> Poll<Mail<M>> {
        self.waker.register(context.waker());
        let mut queue = self.lock();
        if let Some(command) = queue.command.take() {
            return Poll::Ready(Mail::Command(command));
        }
        let message = has_room.then(|| queue.messages.pop_front()).flatten();
        match message {
            Some((message, bytes)) => {
                queue.bytes -= bytes;
                Poll::Ready(Mail::Message(message))
            }
            None => {
                if queue.messages.is_empty() {
                    queue.messages = VecDeque::new(); // An idle device keeps no buffer.
                }
                Poll::Pending
            }
        }
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
    /// Makes a new connection the owner of the device and tells the previous one, if there is one.
    ///
    /// `change` is given the previous owner and makes the new one's mailbox; nobody else can change the owner meanwhile.
    pub fn take(
        &self,
        device: &str,
        change: impl FnOnce(Option<&Connection>) -> Mailbox<M>,
    ) -> Arc<Mailbox<M>> {
        let mut table = self.table(device);
        let previous = table.get(device);
        let mailbox = Arc::new(change(previous.map(|previous| &previous.connection)));
        if let Some(previous) = previous {
            previous.command(Command::TakenOver);
        }
        table.insert(device.into(), Arc::clone(&mailbox));
        mailbox
    }

    /// Removes the device's connection if it still is `mailbox`; `change` runs only then.
    pub fn leave(&self, device: &str, mailbox: &Arc<Mailbox<M>>, change: impl FnOnce()) {
        let mut table = self.table(device);
        if table
            .get(device)
            .is_some_and(|owner| Arc::ptr_eq(owner, mailbox))
        {
            table.remove(device);
            change();
        }
    }

    /// The mailbox of a connected device.
    #[must_use]
    pub fn find(&self, device: &str) -> Option<Arc<Mailbox<M>>> {
        self.table(device).get(device).map(Arc::clone)
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
