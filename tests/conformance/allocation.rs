//! What decoding costs: a PUBLISH allocates nothing, however many properties it has.

use bytes::BytesMut;
use jetway::mqtt::{Codec, Packet, Version};
use tikv_jemalloc_ctl::thread;

use crate::wire::{bytes, codec};

/// Counts the bytes that each thread allocates.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How many bytes this thread allocates while it decodes `count` packets.
fn allocated(codec: &mut Codec, src: &mut BytesMut, count: usize) -> u64 {
    let counter = thread::allocatedp::read().unwrap();
    let before = counter.get();
    for _ in 0..count {
        assert!(codec.decode(src).unwrap().is_some());
    }
    counter.get() - before
}

#[test]
fn a_publish_allocates_nothing() {
    for (version, text) in [
        (Version::V3_1_1, "32 0d 0003'a/b' 0001 'hello!'"),
        (Version::V5, "32 0e 0003'a/b' 0001 00 'hello!'"),
        (
            Version::V5,
            "32 2f 0003'a/b' 0001 21 0101 0200000010 26 0001'k' 0001'v' 080001'r' 090001'c' 030001't' \
             26 0001'k' 0001'w' 'hello!'",
        ),
    ] {
        let mut codec = codec(Some(version));
        let mut src = BytesMut::from(&bytes(text).repeat(100)[..]);
        // The first split makes the read buffer shareable, once for all packets in it.
        assert!(allocated(&mut codec, &mut src, 1) <= 64);
        assert_eq!(allocated(&mut codec, &mut src, 99), 0, "{text}");
        assert!(src.is_empty());
    }
}

#[test]
fn the_allocator_counts() {
    let counter = thread::allocatedp::read().unwrap();
    let before = counter.get();
    let buffer = std::hint::black_box(vec![0_u8; 1000]);
    assert!(counter.get() - before >= 1000, "{}", buffer.len());
}

#[test]
fn payload_and_strings_are_the_buffers_own_bytes() {
    let mut src = BytesMut::from(&bytes("30 08 0003'a/b' 00 'hi'")[..]);
    let buffer = src.as_ptr_range();
    let Packet::Publish(publish) = codec(Some(Version::V5)).decode(&mut src).unwrap().unwrap()
    else {
        panic!("not a PUBLISH");
    };
    assert!(buffer.contains(&publish.topic.as_ptr()));
    assert!(buffer.contains(&publish.payload.as_ptr()));
}

#[test]
fn the_codec_of_a_connection_is_small() {
    assert!(size_of::<Codec>() <= 16);
    assert!(size_of::<Packet>() <= 512, "{}", size_of::<Packet>());
}
