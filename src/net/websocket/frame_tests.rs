//! Frames as clients send them, split everywhere; and what the RFC forbids.

use proptest::prelude::*;

use super::*;

/// A masked frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];
    let mut frame = vec![first];
    match payload.len() {
        length @ ..=125 => frame.push(MASKED | u8::try_from(length).unwrap()),
        length @ ..=0xFFFF => {
            frame.push(MASKED | 126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(MASKED | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, key)| byte ^ key));
    frame
}

/// The payload of frames that are read in parts of these sizes, and the machine at the end.
fn deframe(bytes: &[u8], sizes: impl IntoIterator<Item = usize>) -> (Vec<u8>, Deframer) {
    let mut deframer = Deframer::default();
    let (mut rest, mut payload) = (bytes.to_vec(), Vec::new());
    for size in sizes {
        let mut part: Vec<u8> = rest.drain(..size.min(rest.len())).collect();
        let kept = deframer.deframe(&mut part);
        payload.extend(&part[..kept]);
    }
    (payload, deframer)
}

#[test]
fn payloads_are_one_stream_whatever_the_frames() {
    // [MQTT-6.0.0-2]
    let long = vec![7; 70_000];
    let frames = [
        frame(FIN | BINARY, b"one"),
        frame(FIN | BINARY, b""),
        frame(BINARY, b"tw"),
        frame(FIN | PING, b"between"),
        frame(CONTINUATION, b""),
        frame(FIN | PONG, b"unasked for"),
        frame(FIN | CONTINUATION, b"o"),
        frame(FIN | BINARY, &[7; 126]),
        frame(FIN | BINARY, &long),
        frame(FIN | PING, b""),
        frame(FIN | CLOSE, b"\x03\xe8"),
        frame(FIN | BINARY, b"too late"),
    ];
    let expected = [b"onetwo".as_slice(), &[7; 126], &long].concat();
    let bytes = frames.concat();
    for size in [1, 2, 3, 5, 7, 13, 100, 16_384, bytes.len()] {
        let (payload, deframer) = deframe(&bytes, std::iter::repeat_n(size, bytes.len()));
        assert_eq!(payload, expected);
        assert_eq!(deframer.ping, Some(Vec::new()));
        assert_eq!(deframer.end, Some(End::Closed));
    }
}

#[test]
fn what_the_rfc_forbids_ends_the_connection() {
    let long = [FIN | BINARY, MASKED | 127];
    let cases: [(Vec<u8>, u16); 14] = [
        (frame(FIN | TEXT, b"text"), CLOSE_UNSUPPORTED_DATA), // [MQTT-6.0.0-1]
        (frame(TEXT, b""), CLOSE_UNSUPPORTED_DATA),
        (frame(FIN | CONTINUATION, b""), CLOSE_PROTOCOL_ERROR),
        (
            [frame(BINARY, b"open"), frame(FIN | BINARY, b"new")].concat(),
            CLOSE_PROTOCOL_ERROR,
        ),
        (frame(PING, b"in parts"), CLOSE_PROTOCOL_ERROR),
        (frame(FIN | PING, &[0; 126]), CLOSE_PROTOCOL_ERROR),
        (frame(FIN | CLOSE, &[0; 126]), CLOSE_PROTOCOL_ERROR),
        (frame(FIN | 0x3, b"reserved"), CLOSE_PROTOCOL_ERROR),
        (frame(FIN | 0xB, b"reserved"), CLOSE_PROTOCOL_ERROR),
        (frame(FIN | 0x40 | BINARY, b"rsv"), CLOSE_PROTOCOL_ERROR),
        // No mask; lengths in more bytes than they need, and a negative one.
        (vec![FIN | BINARY, 1, 0, 0, 0, 0, 0], CLOSE_PROTOCOL_ERROR),
        (
            vec![FIN | BINARY, MASKED | 126, 0, 125, 0, 0, 0, 0],
            CLOSE_PROTOCOL_ERROR,
        ),
        (
            [long.as_slice(), &0xFFFF_u64.to_be_bytes(), &[0; 4]].concat(),
            CLOSE_PROTOCOL_ERROR,
        ),
        (
            [long.as_slice(), &u64::MAX.to_be_bytes(), &[0; 4]].concat(),
            CLOSE_PROTOCOL_ERROR,
        ),
    ];
    for (bytes, code) in cases {
        let around = |text: &[u8]| frame(FIN | BINARY, text);
        let all = [around(b"good"), bytes.clone(), around(b"ignored")].concat();
        let (payload, deframer) = deframe(&all, [usize::MAX]);
        assert!(payload.starts_with(b"good") && !payload.ends_with(b"ignored"));
        let text = bytes.escape_ascii();
        assert_eq!(deframer.end, Some(End::Fault(code)), "{text}");
    }
}

#[test]
fn our_frames_have_the_shortest_header() {
    for (length, header) in [
        (1, vec![0x82, 1]),
        (125, vec![0x82, 125]),
        (126, vec![0x82, 126, 0, 126]),
        (0xFFFF, vec![0x82, 126, 0xFF, 0xFF]),
        (0x1_0000, vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] {
        let mut found = Vec::new();
        binary_header(length, &mut found);
        assert_eq!(found, header);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic_nor_grow(bytes: Vec<u8>, size in 1_usize..50) {
        let (payload, deframer) = deframe(&bytes, std::iter::repeat_n(size, bytes.len()));
        prop_assert!(payload.len() <= bytes.len());
        prop_assert!(deframer.control.len() <= 125);
    }
}
