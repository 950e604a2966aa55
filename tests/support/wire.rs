//! A device that speaks bytes: for packets no client library would send, and answers no library would show.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::device::{Credentials, Protocol};
use super::packet;
use super::wait::within;

/// Any byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A raw connection to a listener.
pub struct Wire {
    socket: Box<dyn Stream>,
}

impl Wire {
    /// Connects over TCP.
    pub async fn connect(address: SocketAddr) -> Self {
        let connected = within("a TCP connection", TcpStream::connect(address)).await;
        let socket = connected.unwrap_or_else(|error| panic!("connect {address}: {error}"));
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }

    /// Takes a connection that somebody else made.
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self {
            socket: Box::new(stream),
        }
    }

    /// Connects and logs in; panics unless the gateway accepts.
    pub async fn login(
        protocol: Protocol,
        address: SocketAddr,
        who: &Credentials,
        keep_alive: u16,
    ) -> Self {
        let mut wire = Self::connect(address).await;
        wire.send(&packet::connect(protocol, who, keep_alive)).await;
        wire.accepted().await;
        wire
    }

    /// Expects the CONNACK that accepts a CONNECT.
    pub async fn accepted(&mut self) {
        let connack = self.packet().await.expect("the connection stays open");
        assert!(
            connack[0] == 0x20 && connack[3] == 0,
            "no CONNACK that accepts: {}",
            to_hex(&connack)
        );
    }

    /// Sends PINGREQ and returns what came before its PINGRESP, which shows all of it to be answered or never to be.
    pub async fn ping(&mut self) -> Vec<Vec<u8>> {
        self.send(&packet::PINGREQ).await;
        let mut before = Vec::new();
        loop {
            let packet = self.packet().await.expect("the connection stays open");
            if packet == packet::PINGRESP {
                return before;
            }
            before.push(packet);
        }
    }

    /// Sends bytes. An error is not a failure: the other end may have closed already, which a later read tells.
    pub async fn send(&mut self, bytes: &[u8]) {
        within("room to send", self.socket.write_all(bytes))
            .await
            .ok();
    }

    /// Sends bytes written as hex digits; white space between them is ignored.
    pub async fn send_hex(&mut self, hex: &str) {
        self.send(&from_hex(hex)).await;
    }

    /// Closes the sending direction only.
    pub async fn half_close(&mut self) {
        self.socket.shutdown().await.ok();
    }

    /// Expects exactly these bytes next, written as hex digits.
    pub async fn expect_hex(&mut self, hex: &str) {
        let expected = from_hex(hex);
        let mut found = vec![0; expected.len()];
        let read = within(&format!("the bytes {hex}"), async {
            let mut filled = 0;
            while filled < found.len() {
                match self.socket.read(&mut found[filled..]).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => filled += count,
                }
            }
            filled
        })
        .await;
        let found = &found[..read];
        assert_eq!(
            to_hex(found),
            to_hex(&expected),
            "(left: received, shorter if closed)"
        );
    }

    /// The next whole MQTT packet, fixed header included; `None` when the connection is closed instead.
    pub async fn packet(&mut self) -> Option<Vec<u8>> {
        within("a packet or the end of the connection", self.read_packet()).await
    }

    async fn read_packet(&mut self) -> Option<Vec<u8>> {
        let mut packet = vec![self.socket.read_u8().await.ok()?];
        let mut remaining = 0;
        for shift in [0, 7, 14, 21] {
            let byte = self.socket.read_u8().await.ok()?;
            packet.push(byte);
            remaining |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let header = packet.len();
        packet.resize(header + remaining, 0);
        self.socket.read_exact(&mut packet[header..]).await.ok()?;
        Some(packet)
    }

    /// Expects that the other end closes, and returns what it sent before.
    pub async fn closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is a close too.
        within(
            "the end of the connection",
            self.socket.read_to_end(&mut rest),
        )
        .await
        .ok();
        rest
    }
}

/// Bytes from hex digits; white space is ignored.
pub fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| {
            let digit = c.to_digit(16);
            u8::try_from(digit.unwrap_or_else(|| panic!("{c:?} in {text:?}"))).unwrap()
        })
        .collect();
    assert_eq!(
        digits.len() % 2,
        0,
        "an odd number of hex digits in {text:?}"
    );
    digits
        .chunks_exact(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Lower-case hex digits, a space between bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
