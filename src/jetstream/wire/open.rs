//! A connection that is made: what is written leaves in one piece, and answers come out of it.
//!
//! Invariant: nothing is lost when a future of it is dropped; it goes on where it was.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Heard;
use super::connect::{Access, Greeting};
use super::frame::{self, Dispatch, Reply};
use super::reading::{Frame, Info, Reading};
use crate::message::{Headers, Message};

/// Room for reading at once: an answer has about 150 bytes.
pub(super) const READ_BYTES: usize = 4 * 1024;
/// What is left of a buffer after the largest batch of ordinary messages; one that grew beyond it is not kept.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;

pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// A connection with one subscription.
pub(in crate::jetstream) struct Wire {
    socket: Box<dyn Socket>,
    outbound: BytesMut,
    inbound: BytesMut,
    reading: Reading,
    payload_max: usize,
    /// The server is about to stop, and wants its clients elsewhere.
    is_leaving: bool,
    access: Arc<Access>,
}

impl Wire {
    pub(super) fn new(greeting: Greeting, info: &Info, access: Arc<Access>) -> Self {
        Self {
            socket: greeting.socket,
            outbound: BytesMut::new(),
            inbound: greeting.inbound,
            reading: greeting.reading,
            payload_max: info.max_payload.unwrap_or(usize::MAX),
            is_leaving: info.lame_duck_mode,
            access,
        }
    }

    /// What the server takes of a message, headers and payload together, in bytes.
    pub(in crate::jetstream) fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Whether the next batch belongs on a new connection.
    pub(in crate::jetstream) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Puts a message behind what [`flush`](Self::flush) writes.
    pub(in crate::jetstream) fn publish(
        &mut self,
        subject: &str,
        message: &Message,
        dispatch: &Dispatch<'_>,
    ) {
        let message = (subject, &message.headers, &*message.payload);
        frame::publish(&mut self.outbound, message, dispatch);
    }

    /// The same of a message that has nothing but where its answer goes.
    pub(in crate::jetstream) fn ask(&mut self, subject: &str, reply: Reply<'_>) {
        let dispatch = Dispatch {
            reply: Some(reply),
            ..Dispatch::default()
        };
        let message = (subject, &Headers::default(), &[][..]);
        frame::publish(&mut self.outbound, message, &dispatch);
    }

    /// Writes everything. May be dropped and called again.
    ///
    /// # Errors
    /// The connection is over.
    pub(in crate::jetstream) async fn flush(&mut self) -> io::Result<()> {
        while !self.outbound.is_empty() {
            if self.socket.write_buf(&mut self.outbound).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.socket.flush().await?;
        if self.outbound.capacity() > BUFFER_BYTES_KEPT {
            self.outbound = BytesMut::new();
        }
        Ok(())
    }

    /// What is heard next. Pings of the server are answered meanwhile. May be dropped and called again.
    ///
    /// # Errors
    /// The connection is over, or the server said why it will be.
    pub(in crate::jetstream) async fn next(&mut self) -> io::Result<Heard> {
        loop {
            while let Some(frame) = self.reading.next(&mut self.inbound)? {
                match frame {
                    Frame::Message(answer) => return Ok(Heard::Answer(answer)),
                    Frame::Ping => self.outbound.extend_from_slice(frame::PONG),
                    Frame::Info(info) => {
                        self.payload_max = info.max_payload.unwrap_or(self.payload_max);
                        self.is_leaving |= info.lame_duck_mode;
                        self.access.learn(&info);
                    }
                    Frame::Error(words) => match denied(&words) {
                        Some(subject) => return Ok(Heard::Denied(subject.into())),
                        None => return Err(io::Error::other(words)),
                    },
                    Frame::Pong | Frame::Ok => {}
                }
            }
            self.flush().await?;
            self.inbound.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.inbound).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The subject that we may not publish to, if that is what the server says; it keeps the connection then.
fn denied(words: &str) -> Option<&str> {
    let subject = words.strip_prefix("Permissions Violation for Publish to \"")?;
    subject.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_is_denied_is_named() {
        let words = "Permissions Violation for Publish to \"device.up.a\"";
        assert_eq!(denied(words), Some("device.up.a"));
        for other in [
            "Stale Connection",
            "Permissions Violation for Publish with Reply of \"_jw.ack.1\"",
            "Permissions Violation for Subscription to \"_jw.ack.1\"",
        ] {
            assert_eq!(denied(other), None);
        }
    }
}
