//! Any bytes decode to packets or an error, and to the same ones whether they arrive at once or byte by byte.
//!
//! The first byte chooses the version; the rest is what the peer sends.
#![no_main]

use bytes::BytesMut;
use jetway_fuzz::mqtt::{Codec, Error, Packet, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, sent)) = data.split_first() else {
        return;
    };
    let codec = codec(*choice);
    assert_eq!(decode(codec, sent, sent.len()), decode(codec, sent, 1));
});

fn codec(choice: u8) -> Codec {
    let mut codec = Codec::new(1 << 16);
    match choice % 3 {
        0 => {}
        1 => codec.set_version(Version::V3_1_1),
        _ => codec.set_version(Version::V5),
    }
    codec
}

/// What is decoded when the bytes arrive in pieces of this length, and how it ends.
fn decode(mut codec: Codec, sent: &[u8], piece: usize) -> (Vec<Packet>, Option<Error>) {
    let mut src = BytesMut::new();
    let mut packets = Vec::new();
    for piece in sent.chunks(piece.max(1)) {
        src.extend_from_slice(piece);
        loop {
            match codec.decode(&mut src) {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(error) => return (packets, Some(error)),
            }
        }
    }
    (packets, None)
}
