//! What the gateway keeps in streams, with a real nats-server: buckets, reading back, and the feed through crashes.

#[path = "../support/mod.rs"]
mod support;

mod backlog;
mod bucket;
mod feed;
mod rig;
