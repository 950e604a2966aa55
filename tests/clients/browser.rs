//! MQTT.js in headless Chromium, through the same flows as in Node.js, over WebSocket with and without TLS.
//!
//! The test serves the page and the scripts on a port of its own, and the page posts what it saw back to it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use axum::serve::Serve;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::beside;
use crate::open::check;
use crate::site::Site;
use crate::support::{node_packages, within_time};

/// For a browser to start and for all flows in it.
const FLOWS_MAX: Duration = Duration::from_secs(120);

/// The page's server, not running yet, and its address; what the page posts goes into the channel.
async fn server(
    arguments: String,
    seen: mpsc::Sender<String>,
) -> (SocketAddr, Serve<TcpListener, Router, Router>) {
    let read = |path| std::fs::read_to_string(path).unwrap();
    let [page, flows] = ["browser.html", "flows.mjs"].map(|name| read(beside(name)));
    let mqtt = read(node_packages().join("mqtt/dist/mqtt.min.js"));
    let file =
        |kind: &'static str, content: String| get(async move || ([(CONTENT_TYPE, kind)], content));
    let router = Router::new()
        .route("/", file("text/html", page))
        .route("/flows.mjs", file("text/javascript", flows))
        .route("/mqtt.min.js", file("text/javascript", mqtt))
        .route("/arguments", file("application/json", arguments))
        .route(
            "/seen",
            post(async move |body: String| seen.send(body).await.unwrap()),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, axum::serve(listener, router))
}

/// Opens the page in a browser with a profile of its own. The test's authority is none that the browser knows.
fn browse(address: SocketAddr, profile: &TempDir) -> Child {
    let log = std::fs::File::create(profile.path().join("log")).unwrap();
    Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args(["--disable-dev-shm-usage", "--ignore-certificate-errors"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("chromium: {error}; deploy/test.sh installs it"))
}

#[tokio::test]
async fn mqtt_js_in_chromium() {
    let site = Site::open().await;
    let (sender, mut posted) = mpsc::channel(1);
    let (address, server) = server(site.arguments().to_string(), sender).await;
    let profile = tempfile::tempdir().unwrap();
    let mut browser = browse(address, &profile);
    let log = || std::fs::read_to_string(profile.path().join("log")).unwrap();
    let seen = tokio::select! {
        seen = within_time(FLOWS_MAX, "the page's report", posted.recv()) => seen.unwrap(),
        ended = server.into_future() => panic!("the page's server: {ended:?}"),
        ended = browser.wait() => panic!("chromium: {ended:?}\n{}", log()),
    };
    browser.kill().await.unwrap();
    check(&serde_json::from_str(&seen).unwrap(), &["ws", "wss"]);
}
