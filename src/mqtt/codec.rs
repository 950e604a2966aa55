//! One packet off a buffer, one packet into a buffer: fixed header (§2.1), size limits, choice of packet type.
//!
//! Invariants: a buffer is changed only by a whole packet; what `encode` accepts, `decode` accepts;
//! a fault in the fixed header is found before the rest of the packet is there.

use bytes::{Buf, BytesMut};

use super::packet::{
    Ack, Auth, Connack, Connect, Disconnect, Publish, Suback, Subscribe, Unsuback, Unsubscribe,
};
use super::reader::{Reader, variable_byte_integer};
use super::writer::Writer;
use super::{Error, Packet, ReasonCode, Version};

/// Decodes and encodes the packets of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    version: Option<Version>,
    packet_bytes_max: u32,
    peer_packet_bytes_max: u32,
}

impl Codec {
    /// A codec that accepts only CONNECT at first, and packets of at most this size, in bytes with fixed header.
    #[must_use]
    pub fn new(packet_bytes_max: u32) -> Self {
        Self {
            version: None,
            packet_bytes_max,
            peer_packet_bytes_max: u32::MAX,
        }
    }

    /// Sets the version, as a client does that has sent a CONNECT.
    pub fn set_version(&mut self, version: Version) {
        self.version = Some(version);
    }

    /// The version, once known. After a CONNECT that failed to decode: in which form to answer it; `None`: just close.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Sets the size of the largest packet that is decoded, in bytes with fixed header.
    pub fn set_packet_bytes_max(&mut self, packet_bytes_max: u32) {
        self.packet_bytes_max = packet_bytes_max;
    }

    /// Sets the size of the largest packet that the peer takes (its Maximum Packet Size), in bytes with fixed header.
    pub fn set_peer_packet_bytes_max(&mut self, packet_bytes_max: u32) {
        self.peer_packet_bytes_max = packet_bytes_max;
    }

    /// Splits exactly one packet off the front of `src`; `None`: more bytes are needed, and nothing was changed.
    ///
    /// Payload and strings of the packet share the buffer of `src`. No memory is reserved for a packet that is
    /// not there yet. The first CONNECT sets the version.
    ///
    /// # Errors
    /// The first fault found; the connection is not usable afterwards. A packet over the size limit is
    /// [`super::ReasonCode::PacketTooLarge`] as soon as its fixed header is there.
    pub fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Packet>, Error> {
        let Some(&first) = src.first() else {
            return Ok(None);
        };
        let packet = self.check_first_byte(first)?;
        let Some((header_bytes, body_bytes)) = fixed_header(src)? else {
            return Ok(None);
        };
        let packet_bytes = header_bytes + body_bytes;
        if exceeds(packet_bytes, self.packet_bytes_max) {
            return Err(too_large(packet, "at most the limit of this connection"));
        }
        if src.len() < packet_bytes {
            return Ok(None);
        }
        let mut body = src.split_to(packet_bytes).freeze();
        body.advance(header_bytes);
        self.read(first, Reader::new(body, packet)).map(Some)
    }

    /// Appends one packet to `dst`, in the version of the connection (CONNECT: in its own).
    ///
    /// A Reason String is left out where it alone would make the packet larger than the peer takes.
    ///
    /// # Errors
    /// A packet that breaks the rules of its type, does not fit its length fields, or is larger than the peer takes
    /// ([`super::ReasonCode::PacketTooLarge`]); `dst` is untouched then.
    pub fn encode(&self, packet: &Packet, dst: &mut BytesMut) -> Result<(), Error> {
        let encoded = self.encode_whole(packet, dst);
        if let Err(error) = &encoded
            && error.reason == ReasonCode::PacketTooLarge
        {
            // [MQTT-3.4.2-2], [MQTT-3.9.2-1], [MQTT-3.14.2-3]
            let mut shorter = packet.clone();
            if shorter.strip_reason_string() {
                return self.encode_whole(&shorter, dst);
            }
        }
        encoded
    }

    fn encode_whole(&self, packet: &Packet, dst: &mut BytesMut) -> Result<(), Error> {
        let name = packet.name();
        let version = match packet {
            Packet::Connect(connect) => connect.version,
            _ => self.version.ok_or_else(|| not_connected(name))?,
        };
        packet.check(version)?;
        let body_bytes = Writer::count(name, |w| packet.write(version, w))?;
        let header_bytes = 1 + Writer::count(name, |w| w.variable("remaining length", body_bytes))?;
        // [MQTT-3.1.2-24]
        if exceeds(header_bytes + body_bytes, self.peer_packet_bytes_max) {
            return Err(too_large(name, "at most what the peer takes"));
        }
        dst.reserve(header_bytes + body_bytes);
        let mut w = Writer::to(name, dst);
        w.u8(packet.first_byte());
        w.variable("remaining length", body_bytes);
        packet.write(version, &mut w);
        Ok(())
    }

    /// Checks packet type and flags, and gives the packet's name.
    fn check_first_byte(&self, first: u8) -> Result<&'static str, Error> {
        let (packet, flags) = match first >> 4 {
            1 => ("CONNECT", 0),
            2 => ("CONNACK", 0),
            3 => ("PUBLISH", first & 0x0f),
            4 => ("PUBACK", 0),
            5 => ("PUBREC", 0),
            6 => ("PUBREL", 2), // [MQTT-3.6.1-1]
            7 => ("PUBCOMP", 0),
            8 => ("SUBSCRIBE", 2), // [MQTT-3.8.1-1]
            9 => ("SUBACK", 0),
            10 => ("UNSUBSCRIBE", 2), // [MQTT-3.10.1-1]
            11 => ("UNSUBACK", 0),
            12 => ("PINGREQ", 0),
            13 => ("PINGRESP", 0),
            14 => ("DISCONNECT", 0), // [MQTT-3.14.1-1]
            15 if self.version != Some(Version::V3_1_1) => ("AUTH", 0), // [MQTT-3.15.1-1]
            _ => return Err(Error::malformed("packet", "type", "one of the version")),
        };
        // [MQTT-2.1.3-1]
        if first & 0x0f != flags {
            return Err(Error::malformed(
                packet,
                "flags",
                "the type's reserved bits",
            ));
        }
        // [MQTT-3.1.0-1]
        if self.version.is_none() && packet != "CONNECT" {
            return Err(not_connected(packet));
        }
        Ok(packet)
    }

    /// Reads the packet that the checked first byte announces.
    fn read(&mut self, first: u8, mut body: Reader) -> Result<Packet, Error> {
        if first >> 4 == 1 {
            let level = Connect::read_level(&mut body)?;
            // Known from here on, so that the rest can be refused in its own form. A second CONNECT changes nothing.
            let answer = if level >= 5 {
                Version::V5
            } else {
                Version::V3_1_1
            };
            self.version.get_or_insert(answer);
            let connect = Connect::read(level, body)?;
            connect.check()?;
            return Ok(Packet::Connect(Box::new(connect)));
        }
        let version = self.version.ok_or_else(|| not_connected("packet"))?;
        let packet = match first >> 4 {
            2 => Packet::Connack(Connack::read(version, body)?),
            3 => Packet::Publish(Publish::read(first & 0x0f, version, body)?),
            4 => Packet::Puback(Ack::read(version, body)?),
            5 => Packet::Pubrec(Ack::read(version, body)?),
            6 => Packet::Pubrel(Ack::read(version, body)?),
            7 => Packet::Pubcomp(Ack::read(version, body)?),
            8 => Packet::Subscribe(Subscribe::read(version, body)?),
            9 => Packet::Suback(Suback::read(version, body)?),
            10 => Packet::Unsubscribe(Unsubscribe::read(version, body)?),
            11 => Packet::Unsuback(Unsuback::read(version, body)?),
            12 => body.end().map(|()| Packet::Pingreq)?,
            13 => body.end().map(|()| Packet::Pingresp)?,
            14 => Packet::Disconnect(Disconnect::read(version, body)?),
            _ => Packet::Auth(Auth::read(body)?),
        };
        packet.check(version)?;
        Ok(packet)
    }
}

impl Packet {
    /// The packet type in the specification's spelling, such as `PUBLISH`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "CONNECT",
            Self::Connack(_) => "CONNACK",
            Self::Publish(_) => "PUBLISH",
            Self::Puback(_) => "PUBACK",
            Self::Pubrec(_) => "PUBREC",
            Self::Pubrel(_) => "PUBREL",
            Self::Pubcomp(_) => "PUBCOMP",
            Self::Subscribe(_) => "SUBSCRIBE",
            Self::Suback(_) => "SUBACK",
            Self::Unsubscribe(_) => "UNSUBSCRIBE",
            Self::Unsuback(_) => "UNSUBACK",
            Self::Pingreq => "PINGREQ",
            Self::Pingresp => "PINGRESP",
            Self::Disconnect(_) => "DISCONNECT",
            Self::Auth(_) => "AUTH",
        }
    }

    fn first_byte(&self) -> u8 {
        match self {
            Self::Connect(_) => 0x10,
            Self::Connack(_) => 0x20,
            Self::Publish(publish) => 0x30 | publish.flags(),
            Self::Puback(_) => 0x40,
            Self::Pubrec(_) => 0x50,
            Self::Pubrel(_) => 0x62,
            Self::Pubcomp(_) => 0x70,
            Self::Subscribe(_) => 0x82,
            Self::Suback(_) => 0x90,
            Self::Unsubscribe(_) => 0xa2,
            Self::Unsuback(_) => 0xb0,
            Self::Pingreq => 0xc0,
            Self::Pingresp => 0xd0,
            Self::Disconnect(_) => 0xe0,
            Self::Auth(_) => 0xf0,
        }
    }

    /// Leaves out the Reason String, which only explains; whether there was one.
    fn strip_reason_string(&mut self) -> bool {
        let reason_string = match self {
            Self::Connack(connack) => &mut connack.properties.reason_string,
            Self::Puback(ack) | Self::Pubrec(ack) | Self::Pubrel(ack) | Self::Pubcomp(ack) => {
                &mut ack.reason_string
            }
            Self::Suback(suback) => &mut suback.reason_string,
            Self::Unsuback(unsuback) => &mut unsuback.reason_string,
            Self::Disconnect(disconnect) => &mut disconnect.reason_string,
            Self::Auth(auth) => &mut auth.reason_string,
            Self::Connect(_)
            | Self::Publish(_)
            | Self::Subscribe(_)
            | Self::Unsubscribe(_)
            | Self::Pingreq
            | Self::Pingresp => return false,
        };
        reason_string.take().is_some()
    }

    /// The rules that hold for the packet alone, whether it was received or is to be sent.
    fn check(&self, version: Version) -> Result<(), Error> {
        match self {
            Self::Connect(packet) => packet.check(),
            Self::Connack(packet) => packet.check(),
            Self::Publish(packet) => packet.check(version),
            Self::Puback(ack) | Self::Pubrec(ack) => ack.check_received(self.name(), version),
            Self::Pubrel(ack) | Self::Pubcomp(ack) => ack.check_released(self.name()),
            Self::Subscribe(packet) => packet.check(),
            Self::Suback(packet) => packet.check(),
            Self::Unsubscribe(packet) => packet.check(),
            Self::Unsuback(packet) => packet.check(version),
            Self::Pingreq | Self::Pingresp => Ok(()),
            Self::Disconnect(packet) => packet.check(),
            Self::Auth(packet) => packet.check(version),
        }
    }

    /// Writes variable header and payload.
    fn write(&self, version: Version, w: &mut Writer<'_>) {
        match self {
            Self::Connect(packet) => packet.write(w),
            Self::Connack(packet) => packet.write(version, w),
            Self::Publish(packet) => packet.write(version, w),
            Self::Puback(ack) | Self::Pubrec(ack) | Self::Pubrel(ack) | Self::Pubcomp(ack) => {
                ack.write(version, w);
            }
            Self::Subscribe(packet) => packet.write(version, w),
            Self::Suback(packet) => packet.write(version, w),
            Self::Unsubscribe(packet) => packet.write(version, w),
            Self::Unsuback(packet) => packet.write(version, w),
            Self::Pingreq | Self::Pingresp => {}
            Self::Disconnect(packet) => packet.write(version, w),
            Self::Auth(packet) => packet.write(w),
        }
    }
}

/// The length of the whole packet at the front of `src` in bytes, fixed header included; `None`: more bytes are needed.
///
/// # Errors
/// A Remaining Length that is longer than four bytes or than needed.
pub fn frame_bytes(src: &[u8]) -> Result<Option<usize>, Error> {
    Ok(fixed_header(src)?.map(|(header_bytes, body_bytes)| header_bytes + body_bytes))
}

/// The lengths of fixed header and rest in bytes.
fn fixed_header(src: &[u8]) -> Result<Option<(usize, usize)>, Error> {
    let length = variable_byte_integer(src.get(1..).unwrap_or_default())
        .map_err(|expected| Error::malformed("packet", "remaining length", expected))?;
    Ok(length.map(|(value, width)| (1 + width, usize::try_from(value).unwrap_or(usize::MAX))))
}

fn exceeds(packet_bytes: usize, max: u32) -> bool {
    u32::try_from(packet_bytes).map_or(true, |packet_bytes| packet_bytes > max)
}

fn too_large(packet: &'static str, expected: &'static str) -> Error {
    Error {
        reason: ReasonCode::PacketTooLarge,
        ..Error::protocol(packet, "size", expected)
    }
}

fn not_connected(packet: &'static str) -> Error {
    Error::protocol(packet, "order", "CONNECT first")
}
