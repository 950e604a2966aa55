//! Requests of browsers and devices, and those that are something else.

use tokio::io::duplex;

use super::*;

/// The lines of a good request; the key and its answer are those of RFC 6455 §1.3.
const LINES: [&str; 7] = [
    "GET /mqtt?any HTTP/1.1",
    "Host: gateway",
    "upgrade: WebSocket",
    "Connection: keep-alive, Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Protocol: other, mqtt, mqttv3.1",
];

/// The answer to bytes, and whether frames follow.
async fn answer(request: &str) -> (String, bool) {
    let (mut server, mut client) = duplex(64 * 1024);
    client.write_all(request.as_bytes()).await.unwrap();
    let upgraded = upgrade(&mut server).await.is_ok();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    (answer, upgraded)
}

fn request(lines: &[&str]) -> String {
    format!("{}\r\n\r\n", lines.join("\r\n"))
}

#[tokio::test]
async fn mqtt_is_selected_whenever_it_is_offered() {
    // [MQTT-6.0.0-3] [MQTT-6.0.0-4] (G21)
    for offer in [
        "Sec-WebSocket-Protocol: mqtt",
        "Sec-WebSocket-Protocol: other, mqtt, mqttv3.1",
        "Sec-WebSocket-Protocol: other\r\nSec-WebSocket-Protocol: mqtt",
    ] {
        let mut lines = LINES;
        lines[6] = offer;
        let (answer, upgraded) = answer(&request(&lines)).await;
        assert!(upgraded, "{offer}: {answer}");
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(
            answer.ends_with("\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"),
            "{answer}"
        );
        assert!(
            answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn everything_else_is_answered_with_400() {
    let mut requests: Vec<String> = [
        (0, "POST /mqtt HTTP/1.1"),
        (0, "GET /mqtt HTTP/1.0"),
        (0, "GET /mqtt"),
        (2, "Upgrade: h2c"),
        (3, "Connection: keep-alive"),
        (4, "Sec-WebSocket-Key: c2hvcnQ="),
        (4, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ"),
        (4, "No-Key: 1"),
        (5, "Sec-WebSocket-Version: 8"),
        (6, "Sec-WebSocket-Protocol: mqttv3.1"),
        (6, "Sec-WebSocket-Protocol: MQTT"),
        (6, "No-Protocol: 1"),
    ]
    .into_iter()
    .map(|(at, line)| {
        let mut lines = LINES;
        lines[at] = line;
        request(&lines)
    })
    .collect();
    // A first frame before the answer; headers without end; a packet of MQTT as it is.
    requests.push(request(&LINES) + "\u{2}");
    requests.push(format!(
        "GET / HTTP/1.1\r\nFiller: {}",
        "x".repeat(REQUEST_BYTES_MAX)
    ));
    requests.push("\u{10}\u{c}\0\u{4}MQTT\r\n\r\n".to_owned());
    for request in requests {
        let (answer, upgraded) = answer(&request).await;
        assert!(!upgraded, "{request}");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
    }
}

#[tokio::test]
async fn a_request_may_come_in_parts() {
    let (mut server, mut client) = duplex(1);
    let request = request(&LINES);
    let converse = async {
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 101");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
    };
    let upgraded = async {
        upgrade(&mut server).await.unwrap();
        drop(server);
    };
    tokio::join!(upgraded, converse);
}
