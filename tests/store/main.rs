//! What the gateway keeps in streams, with a real nats-server: buckets, reading back, and the feed through crashes.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod backlog;
#[cfg(test)]
mod bucket;
#[cfg(test)]
mod down;
#[cfg(test)]
mod feed;
#[cfg(test)]
mod rig;
