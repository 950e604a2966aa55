//! What is decoded can be encoded, is not longer then, and decodes to the same packet.
//!
//! The first byte chooses the version; the rest is what the peer sends.
#![no_main]

use bytes::BytesMut;
use jetway_fuzz::mqtt::{Codec, Packet, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, sent)) = data.split_first() else {
        return;
    };
    let mut codec = Codec::new(1 << 16);
    codec.set_version(match choice % 2 {
        0 => Version::V3_1_1,
        _ => Version::V5,
    });
    let mut src = BytesMut::from(sent);
    loop {
        let before = src.len();
        let Ok(Some(packet)) = codec.decode(&mut src) else {
            return;
        };
        let mut dst = BytesMut::new();
        codec.encode(&packet, &mut dst).expect("it was decoded");
        // What is written is the shortest form, but for the property length of a DISCONNECT, which some clients miss.
        let longer = usize::from(matches!(packet, Packet::Disconnect(_)));
        assert!(dst.len() <= before - src.len() + longer);
        let again = codec.decode(&mut dst).expect("it was encoded");
        assert_eq!(again.as_ref(), Some(&packet));
        assert!(dst.is_empty());
    }
});
