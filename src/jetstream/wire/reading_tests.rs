//! Frames off a buffer: whole, in pieces, and what is none.

use proptest::prelude::*;

use super::*;

const SPOKEN: &str = "INFO {\"max_payload\":1048576,\"nonce\":\"n\",\"connect_urls\":[\"b:1\"],\"ldm\":true}\r\n+OK\r\nPING\r\nPONG\r\n\
     MSG a.b 1 5\r\nhello\r\nMSG a.b 1 reply.x 0\r\n\r\n\
     HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nHMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n-ERR 'Stale Connection'\r\n";

fn answer(subject: &'static str, no_responders: bool, payload: &'static str) -> Frame {
    Frame::Message(Answer {
        subject: subject.into(),
        no_responders,
        payload: payload.into(),
    })
}

fn expected() -> Vec<Frame> {
    vec![
        Frame::Info(Box::new(Info {
            max_payload: Some(1_048_576),
            connect_urls: vec!["b:1".to_owned()],
            nonce: "n".to_owned(),
            lame_duck_mode: true,
            ..Info::default()
        })),
        Frame::Ok,
        Frame::Ping,
        Frame::Pong,
        answer("a.b", false, "hello"),
        answer("a.b", false, ""),
        answer("a", true, ""),
        answer("a", false, "hi"),
        Frame::Error("Stale Connection".to_owned()),
    ]
}

fn read(pieces: &[&[u8]]) -> io::Result<Vec<Frame>> {
    let (mut reading, mut buffer, mut frames) = (Reading::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(frame) = reading.next(&mut buffer)? {
            frames.push(frame);
        }
    }
    assert!(buffer.is_empty(), "{buffer:?}");
    Ok(frames)
}

#[test]
fn frames_are_read_whole_and_byte_by_byte() {
    assert_eq!(read(&[SPOKEN.as_bytes()]).unwrap(), expected());
    let bytes: Vec<&[u8]> = SPOKEN.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes).unwrap(), expected());
    for at in 1..SPOKEN.len() {
        let (first, second) = SPOKEN.as_bytes().split_at(at);
        assert_eq!(read(&[first, second]).unwrap(), expected(), "{at}");
    }
}

#[test]
fn what_is_not_the_protocol_is_an_error() {
    for text in [
        "HTTP/1.1 400 Bad Request\r\n",
        "MSG a\r\n",
        "MSG a 1 x\r\n",
        "MSG a 1 99999999999\r\n",
        "HMSG a 1 9 3\r\nabc\r\n",
        "INFO x\r\n",
        "\r\n",
    ] {
        let mut buffer = BytesMut::from(text);
        let error = Reading::default().next(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text}");
    }
    let mut endless = BytesMut::from(&vec![b'x'; LINE_BYTES_MAX + 1][..]);
    Reading::default().next(&mut endless).unwrap_err();
}

/// Words of the protocol in any order, so that more than the first word is read of what is not the protocol.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "MSG |HMSG |msg\t|INFO |-ERR |PING|PONG|\\+OK",
        "[0-9]{1,20} ?| |\\{|\\}|_jw\\.ack ",
        Just("\r\n".to_owned()),
        Just("NATS/1.0 503\r\n\r\n".to_owned()),
        Just("\u{e9}\r".to_owned()),
    ];
    proptest::collection::vec(word, 0..30).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_an_error(
        bytes in prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), words()],
        piece in 1_usize..40,
    ) {
        let (mut reading, mut buffer) = (Reading::default(), BytesMut::new());
        for piece in bytes.chunks(piece) {
            buffer.extend_from_slice(piece);
            loop {
                let before = buffer.len();
                match reading.next(&mut buffer) {
                    Ok(Some(_)) => assert!(buffer.len() < before, "a frame was taken off"),
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}
