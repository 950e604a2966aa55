//! Sockets: listeners that accept them. TCP in this release; TLS and WebSocket find their place here.

pub mod listener;

pub use listener::Listener;
