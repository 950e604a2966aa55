//! A service that gateways ask over HTTP: it keeps what it was asked, and answers as it is told to, or not at all.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How it answers.
#[derive(Clone)]
pub(crate) enum Says {
    Json(Value),
    Status(u16),
    Nothing,
}

#[derive(Clone)]
struct Desk {
    says: Arc<Mutex<Says>>,
    asked: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
}

/// A running service; gone when dropped.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    desk: Desk,
    server: JoinHandle<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    pub(crate) async fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let desk = Desk {
            says: Arc::new(Mutex::new(says)),
            asked: Arc::default(),
        };
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/{*path}", any(answer))
            .with_state(desk.clone());
        #[expect(clippy::disallowed_methods, reason = "a test has no exit policy")]
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            desk,
            server,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/logins", self.address)
    }

    /// From now on.
    pub(crate) fn says(&self, says: Says) {
        *lock(&self.desk.says) = says;
    }

    /// How often it was asked.
    pub(crate) fn times(&self) -> usize {
        lock(&self.desk.asked).len()
    }

    /// The headers and the body of the last request.
    pub(crate) fn asked(&self) -> (HeaderMap, Value) {
        let (headers, body) = lock(&self.desk.asked).last().cloned().unwrap();
        (headers, serde_json::from_slice(&body).unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    lock(&desk.asked).push((headers, body));
    let says = lock(&desk.says).clone();
    match says {
        Says::Json(json) => (StatusCode::OK, json.to_string()),
        Says::Status(status) => (StatusCode::from_u16(status).unwrap(), "<html>".to_owned()),
        Says::Nothing => std::future::pending().await,
    }
}
