//! The HTTP request that becomes a WebSocket connection (RFC 6455 §4.2).
//!
//! Any path will do. The `Origin` is not looked at: a device proves who it is in its CONNECT, never by a cookie that a browser
//! adds, so a page of another site gains nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use httparse::{EMPTY_HEADER, Request, Status};
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::net::Error;

/// Most bytes of the request.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
/// The name under which MQTT is registered as a sub-protocol.
const PROTOCOL: &str = "mqtt";
/// What the RFC appends to a key, so that no other server answers right by chance.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The answer to everything else; the version helps clients that speak another one.
const REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// Reads the request and answers it; then frames follow.
///
/// # Errors
/// What the request lacks; the peer has been told and the socket shut by then.
pub(in crate::net) async fn upgrade(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<(), Error> {
    let request = read_request(socket).await?;
    match accept_key(&request) {
        Ok(accept) => {
            // [MQTT-6.0.0-4]
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
            );
            socket.write_all(answer.as_bytes()).await?;
            socket.flush().await?;
            Ok(())
        }
        Err(fault) => {
            socket.write_all(REFUSAL).await?;
            socket.shutdown().await?;
            Err(Error::WebSocket(fault))
        }
    }
}

/// The bytes up to the empty line; or as many as there may be without one.
async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Error> {
    let mut request = Vec::with_capacity(1024);
    let mut part = (&mut *socket).take(REQUEST_BYTES_MAX as u64);
    let is_whole = |request: &[u8]| request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    while !is_whole(&request) && part.limit() > 0 {
        if part.read_buf(&mut request).await? == 0 {
            return Err(Error::Closed(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(request)
}

/// The value that proves that the request was understood.
fn accept_key(request: &[u8]) -> Result<String, &'static str> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = Request::new(&mut headers);
    match parsed.parse(request) {
        // A client waits for the answer before its first frame.
        Ok(Status::Complete(length)) if length == request.len() => {}
        _ => return Err("expected one HTTP request of at most 8192 bytes"),
    }
    if parsed.method != Some("GET") || parsed.version != Some(1) {
        return Err("expected GET and HTTP/1.1");
    }
    if !has_token(&parsed, "Upgrade", |token| {
        token.eq_ignore_ascii_case("websocket")
    }) || !has_token(&parsed, "Connection", |token| {
        token.eq_ignore_ascii_case("upgrade")
    }) {
        return Err("expected Upgrade: websocket");
    }
    if !has_token(&parsed, "Sec-WebSocket-Version", |token| token == "13") {
        return Err("expected Sec-WebSocket-Version: 13");
    }
    if !has_token(&parsed, "Sec-WebSocket-Protocol", |token| token == PROTOCOL) {
        return Err("expected mqtt among Sec-WebSocket-Protocol"); // [MQTT-6.0.0-3]
    }
    let key = values(&parsed, "Sec-WebSocket-Key").next().unwrap_or("");
    match STANDARD.decode(key) {
        Ok(nonce) if nonce.len() == 16 => {
            let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
            Ok(STANDARD.encode(digest))
        }
        _ => Err("expected a Sec-WebSocket-Key of 16 bytes in base64"),
    }
}

/// The values of all headers of that name.
fn values<'a>(request: &'a Request<'_, '_>, name: &'a str) -> impl Iterator<Item = &'a str> {
    request
        .headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .filter_map(|header| str::from_utf8(header.value).ok())
        .map(str::trim)
}

fn has_token(request: &Request<'_, '_>, name: &str, is_it: impl Fn(&str) -> bool) -> bool {
    values(request, name)
        .flat_map(|value| value.split(','))
        .any(|token| is_it(token.trim()))
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
