//! Eclipse paho: the Python scripts beside this file say what it saw, and the tests say what it should have seen.

use serde_json::{Value, json};

use crate::run_python;
use crate::support::{DemoDevice, DevOptions, Gateway};

/// Both versions, each with a device of its own.
async fn gateway() -> (Gateway, [(&'static str, DemoDevice); 2]) {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let mut devices = gateway.add_devices("paho", 2).into_iter();
    let mut next = || devices.next().unwrap();
    let versions = [("3.1.1", next()), ("5.0", next())];
    (gateway, versions)
}

fn arguments(gateway: &Gateway, version: &str, device: &DemoDevice) -> Value {
    let mqtt = gateway.mqtt();
    json!({
        "mqtt": [mqtt.ip(), mqtt.port()],
        "version": version,
        "who": {
            "product": device.product,
            "name": device.name,
            "client_id": device.credentials.client_id,
            "username": device.credentials.username,
            "password": device.credentials.password,
        },
    })
}

/// The parts of a message that are the same on its stored and on its live subject.
fn content(message: &Value) -> [Value; 2] {
    let mut headers = message["headers"].clone();
    headers.as_object_mut().unwrap().remove("Nats-Msg-Id");
    [message["payload"].clone(), headers]
}

#[tokio::test]
async fn a_device_and_a_service_talk() {
    let (gateway, versions) = gateway().await;
    for (version, device) in &versions {
        let is_v5 = *version == "5.0";
        let mut arguments = arguments(&gateway, version, device);
        arguments["nats_url"] = json!(gateway.ready.nats);
        let seen = run_python("talk.py", &arguments);

        let announced = match is_v5 {
            false => json!({}),
            // QoS 2 and retained messages are there, which needs no word; shares have no place in this profile.
            true => json!({
                "TopicAliasMaximum": 10,
                "SharedSubscriptionAvailable": 0,
                "ReceiveMaximum": 128,
                "MaximumPacketSize": seen["connack"][1]["MaximumPacketSize"],
            }),
        };
        assert_eq!(seen["connack"], json!([0, announced]));
        let not_authorized = if is_v5 { 0x87 } else { 0x80 };
        assert_eq!(seen["suback"], 2, "{version}: granted QoS");
        assert_eq!(seen["suback_other"], not_authorized, "{version}");
        assert_eq!(seen["puback"], 0, "{version}");
        assert_eq!(seen["pubcomp"], 0, "{version}");
        // 3.1.1 cannot say no: acknowledged, and not stored.
        assert_eq!(
            seen["puback_other"],
            if is_v5 { 0x87 } else { 0 },
            "{version}"
        );

        let DemoDevice { product, name, .. } = device;
        let [zero, one, two] = [0, 1, 2].map(|number| &seen["stored"][number]);
        assert_eq!(
            zero["subject"],
            format!("device.up.mqtt.thing.{product}.{name}")
        );
        assert_eq!(
            seen["live"][0]["subject"],
            format!("device.up.thing.{product}.{name}")
        );
        for (number, stored) in [zero, one, two].into_iter().enumerate() {
            let live = &seen["live"][number];
            assert_eq!(content(stored), content(live), "{version}");
            let id = &live["headers"]["Nats-Msg-Id"];
            assert!(id.is_null(), "{version}: no stream takes it, {id}");
            assert_eq!(stored["payload"], ["zero", "one", "two"][number]);
            assert_eq!(stored["headers"]["Jw-Qos"], number.to_string());
        }
        assert_eq!(one["headers"]["Jw-Type"], "property");
        if is_v5 {
            assert_eq!(one["headers"]["Content-Type"], "application/json");
            // nats-py keeps the last of several values.
            assert_eq!(one["headers"]["Jw-User-b"], "3");
            assert_eq!(one["headers"]["Jw-User-a"], "2");
        }
        assert_eq!(seen["unread"], 0, "{version}: all that was stored");

        assert_eq!(seen["puback_down"], json!(["DEVICE_DOWN", true]));
        let topic = format!("$thing/down/action/{product}/{name}");
        assert_eq!(seen["down"], json!([topic, "down", 2, false]));
        let properties = match is_v5 {
            false => json!({}),
            true => json!({"ContentType": "text/plain", "UserProperty": [["shift", "night"]]}),
        };
        assert_eq!(seen["down_properties"], properties);
        // Its connection was cut: there is its Will, and its session waits.
        assert_eq!(seen["will"], json!(["gone", "2"]));
        assert_eq!(seen["resumed"], json!([true, "meanwhile", 1]));
        assert_eq!(seen["disconnect"], 0);
    }
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let (gateway, versions) = gateway().await;
    for (version, device) in versions {
        let seen = run_python("refused.py", &arguments(&gateway, version, &device));
        // paho gives 3.1.1's return codes in the numbers of MQTT 5. It does not tell what PUBREC says, only what PUBCOMP does.
        let expected = json!({
            "wrong password": 0x86,
            "unknown device": 0x86,
            "no password": 0x86,
            "qos 2": 0,
            "qos 2 for another device": 0,
            "retain": 0,
            "will with qos 1": 0,
            "will with qos 2": 0,
            "will with retain": 0,
        });
        assert_eq!(seen, expected, "{version}");
    }
}

#[tokio::test]
async fn who_is_taken_over_is_told() {
    let (gateway, [v4, v5]) = gateway().await;
    for ((version, device), closed) in [(v4, 0x80), (v5, 0x8e)] {
        let seen = run_python("takeover.py", &arguments(&gateway, version, &device));
        let expected = json!({
            "first": 0,
            "second": 0,
            "first closed": closed,
            "second puback": 0,
            "second disconnect": 0,
        });
        assert_eq!(seen, expected, "{version}");
    }
}
