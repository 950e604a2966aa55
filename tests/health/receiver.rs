//! A receiver of notifications: a real HTTP server that keeps what it is told, and answers as it is asked to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::Listener;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::support::eventually;
use crate::support::pki::Pair;

/// How it answers.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// As a webhook, Feishu and WeCom do when all is well.
    Ok,
    /// As WeCom does when it has been told too much.
    Refused,
    /// Never.
    Nothing,
}

#[derive(Clone)]
struct Ear {
    answer: Arc<Mutex<Answer>>,
    told: Arc<Mutex<Vec<(Instant, Value)>>>,
}

/// A running receiver; gone when dropped.
pub(crate) struct Receiver {
    scheme: &'static str,
    address: SocketAddr,
    ear: Ear,
    server: JoinHandle<()>,
}

impl Receiver {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve("http", listener, answer)
    }

    /// One that speaks TLS with this certificate.
    pub(crate) async fn start_tls(certificate: &Pair) -> Self {
        let chain = CertificateDer::pem_file_iter(&certificate.certificate).unwrap();
        let chain = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = Secured {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: Arc::new(config).into(),
        };
        Self::serve("https", listener, Answer::Ok)
    }

    fn serve<L>(scheme: &'static str, listener: L, answer: Answer) -> Self
    where
        L: Listener<Addr = SocketAddr>,
    {
        let ear = Ear {
            answer: Arc::new(Mutex::new(answer)),
            told: Arc::default(),
        };
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/robot", post(hear))
            .with_state(ear.clone());
        #[expect(clippy::disallowed_methods, reason = "a test has no exit policy")]
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            scheme,
            address,
            ear,
            server,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}/robot?key=secret", self.scheme, self.address)
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self
            .ear
            .answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// Everything that it was told so far, and when.
    pub(crate) fn told(&self) -> Vec<(Instant, Value)> {
        let told = self.ear.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }

    /// Waits for a notification that is so, and returns it.
    pub(crate) async fn is_told(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the receiver is told {what}"), async || {
            let told = self.told();
            let found = told.iter().find(|(_, body)| is_it(body));
            found
                .map(|(_, body)| body.clone())
                .ok_or_else(|| format!("{told:#?}"))
        })
        .await
    }
}

/// Sockets behind TLS; one whose handshake fails is dropped.
struct Secured {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (socket, address) = self.listener.accept().await.unwrap();
            if let Ok(secured) = self.acceptor.accept(socket).await {
                return (secured, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Ear {
    fn hear(&self, body: &[u8]) -> Answer {
        let body = serde_json::from_slice(body).unwrap();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.push((Instant::now(), body));
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn hear(State(ear): State<Ear>, body: Bytes) -> (StatusCode, &'static str) {
    match ear.hear(&body) {
        Answer::Ok => (StatusCode::OK, r#"{"code":0,"errcode":0,"msg":"ok"}"#),
        Answer::Refused => (StatusCode::OK, r#"{"code":11232,"errcode":45009}"#),
        Answer::Nothing => std::future::pending().await,
    }
}

/// `(status, rule, reason)` of each alarm in a notification to a webhook.
pub(crate) fn alarms(body: &Value) -> Vec<(&str, &str, &str)> {
    let alarms = body["alarms"].as_array().unwrap().iter();
    alarms
        .map(|alarm| {
            let text = |key: &str| alarm[key].as_str().unwrap();
            (text("status"), text("rule"), text("reason"))
        })
        .collect()
}
