//! One connection of a client: packets in, packets out, and a death at any byte.
//!
//! Reading and writing go on together, so that neither side can wait for the other for ever.

use std::io;
use std::net::SocketAddr;

use bytes::{Buf as _, BytesMut};
use jetway::mqtt::{Codec, Packet, Version};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::schedule::Death;

/// The largest packet that a client takes.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The other end closed it, or is dead.
    Lost,
    /// The client died as its life says.
    Died,
}

/// A connection to a gateway.
pub(crate) struct Connection {
    stream: TcpStream,
    codec: Codec,
    inbound: BytesMut,
    outbound: BytesMut,
    death: Option<Death>,
    sent: usize,
    read: usize,
}

impl Connection {
    /// Connects over TCP.
    pub(crate) async fn open(
        address: SocketAddr,
        version: Version,
        death: Option<Death>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut codec = Codec::new(PACKET_BYTES_MAX);
        codec.set_version(version);
        Ok(Self {
            stream,
            codec,
            inbound: BytesMut::new(),
            outbound: BytesMut::new(),
            death,
            sent: 0,
            read: 0,
        })
    }

    /// Puts a packet behind what is to be sent.
    pub(crate) fn send(&mut self, packet: &Packet) {
        self.codec.encode(packet, &mut self.outbound).unwrap();
    }

    /// Whether all is sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outbound.is_empty()
    }

    /// Dies no more.
    pub(crate) fn survive(&mut self) {
        self.death = None;
    }

    /// Whether the client dies with the packet that it has handled.
    pub(crate) fn dies_handled(&self) -> bool {
        matches!(self.death, Some(Death::Handled(packets)) if self.read >= packets)
    }

    /// The next packet, if `reads`; none at the deadline. Sends meanwhile.
    pub(crate) async fn next(
        &mut self,
        reads: bool,
        deadline: Instant,
    ) -> Result<Option<Packet>, Over> {
        loop {
            if reads && let Some(packet) = self.codec.decode(&mut self.inbound).unwrap() {
                self.read += 1;
                return match self.death {
                    Some(Death::Read(packets)) if self.read >= packets => Err(Over::Died),
                    _ => Ok(Some(packet)),
                };
            }
            tokio::select! {
                biased;
                writable = self.stream.writable(), if !self.outbound.is_empty() => {
                    writable.map_err(|_lost| Over::Lost)?;
                    self.write()?;
                }
                readable = self.stream.readable(), if reads => {
                    readable.map_err(|_lost| Over::Lost)?;
                    match self.stream.try_read_buf(&mut self.inbound) {
                        Ok(0) => return Err(Over::Lost),
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => return Err(Over::Lost),
                    }
                }
                () = sleep_until(deadline) => return Ok(None),
            }
        }
    }

    fn write(&mut self) -> Result<(), Over> {
        let room = match self.death {
            Some(Death::Sent(bytes)) => bytes - self.sent,
            _ => usize::MAX,
        };
        let most = self.outbound.len().min(room);
        match self.stream.try_write(&self.outbound[..most]) {
            Ok(written) => {
                self.outbound.advance(written);
                self.sent += written;
                match self.death {
                    Some(Death::Sent(bytes)) if self.sent >= bytes => Err(Over::Died),
                    _ => Ok(()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(Over::Lost),
        }
    }
}
