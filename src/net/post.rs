//! One HTTP request, a POST of JSON or a GET: a connection of its own, a time limit over all of it, an answer of bounded size.
//!
//! Alarms and what a scheduler is told are rare, and answers about logins are remembered, so there is no pool and nothing is kept
//! between them but the root certificates. `https` is answered for by
//! the system's root certificates. No redirects, no proxy.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What of an answer is read; robots answer with a few words.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Why nothing was told, in words that have no part of the address: it may hold a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens, or TLS was not agreed on.
    #[error("no connection: {0}")]
    Connect(std::io::Error),
    /// The answer is no HTTP, or too large.
    #[error("no usable answer: {0}")]
    Http(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Nobody can answer for a receiver.
    #[error("no usable root certificate on this system")]
    Roots,
}

/// A URL that can be posted to.
///
/// # Errors
/// What was expected instead.
pub fn parse(url: &str) -> Result<Uri, String> {
    let expected = "expected http://HOST/… or https://HOST/…";
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("{expected}: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(expected.to_owned()),
    }
}

/// Sends JSON with these headers more; gives status and body of the answer.
///
/// # Errors
/// When there is no answer within `limit`, or none that can be read.
pub async fn json(
    uri: &Uri,
    headers: &[(&str, &str)],
    body: Bytes,
    limit: Duration,
) -> Result<(u16, Bytes), Error> {
    let request = Request::builder()
        .method(Method::POST)
        .header(CONTENT_TYPE, "application/json; charset=utf-8");
    timeout(limit, Box::pin(send(uri, request, headers, body)))
        .await
        .map_err(|_elapsed| Error::Timeout(limit))?
}

/// Asks for what is there; gives status and body of the answer.
///
/// # Errors
/// When there is no answer within `limit`, or none that can be read.
pub async fn get(uri: &Uri, limit: Duration) -> Result<(u16, Bytes), Error> {
    timeout(
        limit,
        Box::pin(send(uri, Request::builder(), &[], Bytes::new())),
    )
    .await
    .map_err(|_elapsed| Error::Timeout(limit))?
}

async fn send(
    uri: &Uri,
    request: Builder,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<(u16, Bytes), Error> {
    let host = uri.host().unwrap_or_default();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    // An IPv6 address stands in brackets in a URL, and in none elsewhere.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((name, port))
        .await
        .map_err(Error::Connect)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    // What stands before an `@` is for us, not for the receiver's logs.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let request = request.uri(path).header(HOST, authority);
    let add = |request: Builder, (name, value): &(&str, &str)| request.header(*name, *value);
    let request = headers
        .iter()
        .fold(request, add)
        .body(Full::new(body))
        .map_err(|error| Error::Http(error.to_string()))?;
    if !is_tls {
        return exchange(socket, request).await;
    }
    let name =
        ServerName::try_from(name.to_owned()).map_err(|error| Error::Http(error.to_string()))?;
    let secured = TlsConnector::from(tls()?).connect(name, socket).await;
    exchange(secured.map_err(Error::Connect)?, request).await
}

async fn exchange<S>(socket: S, request: Request<Full<Bytes>>) -> Result<(u16, Bytes), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Error::Http(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    let answer = std::pin::pin!(async move {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
        let body = body.await.map_err(|error| Error::Http(error.to_string()))?;
        Ok((status, body.to_bytes()))
    });
    // The connection has to be driven while the answer is waited for; it may end first, with all of it read.
    match select(answer, connection).await {
        Either::Left((answer, _connection)) => answer,
        Either::Right((_ended, answer)) => answer.await,
    }
}

/// Made once: reading the system's root certificates takes longer than most requests.
fn tls() -> Result<Arc<ClientConfig>, Error> {
    static MADE: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = MADE.get() {
        return Ok(Arc::clone(config));
    }
    let config = make_tls()?;
    Ok(Arc::clone(MADE.get_or_init(|| config)))
}

fn make_tls() -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::Roots);
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Http(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_posted_to_is_a_url() {
        for good in ["http://a/", "https://a:1/b?key=c", "http://[::1]:9/x"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "/path",
            "ftp://a/",
            "https://",
            "http:///x",
            "ht tp://a",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
