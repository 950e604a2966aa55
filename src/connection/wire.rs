//! One socket and its codec: bytes in, packets out, packets in, bytes out.
//!
//! An idle connection holds no buffer: bytes are read into the stack and kept only if there are any, so what a payload
//! pins is the burst it came in and not a fixed-size buffer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use crate::mqtt::{Codec, Error, Packet, frame_bytes};
use crate::net::Socket;

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 16 * 1024;
/// How long a peer may take to close after we did.
const LINGER_MAX: Duration = Duration::from_secs(1);

pub(super) struct Wire {
    socket: Socket,
    pub(super) codec: Codec,
    inbound: BytesMut,
    outbound: BytesMut,
    /// Whether the socket may still hold some of what it was given: TLS encrypts more than the network takes.
    unflushed: bool,
    /// How many bytes of `inbound` [`Self::take_pings`] has looked through.
    scanned: usize,
}

impl Wire {
    pub(super) fn new(socket: Socket, packet_bytes_max: u32) -> Self {
        Self {
            socket,
            codec: Codec::new(packet_bytes_max),
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
            unflushed: false,
            scanned: 0,
        }
    }

    /// Reads what there is; 0 is the end.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut stack = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut stack);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut read))?;
        if self.inbound.is_empty() {
            self.inbound = BytesMut::from(read.filled());
        } else {
            self.inbound.extend_from_slice(read.filled());
        }
        Poll::Ready(Ok(read.filled().len()))
    }

    /// The next packet of what was read.
    pub(super) fn decode(&mut self) -> Result<Option<Packet>, Error> {
        let before = self.inbound.len();
        let packet = self.codec.decode(&mut self.inbound)?;
        self.scanned = self.scanned.saturating_sub(before - self.inbound.len());
        if self.inbound.is_empty() {
            self.inbound = BytesMut::new();
        }
        Ok(packet)
    }

    /// How many PINGREQs came since the last call, behind packets that are not decoded yet.
    ///
    /// A held device still gets its PINGRESP (G27); when the packet itself is decoded later, it is known to be answered.
    pub(super) fn take_pings(&mut self) -> u32 {
        const PINGREQ: [u8; 2] = [0xC0, 0x00];
        let mut pings = 0;
        while let Some(rest) = self.inbound.get(self.scanned..) {
            let Ok(Some(bytes)) = frame_bytes(rest) else {
                break;
            };
            let Some(frame) = rest.get(..bytes) else {
                break;
            };
            pings += u32::from(frame == PINGREQ);
            self.scanned += bytes;
        }
        pings
    }

    /// Drops the QoS 0 PUBLISH packets among those that [`Self::take_pings`] has looked through; how many.
    ///
    /// One that sets a topic alias stays: without it, the alias would stand for another topic or none.
    pub(super) fn shed_qos_0(&mut self) -> u64 {
        const TYPE_AND_QOS: u8 = 0b1111_0110;
        const PUBLISH_QOS_0: u8 = 0b0011_0000;
        let mut kept = BytesMut::with_capacity(self.inbound.len());
        let mut shed = 0;
        let mut rest = self.inbound.split_to(self.scanned.min(self.inbound.len()));
        while let (Some(first), Ok(Some(bytes))) = (rest.first(), frame_bytes(&rest)) {
            let is_qos_0 = first & TYPE_AND_QOS == PUBLISH_QOS_0;
            let frame = rest.split_to(bytes.min(rest.len()));
            match is_qos_0 && !self.sets_topic_alias(&frame) {
                true => shed += 1,
                false => kept.extend_from_slice(&frame),
            }
        }
        self.scanned = kept.len();
        kept.extend_from_slice(&self.inbound);
        self.inbound = kept;
        shed
    }

    fn sets_topic_alias(&mut self, frame: &[u8]) -> bool {
        match self.codec.decode(&mut BytesMut::from(frame)) {
            Ok(Some(Packet::Publish(publish))) => {
                publish.properties.topic_alias.is_some() && !publish.topic.is_empty()
            }
            _ => false,
        }
    }

    pub(super) fn inbound_bytes(&self) -> usize {
        self.inbound.len()
    }

    /// Puts a packet behind what is to be written.
    pub(super) fn send(&mut self, packet: &Packet) -> Result<(), Error> {
        self.codec.encode(packet, &mut self.outbound)
    }

    pub(super) fn outbound_bytes(&self) -> usize {
        self.outbound.len()
    }

    /// Whether [`Self::poll_write`] has anything to do.
    pub(super) fn wants_write(&self) -> bool {
        self.unflushed || !self.outbound.is_empty()
    }

    /// Writes as much as the socket takes now.
    pub(super) fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut progress = Poll::Pending;
        if !self.outbound.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(context, &self.outbound))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outbound.advance(written);
            self.unflushed = true;
            progress = Poll::Ready(Ok(()));
        }
        if self.outbound.is_empty() {
            self.outbound = BytesMut::new();
            if let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(context) {
                self.unflushed = false;
                return Poll::Ready(flushed);
            }
        }
        progress
    }

    /// Writes all that is left.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.wants_write() {
            std::future::poll_fn(|context| self.poll_write(context)).await?;
        }
        Ok(())
    }

    /// Writes all that is left and closes our side.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.flush().await?;
        std::future::poll_fn(|context| Pin::new(&mut self.socket).poll_shutdown(context)).await
    }

    /// Writes what the peer takes at once, and closes the socket.
    pub(super) async fn close(&mut self) {
        // A peer that is gone takes nothing.
        std::future::poll_fn(|context| {
            drop(self.poll_write(context));
            drop(Pin::new(&mut self.socket).poll_shutdown(context));
            Poll::Ready(())
        })
        .await;
        self.socket = Socket::Closed;
    }

    /// Reads and drops what the peer still sends until it closes too, for a second at most.
    ///
    /// A socket that is closed with unread bytes resets its connection; a peer that is writing just then fails there and
    /// never reads the last packet, which says why (G01, G14, G21).
    pub(super) async fn linger(mut self) {
        let drained = async {
            loop {
                let read = std::future::poll_fn(|context| self.poll_drop(context)).await;
                if matches!(read, Ok(0) | Err(_)) {
                    return;
                }
            }
        };
        drop(timeout(LINGER_MAX, drained).await);
    }

    fn poll_drop(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut stack = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut read = ReadBuf::uninit(&mut stack);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut read))?;
        Poll::Ready(Ok(read.filled().len()))
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
