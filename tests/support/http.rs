//! The operator's port, asked as plainly as it can be written.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::wait::within;

/// Status code and body.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    request(address, "GET", path).await
}

/// Status code and body of a request without a body.
pub async fn request(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    send(address, method, path, "").await
}

/// Status code and body of a request with this body.
pub async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let answer = within(&format!("an answer to {method} {path}"), async {
        let mut socket = TcpStream::connect(address).await?;
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    })
    .await
    .unwrap_or_else(|error| panic!("{method} http://{address}{path}: {error}"));
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let body = match head.contains("Transfer-Encoding: chunked") {
        true => chunks(body),
        false => body.to_owned(),
    };
    (
        status.unwrap_or_else(|| panic!("no status line: {answer}")),
        body,
    )
}

/// What a body in chunks holds; nats-server answers so when it has much to say.
fn chunks(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

/// The value of one metric of `/metrics`, `name` with its labels as printed there; 0 where it is not there yet.
pub async fn metric(address: SocketAddr, name: &str) -> f64 {
    let (status, body) = get(address, "/metrics").await;
    assert_eq!(status, 200, "{body}");
    body.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .map_or(0.0, |value| value.parse().unwrap())
}
