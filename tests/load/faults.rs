//! What the harness is for: it must not call a stream whole that is not, nor a stall short.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use async_nats::jetstream;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::support::{Gateway, NatsServer, RunOptions, eventually, lasting, within};

/// A gateway with the open profile, and its nats-server.
async fn site(folder: &Path) -> (NatsServer, Gateway) {
    let nats = NatsServer::start().await;
    let gateway = Gateway::run(RunOptions {
        nats_url: nats.url(),
        database_url: format!("sqlite:{}", folder.join("devices.db").display()),
        environment: vec![("JETWAY_PROFILE".to_owned(), "open".to_owned())],
        ..RunOptions::default()
    })
    .await;
    (nats, gateway)
}

fn load(mqtt: SocketAddr, nats: &NatsServer, options: &str, json: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_jetway-bench"))
        .args(["fan-in", "--stream", "MQTT", "--warm-up", "0", "--mqtt"])
        .arg(mqtt.to_string())
        .args(["--nats", &nats.url(), "--json"])
        .arg(json)
        .args(options.split(' '))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn read(json: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap()
}

/// Returns when the stream has so many messages.
async fn filled(nats: &NatsServer, messages: u64) -> jetstream::stream::Stream {
    let context = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let mut stream = context.get_stream("MQTT").await.unwrap();
    eventually("the stream fills", async || {
        let info = stream.info().await.map_err(|error| error.to_string())?;
        match info.state.messages {
            found if found < messages => Err(format!("{found} messages")),
            _ => Ok(()),
        }
    })
    .await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_gone_and_one_that_is_there_twice_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let (nats, gateway) = site(folder.path()).await;
    let mut bench = load(
        gateway.mqtt(),
        &nats,
        "--devices 2 --rate 100 --seconds 3",
        &json,
    );
    let stream = filled(&nats, 20).await;
    let [gone, twice] = [5, 7];
    let copy = stream.get_raw_message(twice).await.unwrap();
    stream.delete_message(gone).await.unwrap();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let context = jetstream::new(client);
    let stored = context.publish(copy.subject, copy.payload).await.unwrap();
    stored.await.unwrap();
    let status = within("jetway-bench to end", bench.wait()).await.unwrap();
    assert!(!status.success());
    let stored = &read(&json)["reports"][0]["stored"];
    assert_eq!(
        (&stored["missing"], &stored["repeated"]),
        (&1.into(), &1.into()),
        "{stored}"
    );
    assert_eq!(stored["disordered"], 0, "{stored}");
}

/// With room for one message a device, only ten would be seen to wait; but all that were due in that second did.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_counts_for_all_that_was_due_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let (nats, gateway) = site(folder.path()).await;
    let options = "--devices 10 --window 1 --rate 300 --seconds 4";
    let mut bench = load(gateway.mqtt(), &nats, options, &json);
    let stream = filled(&nats, 100).await;
    drop(stream);
    nats.pause().await;
    lasting(Duration::from_secs(1)).await;
    nats.resume();
    let status = within("jetway-bench to end", bench.wait()).await.unwrap();
    assert!(status.success());
    let report = &read(&json)["reports"][0];
    // A quarter of all messages waited half a second on average, so one in ten waited most of it.
    let p90 = report["latency"]["p90"].as_f64().unwrap();
    assert!(p90 > 400.0, "{report}");
}
