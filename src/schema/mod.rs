//! The schemas of the events that are published: one source, `proto/`, and what is made of it.
//!
//! Every event name and version has a protobuf message and the JSON Schema that is made of its descriptor. What an event
//! really looks like is decided where it is made; tests hold both to each other.

mod catalogue;
mod json;

pub use catalogue::{PROTO, Schema, all, read};
