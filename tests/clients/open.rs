//! The open profile: what clients of several makers see in the same flows, over every transport and in both versions.
//!
//! Each client is a program of its own that goes through the flows (flows.mjs and open.py list them in the same order)
//! and prints what it saw. What it should have seen is here, once for all of them.

use serde_json::{Map, Value, json};

use crate::site::{Site, VERSIONS};
use crate::{run_node, run_python};

/// What a client sees in the flows.
pub(crate) fn expected(version: &str) -> Value {
    let mut expected = json!({
        "granted": 2,
        "qos": [["qos/0", "live", 0, false], ["qos/1", "live", 1, false], ["qos/2", "live", 2, false]],
        "retained": [["retained", "kept", 1, true]],
        "cleared": [["retained", "", 1, false], ["retained", "after", 1, false]],
        "present": [false, true],
        "offline": [["offline", "waits", 1, false], ["offline", "waits", 2, false]],
        "will": [["will", "gone", 1, false]],
        "shared": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        "takeover": null,
        "taken": 0,
    });
    if version == "5.0" {
        expected["takeover"] = json!(0x8e);
        expected["request"] = json!(["why?", "text/plain", 1, ["night", "late"]]);
        expected["response"] = json!(["because", true]);
        expected["alias"] = json!([["alias", ""], ["alias", "alias"]]);
    }
    expected
}

/// Checks what a client saw at these listeners: `"<transport> <version>"` to what its flows gave.
pub(crate) fn check(seen: &Value, transports: &[&str]) {
    let runs = transports
        .iter()
        .flat_map(|transport| VERSIONS.map(|version| (transport, version)));
    let expected: Map<_, _> = runs
        .map(|(transport, version)| (format!("{transport} {version}"), expected(version)))
        .collect();
    for (run, expected) in &expected {
        assert_eq!(&seen[run], expected, "{run}");
    }
    assert_eq!(seen.as_object().unwrap().len(), expected.len());
}

const TRANSPORTS: [&str; 4] = ["tcp", "tls", "ws", "wss"];

#[tokio::test]
async fn paho() {
    let site = Site::open().await;
    check(&run_python("open.py", &site.arguments()), &TRANSPORTS);
}

#[tokio::test]
async fn mqtt_js() {
    let site = Site::open().await;
    check(&run_node("open.mjs", &site.arguments()), &TRANSPORTS);
}
