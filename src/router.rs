//! Which mailboxes of this node want a stored message: a tree over the tokens of NATS subject filters.
//!
//! One lock covers the tree and the position in the stream up to which it has dispatched. So whoever attaches learns
//! exactly from where on its mailbox is served: everything behind the position that it is given, nothing before.
//! Looking up a subject costs by the tokens of the subject and by the filters that share them, not by how many other filters
//! there are; what nobody wants any more leaves no memory behind. It knows no topics: a filter may select more than its
//! subscription, and the session decides.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::str::Split;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::message::Subject;
use crate::registry::Mailbox;

/// A NATS server reads protocol lines of at most so many bytes. No subject is longer, so a longer filter selects nothing
/// and is not kept; it also bounds the depth of the tree.
const FILTER_BYTES_MAX: usize = 4_096;

/// The subscriptions of this node's sessions, and the stream position that their mailboxes have reached.
#[derive(Debug)]
pub struct Router<M> {
    state: Mutex<State<M>>,
    /// The last sequence that is in the mailboxes that want it.
    passed: watch::Sender<u64>,
}

#[derive(Debug)]
struct State<M> {
    position: u64,
    /// Names the stream that positions are of.
    stream: Arc<str>,
    root: Node<M>,
}

impl<M> Default for Router<M> {
    fn default() -> Self {
        let state = State {
            position: 0,
            stream: Arc::default(),
            root: Node::default(),
        };
        Self {
            state: Mutex::new(state),
            passed: watch::Sender::new(0),
        }
    }
}

impl<M> Router<M> {
    /// Hands to `mailbox` from here on what one of the NATS filters selects, and returns the position: the stream sequence
    /// behind which it begins. Counted: what is attached twice must be detached twice.
    pub fn attach(&self, filters: &[Subject], mailbox: &Arc<Mailbox<M>>) -> u64 {
        let mut state = self.lock();
        for filter in filters.iter().filter(|filter| is_possible(filter)) {
            state.root.add(filter, mailbox);
        }
        state.position
    }

    /// Undoes one [`attach`](Self::attach) of the same filters, and returns the position: nothing behind it comes by them.
    /// What was not attached is passed over.
    pub fn detach(&self, filters: &[Subject], mailbox: &Arc<Mailbox<M>>) -> u64 {
        let mut state = self.lock();
        for filter in filters.iter().filter(|filter| is_possible(filter)) {
            state.root.remove(filter.split('.'), mailbox);
        }
        state.position
    }

    /// Takes a mailbox that overflowed back into service, and returns the position: what was stored up to it and is not in
    /// the mailbox must be read back from the stream.
    pub fn rejoin(&self, mailbox: &Mailbox<M>) -> u64 {
        let state = self.lock();
        mailbox.reopen();
        state.position
    }

    /// The stream sequence up to which everything was dispatched.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.lock().position
    }

    /// The stream that positions are of. One of another stream means nothing here.
    #[must_use]
    pub fn stream(&self) -> Arc<str> {
        Arc::clone(&self.lock().stream)
    }

    /// Begins at a position of a stream, at the start or when it was replaced by another one.
    pub fn begin(&self, stream: &str, position: u64) {
        let mut state = self.lock();
        state.stream = stream.into();
        state.position = position;
        self.passed.send_replace(position);
    }

    /// Tells the last sequence that is in the mailboxes that want it: who brings a message by another way may wait for those
    /// before it.
    #[must_use]
    pub fn passed(&self) -> watch::Receiver<u64> {
        self.passed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Clone> Router<M> {
    /// Leaves the message stored under `subject` with every mailbox that wants it, once, and moves the position to its
    /// `sequence`. Returns how many mailboxes took it; a full one is marked as overflowed.
    ///
    /// `message` is asked only if somebody wants it, and may find that it cannot be delivered; `bytes` is what it counts in
    /// a mailbox.
    pub fn dispatch(
        &self,
        sequence: u64,
        subject: &str,
        bytes: usize,
        message: impl FnOnce() -> Option<M>,
    ) -> usize {
        let mut state = self.lock();
        state.position = sequence;
        let mailboxes = state.root.wanting(subject);
        let message = match mailboxes.is_empty() {
            true => None,
            false => message(),
        };
        let taken = message.map_or(0, |message| {
            let taken = |mailbox: &&Mailbox<M>| mailbox.deliver(message.clone(), bytes).is_ok();
            mailboxes.into_iter().filter(taken).count()
        });
        self.passed.send_replace(sequence);
        taken
    }
}

/// A tree of filters: the way from the root spells the tokens.
#[derive(Debug)]
struct Node<M> {
    /// Those whose filter ends here, and how often they were attached.
    here: HashMap<ByAddress<M>, usize, BuildHasherDefault<DefaultHasher>>,
    /// Most nodes are ends, so this costs them a pointer.
    below: Option<Box<Below<M>>>,
}

/// The next token of the filters that go on.
#[derive(Debug)]
struct Below<M> {
    /// Devices choose these tokens, so the hasher has secret keys.
    literal: HashMap<Box<str>, Node<M>>,
    /// `*`
    any: Node<M>,
    /// `>`, which ends every filter.
    rest: Node<M>,
}

impl<M> Default for Node<M> {
    fn default() -> Self {
        let (here, below) = (HashMap::default(), None);
        Self { here, below }
    }
}

impl<M> Default for Below<M> {
    fn default() -> Self {
        Self {
            literal: HashMap::new(),
            any: Node::default(),
            rest: Node::default(),
        }
    }
}

impl<M> Node<M> {
    fn is_empty(&self) -> bool {
        self.here.is_empty() && self.below.is_none()
    }

    fn add(&mut self, filter: &str, mailbox: &Arc<Mailbox<M>>) {
        let mut node = self;
        for token in filter.split('.') {
            let below = node.below.get_or_insert_default();
            node = match token {
                "*" => &mut below.any,
                ">" => &mut below.rest,
                literal => below.literal.entry(literal.into()).or_default(),
            };
        }
        *node.here.entry(ByAddress(Arc::clone(mailbox))).or_default() += 1;
    }

    fn remove(&mut self, mut tokens: Split<'_, char>, mailbox: &Arc<Mailbox<M>>) {
        let Some(token) = tokens.next() else {
            if let Entry::Occupied(mut count) = self.here.entry(ByAddress(Arc::clone(mailbox))) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                    let (len, capacity) = (self.here.len(), self.here.capacity());
                    self.here.shrink_to(kept(len, capacity));
                }
            }
            return;
        };
        let Some(below) = &mut self.below else {
            return;
        };
        match token {
            "*" => below.any.remove(tokens, mailbox),
            ">" => below.rest.remove(tokens, mailbox),
            literal => below.remove_literal(literal, tokens, mailbox),
        }
        if below.is_empty() {
            self.below = None;
        }
    }

    /// The mailboxes that want what is stored under `subject`, each once.
    fn wanting(&self, subject: &str) -> Vec<&Mailbox<M>> {
        let mut mailboxes: Vec<&Mailbox<M>> = Vec::new();
        let mut ends = 0;
        self.visit(subject, &mut |node| {
            if !node.here.is_empty() {
                ends += 1;
                mailboxes.extend(node.here.keys().map(|mailbox| &*mailbox.0));
            }
        });
        if ends > 1 {
            let address = |mailbox: &&Mailbox<M>| std::ptr::from_ref::<Mailbox<M>>(mailbox);
            mailboxes.sort_unstable_by_key(address);
            mailboxes.dedup_by_key(|mailbox| address(mailbox));
        }
        mailboxes
    }

    /// Shows the nodes where filters end that match `subject`, empty ones among them: one or two for each step.
    fn visit<'a>(&'a self, subject: &str, visitor: &mut impl FnMut(&'a Self)) {
        let mut ahead = vec![(self, Some(subject))];
        while let Some((node, tokens)) = ahead.pop() {
            let Some(tokens) = tokens else {
                visitor(node);
                continue;
            };
            let Some(below) = &node.below else {
                continue;
            };
            let (token, tokens) = match tokens.split_once('.') {
                Some((token, tokens)) => (token, Some(tokens)),
                None => (tokens, None),
            };
            visitor(&below.rest);
            if !below.any.is_empty() {
                ahead.push((&below.any, tokens));
            }
            if let Some(literal) = below.literal.get(token) {
                ahead.push((literal, tokens));
            }
        }
    }
}

impl<M> Below<M> {
    fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.any.is_empty() && self.rest.is_empty()
    }

    fn remove_literal(&mut self, token: &str, tokens: Split<'_, char>, mailbox: &Arc<Mailbox<M>>) {
        let Some(node) = self.literal.get_mut(token) else {
            return;
        };
        node.remove(tokens, mailbox);
        if node.is_empty() {
            self.literal.remove(token);
            let (len, capacity) = (self.literal.len(), self.literal.capacity());
            self.literal.shrink_to(kept(len, capacity));
        }
    }
}

/// The room that a table keeps: all of it until three quarters are unused, so that shrinking costs little over time.
fn kept(len: usize, capacity: usize) -> usize {
    if len < capacity / 4 {
        len * 2
    } else {
        capacity
    }
}

/// Whether a server could hold a subject that the filter selects.
fn is_possible(filter: &str) -> bool {
    filter.len() <= FILTER_BYTES_MAX
}

/// A mailbox as a key: the same one, not an equal one.
#[derive(Debug)]
struct ByAddress<M>(Arc<Mailbox<M>>);

impl<M> PartialEq for ByAddress<M> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<M> Eq for ByAddress<M> {}

impl<M> Hash for ByAddress<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
