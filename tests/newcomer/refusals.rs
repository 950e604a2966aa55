//! What `jetway dev` does not start on: a folder or a port that is in use.

use std::process::{Command, Output};

use crate::support::{Backend, DevOptions, Device, Gateway, Protocol, nats_server_binary};

/// Runs `jetway dev` to its end, which must be a refusal, and returns what it said.
async fn refusal(arguments: &[&str]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_jetway"))
        .arg("dev")
        .args(arguments)
        .env("JETWAY_NATS_SERVER", nats_server_binary().await)
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(stdout.is_empty());
    String::from_utf8(stderr).unwrap()
}

fn any_ports(state_dir: &str) -> Vec<&str> {
    let ports = ["--mqtt-port", "0", "--nats-port", "0", "--http-port", "0"];
    [&ports[..], &["--state-dir", state_dir]].concat()
}

#[tokio::test]
async fn a_folder_has_one_server_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("state");
    let start = async || {
        Gateway::dev(DevOptions {
            state_dir: Some(state_dir.clone()),
            ..DevOptions::default()
        })
        .await
    };
    let mut first = start().await;
    let device = first.ready.device.clone().unwrap();
    let topic = format!("$thing/up/property/{}/{}", device.product, device.name);
    let address = first.mqtt();
    let mut reporter = Device::connect(Protocol::V311, address, &device.credentials).await;
    assert_eq!(reporter.publish_acked(&topic, "1").await, 0);

    let said = refusal(&any_ports(state_dir.to_str().unwrap())).await;
    assert!(said.contains("belongs to a running nats-server"), "{said}");
    assert_eq!(
        reporter.publish_acked(&topic, "2").await,
        0,
        "the first is as it was"
    );

    // A crash lets go of the folder at once.
    first.kill9().await;
    let second = start().await;
    let backend = Backend::connect(&second.ready.nats).await;
    let stored = backend.messages("DEVICE_UP", ">").await;
    let stored: Vec<&str> = stored.iter().map(|message| message.text()).collect();
    assert_eq!(stored, ["1", "2"]);
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_before_anything_starts() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for option in ["--mqtt-port", "--nats-port", "--http-port"] {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        let mut arguments = any_ports(state_dir.to_str().unwrap());
        let at = arguments.iter().position(|argument| *argument == option);
        arguments[at.unwrap() + 1] = &port;
        let said = refusal(&arguments).await;
        let expected = format!("jetway: {option} {port}: expected a free port; `{option} 0`");
        assert!(said.starts_with(&expected), "{said}");
        assert!(!state_dir.exists(), "{option}: something was started");
    }
}
