//! mosquitto_pub and mosquitto_sub, as the page of `jetway dev` tells a newcomer to use them.

use std::process::{Command, Output, Stdio};

use crate::support::{Backend, DemoDevice, DevOptions, Gateway, eventually, within};

const VERSIONS: [&str; 2] = ["mqttv311", "mqttv5"];
const INSTALL: &str = "deploy/test.sh installs mosquitto-clients";

/// The program with everything that it needs to log in.
fn client(program: &str, version: &str, gateway: &Gateway, device: &DemoDevice) -> Command {
    let mqtt = gateway.mqtt();
    let who = &device.credentials;
    let mut command = Command::new(program);
    command
        .args(["-V", version, "-h", &mqtt.ip().to_string()])
        .args(["-p", &mqtt.port().to_string()])
        .args(who.mosquitto());
    command
}

/// Runs to its end: the exit status, and what it said.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {INSTALL}"));
    let said = [stdout, stderr].concat();
    (status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn mosquitto_pub_waits_for_the_stored_message() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let device = gateway.ready.device.clone().unwrap();
    let backend = Backend::connect(&gateway.ready.nats).await;
    let DemoDevice { product, name, .. } = &device;
    let own = format!("$thing/up/property/{product}/{name}");
    let publish = |version, more: &[&str]| {
        let mut command = client("mosquitto_pub", version, &gateway, &device);
        run(command.args(["-m", version]).args(more))
    };
    const QOS: [&str; 2] = ["1", "2"];
    for (qos, version) in QOS
        .iter()
        .flat_map(|qos| VERSIONS.map(|version| (qos, version)))
    {
        assert_eq!(
            publish(version, &["-q", qos, "-t", &own]),
            (Some(0), String::new())
        );
    }
    let stored = backend.messages("DEVICE_UP", ">").await;
    let stored: Vec<_> = stored
        .iter()
        .map(|message| (message.header("Jw-Qos"), message.text()))
        .collect();
    let expected = QOS.map(|qos| VERSIONS.map(|version| (qos, version)));
    assert_eq!(stored, expected.concat(), "acknowledged is stored");

    // Another device's topic: 3.1.1 has no way to say no.
    for qos in QOS {
        let (status, said) = publish("mqttv5", &["-q", qos, "-t", &format!("{own}x")]);
        assert!(
            status == Some(0) && said.contains("Not authorized"),
            "{said}"
        );
    }
    // The last of several -P counts.
    for (version, code) in [("mqttv311", 4), ("mqttv5", 0x86)] {
        let (status, said) = publish(version, &["-t", &own, "-P", "00;hmacsha256"]);
        assert_eq!(status, Some(code), "{said}");
    }
    assert_eq!(backend.count("DEVICE_UP").await, 4);
}

#[tokio::test]
async fn mosquitto_sub_prints_downlinks() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let device = gateway.ready.device.clone().unwrap();
    let backend = Backend::connect(&gateway.ready.nats).await;
    let DemoDevice { product, name, .. } = &device;
    for version in VERSIONS {
        let command = client("mosquitto_sub", version, &gateway, &device);
        let mut sub = tokio::process::Command::from(command)
            .args([
                "-q",
                "1",
                "-C",
                "1",
                "-v",
                "-t",
                &format!("$thing/down/+/{product}/{name}"),
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("mosquitto_sub: {error}; {INSTALL}"));
        // It does not say when it has subscribed, and what comes before that is not for it.
        let status = eventually("mosquitto_sub has a downlink", async || {
            let subject = format!("device.down.thing.{product}.{name}");
            backend.publish(&subject, &[], version).await;
            sub.try_wait().unwrap().ok_or_else(|| "nothing".to_owned())
        })
        .await;
        assert!(status.success());
        let output = within("its output", sub.wait_with_output()).await.unwrap();
        let expected = format!("$thing/down/property/{product}/{name} {version}\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);

        let mut other = client("mosquitto_sub", version, &gateway, &device);
        let (_, said) = run(other.args(["-t", &format!("$thing/down/+/{product}/{name}x")]));
        assert!(said.contains("subscription requests were denied"), "{said}");
    }
}
