//! Shared subscriptions over two nodes and a real nats-server: each message goes to one member, and none is lost with a member,
//! a node or the server.
//!
//! A node here is what one gateway has: its own NATS connection and its own `Shares`. Members are mailboxes without
//! a connection; the test is their device.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod anew;
#[cfg(test)]
mod consumer;
#[cfg(test)]
mod members;
#[cfg(test)]
mod node;
#[cfg(test)]
mod servers;
