//! The nats-server beside us: it keeps its port and its store through crashes, and does not outlive us.

#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::jetstream::stream;
use jetway::cli::dev::nats_server::{self, Error, Options, Supervisor};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio_util::sync::CancellationToken;

use support::{Backend, FaultProxy, NatsServer, eventually, lasting};

/// A stream with one message in it.
async fn store_one(backend: &Backend) {
    let config = stream::Config {
        name: "KEPT".into(),
        subjects: vec!["kept".into()],
        ..stream::Config::default()
    };
    let created = backend.jetstream.create_stream(config).await;
    created.expect("the server has JetStream");
    let sequence = backend.publish("kept", &[("Name", "value")], "payload");
    assert_eq!(sequence.await, 1);
}

async fn assert_stored_one(backend: &Backend) {
    let messages = backend.messages("KEPT", ">").await;
    let [message] = messages.as_slice() else {
        panic!("expected one message: {messages:?}");
    };
    assert_eq!((message.sequence, message.subject.as_str()), (1, "kept"));
    assert_eq!(
        (message.header("Name"), message.text()),
        ("value", "payload")
    );
}

fn process(pid: u32) -> Pid {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.expect("a process id is a positive i32")
}

async fn until_gone(pid: u32) {
    eventually("the process is gone", async || {
        match test_kill_process(process(pid)) {
            Ok(()) => Err(format!("process {pid} is there")),
            Err(_no_such_process) => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_stored_message_survives_kill_9() {
    let mut server = NatsServer::start().await;
    let (port, pid) = (server.port(), server.pid());
    store_one(&Backend::connect(&server.url()).await).await;

    server.kill9().await;
    until_gone(pid).await;
    server.restart().await;

    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_stored_one(&Backend::connect(&server.url()).await).await;

    server.stop().await;
    server.restart().await;
    assert_stored_one(&Backend::connect(&server.url()).await).await;
}

#[tokio::test]
async fn servers_beside_each_other_have_ports_of_their_own() {
    let (one, other) = tokio::join!(NatsServer::start(), NatsServer::start());
    assert_ne!(one.port(), other.port());
}

#[tokio::test]
async fn a_backend_goes_on_when_the_server_has_its_subscription() {
    let server = NatsServer::start().await;
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let proxy = FaultProxy::start(address).await;
    let backend = Backend::connect(&proxy.url()).await;
    proxy.hold();
    let mut subscribing = pin!(backend.subscribe("subject"));
    tokio::select! {
        _subscribed = &mut subscribing => panic!("the server cannot have it"),
        () = lasting(Duration::from_millis(300)) => {}
    }
    assert_ne!(proxy.kept(), 0);
    proxy.release();
    subscribing.await;
}

#[tokio::test]
async fn a_port_in_use_is_an_error_with_the_reason_from_the_log() {
    let first = NatsServer::start().await;
    let state_dir = tempfile::tempdir().unwrap();
    let options = Options {
        binary: support::nats_server_binary().await,
        state_dir: state_dir.path().to_owned(),
        port: first.port(),
    };
    let error = nats_server::NatsServer::start(options).await.unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error}");
    assert!(
        error.to_string().contains("address already in use"),
        "{error}"
    );
}

#[tokio::test]
async fn a_supervised_server_comes_back_on_its_port_and_stops_when_told() {
    let state_dir = tempfile::tempdir().unwrap();
    let options = Options {
        binary: support::nats_server_binary().await,
        state_dir: state_dir.path().to_owned(),
        port: 0,
    };
    let server = nats_server::NatsServer::start(options).await.unwrap();
    let (url, pid) = (server.url(), server.pid());
    let shutdown = CancellationToken::new();

    let test = async {
        let backend = Backend::connect(&url).await;
        store_one(&backend).await;
        kill_process(process(pid), Signal::KILL).expect("the server runs");
        until_gone(pid).await;
        eventually("the server listens again", async || {
            let connected = async_nats::connect(&url).await;
            connected.map_err(|error| error.to_string())
        })
        .await;
        assert_stored_one(&Backend::connect(&url).await).await;
        shutdown.cancel();
    };
    tokio::join!(Supervisor::new(server).run(shutdown.clone()), test);
    assert!(async_nats::connect(&url).await.is_err());
}

/// In the child of the test below: starts a server, tells its process id, and waits to be killed.
async fn hold_a_server() {
    let server = NatsServer::start().await;
    println!("\npid {}", server.pid());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_dies_with_a_parent_that_is_killed() {
    const NAME: &str = "a_server_dies_with_a_parent_that_is_killed";
    if env::var_os(NAME).is_some() {
        return hold_a_server().await;
    }
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(NAME, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("pid ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "no pid was told");
    }
    let pid: u32 = line.trim_start_matches("pid ").trim().parse().unwrap();
    test_kill_process(process(pid)).expect("the server runs");
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_gone(pid).await;
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
}
