//! Between tables and the codec: bytes as text, and one packet at a time.

use bytes::BytesMut;
use jetway::mqtt::{Codec, Error, Packet, Version};

/// No packet here is larger.
const PACKET_BYTES_MAX: u32 = 1 << 20;

pub(crate) fn codec(version: Option<Version>) -> Codec {
    let mut codec = Codec::new(PACKET_BYTES_MAX);
    if let Some(version) = version {
        codec.set_version(version);
    }
    codec
}

/// Decodes bytes that begin a buffer, and gives how many are left.
pub(crate) fn decode(
    version: Option<Version>,
    bytes: &[u8],
) -> Result<(Option<Packet>, usize), Error> {
    let mut src = BytesMut::from(bytes);
    let packet = codec(version).decode(&mut src)?;
    Ok((packet, src.len()))
}

pub(crate) fn encode(version: Version, packet: &Packet) -> Result<BytesMut, Error> {
    let mut dst = BytesMut::new();
    codec(Some(version)).encode(packet, &mut dst)?;
    Ok(dst)
}

/// Reads the bytes of a table: hexadecimal digits, and ASCII text between single quotes.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: String = part.split_whitespace().collect();
        assert_eq!(digits.len() % 2, 0, "half a byte in {text}");
        for at in (0..digits.len()).step_by(2) {
            bytes.push(u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        }
    }
    bytes
}
