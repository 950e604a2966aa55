//! Both ends of a connection, with a socket in between that takes a few bytes at a time.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};

use super::*;

/// A server's end, and the client's side of the wire, which holds so many bytes.
fn pair(bytes: usize) -> (WebSocket<DuplexStream>, DuplexStream) {
    let (server, client) = duplex(bytes);
    (WebSocket::new(server), client)
}

/// A frame with the mask 0, which leaves the payload as it is.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[first, 0x80 | length, 0, 0, 0, 0], payload].concat()
}

#[tokio::test]
async fn a_write_is_one_frame_through_any_socket() {
    let payload: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    let expected = [
        &[0x82, 126, 0x03, 0xE8],
        payload.as_slice(),
        &[0x88, 2, 0x03, 0xE8],
    ]
    .concat();
    for bytes in [1, 2, 3, 7, 500, 100_000] {
        let (mut server, mut client) = pair(bytes);
        let write = async {
            server.write_all(&payload).await.unwrap();
            server.shutdown().await.unwrap();
            drop(server);
        };
        let mut found = Vec::new();
        let (_, read) = tokio::join!(write, client.read_to_end(&mut found));
        read.unwrap();
        assert_eq!(found, expected, "through {bytes} bytes");
    }
}

#[tokio::test]
async fn a_ping_is_answered_between_frames_and_never_within() {
    let (mut server, client) = pair(4);
    let (mut from_server, mut to_server) = split(client);
    let written = [1; 40];
    let converse = async {
        // Begun, and not finished before the ping comes.
        let some = server.write(&written).await.unwrap();
        assert!(some < written.len());
        let mut read = [0; 1];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"x");
        server.write_all(&written[some..]).await.unwrap();
        server.flush().await.unwrap();
        server.shutdown().await.unwrap();
        drop(server);
    };
    let send = async {
        let frames = [frame(0x89, b"old"), frame(0x89, b"new"), frame(0x82, b"x")];
        to_server.write_all(&frames.concat()).await.unwrap();
    };
    let mut found = Vec::new();
    let receive = from_server.read_to_end(&mut found);
    let ((), (), received) = tokio::join!(converse, send, receive);
    received.unwrap();
    let expected = [
        &[0x82, 40],
        written.as_slice(),
        b"\x8a\x03new",
        &[0x88, 2, 0x03, 0xE8],
    ];
    assert_eq!(found, expected.concat());
}

#[tokio::test]
async fn what_came_before_a_fault_is_read_and_the_close_says_which() {
    let (mut server, mut client) = pair(1_000);
    client
        .write_all(&[frame(0x82, b"good"), frame(0x81, b"text")].concat())
        .await
        .unwrap();
    let mut read = Vec::new();
    let error = server.read_to_end(&mut read).await.unwrap_err();
    assert_eq!(read, b"good");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    server.shutdown().await.unwrap();
    drop(server);
    let mut found = Vec::new();
    client.read_to_end(&mut found).await.unwrap();
    assert_eq!(found, [0x88, 2, 0x03, 0xEB], "unsupported data");
}

#[tokio::test]
async fn close_is_the_end_and_a_cut_is_too() {
    for last in [frame(0x88, b"\x03\xe8bye"), Vec::new(), vec![0x82, 0x85, 0]] {
        let (mut server, mut client) = pair(1_000);
        client
            .write_all(&[frame(0x82, b"good"), last].concat())
            .await
            .unwrap();
        client.shutdown().await.unwrap();
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"good");
    }
}
