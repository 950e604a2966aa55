//! Second opinions: clients of other makers, as users have them, against the gateway.
//!
//! Clients on Eclipse paho and scramp for Python, on MQTT.js in Node.js and in Chromium, on rumqttc and on mosquitto's
//! command line tools, in both versions; services on nats-py and on async-nats, which are the examples of the README.
//! A tool that is missing fails its test: `deploy/test.sh` installs it.

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod backend;
#[cfg(test)]
mod backends;
#[cfg(test)]
mod browser;
#[cfg(test)]
mod mosquitto;
#[cfg(test)]
mod mosquitto_open;
#[cfg(test)]
mod mqtt_js;
#[cfg(test)]
mod open;
#[cfg(test)]
mod paho;
#[cfg(test)]
mod rumqttc;
#[cfg(test)]
mod scram;
#[cfg(test)]
mod site;

/// A file of this folder.
fn beside(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    folder.join(name)
}

/// Runs a Python script of this folder to its end and returns what it printed.
fn run_python(script: &str, arguments: &Value) -> Value {
    run(support::python(beside(script)), arguments)
}

/// Runs a script of this folder in Node.js to its end and returns what it printed.
fn run_node(script: &str, arguments: &Value) -> Value {
    run(support::node(beside(script)), arguments)
}

fn run(mut command: Command, arguments: &Value) -> Value {
    let printed = support::succeed(command.arg(arguments.to_string()));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}
