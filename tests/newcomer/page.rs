//! Reads the page that `jetway dev` prints and pastes its lines into a shell, as a newcomer does.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{eventually, http_get, nats_server_binary, within};

/// What the page says to paste.
struct Page {
    http: std::net::SocketAddr,
    tail: String,
    publish: String,
    subscribe: String,
    send: String,
}

impl Page {
    /// Reads it up to its last line.
    async fn read(lines: &mut Lines<BufReader<ChildStdout>>) -> Self {
        let mut text = String::new();
        while !text.contains("Ctrl-C stops everything") {
            let line = within("the page", lines.next_line()).await.unwrap();
            text.push_str(&line.expect("the page has its last line"));
            text.push('\n');
        }
        let http = text.split_once("HTTP http://").unwrap().1;
        let http = http.split_once(' ').unwrap().0.parse().unwrap();
        // What is to be pasted is indented; a backslash goes on.
        let text = text.replace("\\\n", "");
        let mut pasted = text.lines().filter_map(|line| line.strip_prefix("   "));
        let mut next = || pasted.next().unwrap().to_owned();
        Self {
            http,
            tail: next(),
            publish: next(),
            subscribe: next(),
            send: next(),
        }
    }
}

/// A shell with one line in it; signals reach the program itself.
fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec {line}")])
        .kill_on_drop(true);
    command
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

async fn succeed(line: &str) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = within(line, shell(line).output()).await.unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{line}: {status}: {said}");
    assert_eq!(said, "", "{line}");
    String::from_utf8(stdout).unwrap()
}

/// `jetway dev` on free ports, with what it logs in a file.
async fn dev(folder: &Path) -> Child {
    let log = File::create(folder.join("log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_jetway"))
        .args([
            "dev",
            "--mqtt-port",
            "0",
            "--nats-port",
            "0",
            "--http-port",
            "0",
        ])
        .args(["--demo", "2", "--state-dir"])
        .arg(folder.join("state"))
        .env("JETWAY_NATS_SERVER", nats_server_binary().await)
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn the_page_works_word_for_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = dev(folder.path()).await;
    let mut printed = BufReader::new(dev.stdout.take().unwrap()).lines();
    let page = Page::read(&mut printed).await;

    let mut tail = shell(&page.tail);
    let mut tail = tail
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(tail.stderr.take().unwrap()).lines();
    let watching = within("tail to watch", said.next_line()).await.unwrap();
    assert!(watching.unwrap().contains("watching"));
    let mut watched = BufReader::new(tail.stdout.take().unwrap()).lines();

    assert_eq!(succeed(&page.publish).await, "");
    let mut missing = vec![
        "device.up.status.connected",
        "device.up.mqtt.thing.demo.device",
        "device.up.thing.demo.device",
        "device.up.status.disconnected",
        // The simulated devices.
        "device.up.mqtt.thing.demo.tracker0",
        "device.up.mqtt.thing.demo.tracker1",
    ];
    while !missing.is_empty() {
        let line = within(&format!("{missing:?}"), watched.next_line()).await;
        let line = line.unwrap().unwrap();
        missing.retain(|subject| line.split(' ').next() != Some(*subject));
    }

    // By itself it prints line by line only to a terminal.
    let mut sub = shell(&format!("stdbuf -oL {}", page.subscribe))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = BufReader::new(sub.stdout.take().unwrap()).lines();
    eventually("the device has its command", async || {
        // It does not say when it has subscribed.
        assert!(succeed(&page.send).await.contains("stored as"));
        let (_, metrics) = http_get(page.http, "/metrics").await;
        match metrics.contains("jetway_downlink_messages_total{outcome=\"sent\"}") {
            true => Ok(()),
            false => Err("none is sent".to_owned()),
        }
    })
    .await;
    let line = within("mosquitto_sub to print it", heard.next_line()).await;
    let line = line.unwrap().unwrap();
    let command = "$thing/down/property/demo/device {\"method\":\"control\"";
    assert!(line.starts_with(command), "{line}");
    signal(&sub, Signal::TERM);
    within("mosquitto_sub's end", sub.wait()).await.unwrap();

    signal(&dev, Signal::INT);
    let status = within("the end", dev.wait()).await.unwrap();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(status.success(), "{status}:\n{log}");
    // A command that came before the device had subscribed is told of, and rightly so.
    let log: Vec<_> = (log.lines())
        .filter(|line| !line.ends_with("reason=\"not_subscribed\""))
        .collect();
    let log = log.join("\n");
    for alarm in ["ERROR", "WARN", "\u{1b}"] {
        assert!(
            !log.contains(alarm),
            "{alarm} in a log without trouble:\n{log}"
        );
    }
}
