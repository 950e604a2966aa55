//! A byte stream in binary WebSocket frames over another byte stream.
//!
//! A write becomes one frame; its payload goes straight from the caller's buffer. Pings are answered between frames, the last
//! one of several only, so what waits to be written is never more than a header and one control frame.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frame::{self, CLOSE_NORMAL, Deframer, End};

/// A server's end of a WebSocket connection, after the upgrade.
#[derive(Debug)]
pub struct WebSocket<S> {
    inner: S,
    deframer: Deframer,
    /// Headers and control frames that go out before any payload.
    unsent: Vec<u8>,
    /// Payload bytes of the frame begun last that the caller has still to write; no other frame may start before.
    frame_left: usize,
    close_sent: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Takes over a stream on which the upgrade is done.
    pub(in crate::net) fn new(inner: S) -> Self {
        Self {
            inner,
            deframer: Deframer::default(),
            unsent: Vec::new(),
            frame_left: 0,
            close_sent: false,
        }
    }

    /// Writes what waits and is no payload, and flushes.
    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.frame_left == 0
            && self.unsent.is_empty()
            && !self.close_sent
            && let Some(payload) = self.deframer.ping.take()
        {
            frame::pong(&payload, &mut self.unsent);
        }
        while !self.unsent.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, &self.unsent))?;
            self.sent(written)?;
        }
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn sent(&mut self, written: usize) -> io::Result<()> {
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unsent.drain(..written.min(self.unsent.len()));
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
        Ok(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            // A pong that cannot leave now does so when the socket has room, which wakes this task.
            if let Poll::Ready(Err(error)) = this.poll_unsent(context) {
                return Poll::Ready(Err(error));
            }
            match this.deframer.end {
                None => {}
                Some(End::Closed) => return Poll::Ready(Ok(())),
                Some(End::Fault(code)) => {
                    let fault = format!("WebSocket frame refused with status {code}");
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault)));
                }
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
            let raw = buffer.filled_mut().get_mut(before..).unwrap_or_default();
            if raw.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let payload_bytes = this.deframer.deframe(raw);
            buffer.set_filled(before + payload_bytes);
            if payload_bytes > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.frame_left == 0 {
            if bytes.is_empty() {
                return Poll::Ready(Ok(0));
            }
            frame::binary_header(bytes.len(), &mut this.unsent);
            this.frame_left = bytes.len();
        }
        let payload = bytes.get(..this.frame_left).unwrap_or(bytes);
        loop {
            let slices = [IoSlice::new(&this.unsent), IoSlice::new(payload)];
            let slices = slices
                .get(usize::from(this.unsent.is_empty())..)
                .unwrap_or_default();
            let inner = Pin::new(&mut this.inner);
            let written = ready!(inner.poll_write_vectored(context, slices))?;
            let of_payload = written.saturating_sub(this.unsent.len());
            this.sent(written)?;
            if of_payload > 0 {
                this.frame_left -= of_payload;
                return Poll::Ready(Ok(of_payload));
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_unsent(context)
    }

    /// Sends Close, with what the peer did wrong if it did, and closes the stream below. A frame that was not finished cannot
    /// be followed by one.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.close_sent && this.frame_left == 0 {
            this.close_sent = true;
            let code = match this.deframer.end {
                Some(End::Fault(code)) => code,
                Some(End::Closed) | None => CLOSE_NORMAL,
            };
            frame::close(code, &mut this.unsent);
        }
        ready!(this.poll_unsent(context))?;
        Pin::new(&mut this.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
