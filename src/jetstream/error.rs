//! Why the gateway cannot start on this NATS server: no connection, no JetStream, or a stream that cannot be used.
//!
//! What goes wrong later, while messages are read or written, is told by those who read and write.

use super::VERSION_MIN;

/// Why the NATS side cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection within the configured time.
    #[error("no NATS server at {url}: {reason}")]
    Connect {
        /// Where it was expected.
        url: String,
        /// What the client saw last.
        reason: String,
    },
    /// The server lacks what the uplink is built on.
    #[error(
        "nats-server {found} at {url} is too old: {VERSION_MIN} or newer is needed (fast batch ingest)"
    )]
    ServerTooOld {
        /// Where it is.
        url: String,
        /// The version that it announced.
        found: String,
    },
    /// JetStream is off, or the account may not use it.
    #[error("JetStream is not available at {url}: {reason}")]
    NoJetStream {
        /// Where it was asked.
        url: String,
        /// What the server answered.
        reason: String,
    },
    /// A request got no answer.
    #[error("no answer to {subject}: {reason}")]
    Request {
        /// The API subject.
        subject: String,
        /// What the client saw.
        reason: String,
    },
    /// The server refused a stream.
    #[error("stream {stream}: the server refused it: {reason}")]
    Stream {
        /// Its name.
        stream: String,
        /// The server's words.
        reason: String,
    },
    /// The stream acknowledges before it stores.
    #[error(
        "stream {stream} has persist_mode async: it acknowledges before it stores, so no PUBACK would mean stored; change it, or set nats.allow_async_persist = true"
    )]
    AsyncPersist {
        /// Its name.
        stream: String,
    },
}
