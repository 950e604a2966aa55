//! A device on MQTT.js in Node.js and a service on NATS talk, over every transport, and the device is away for a while.

use serde_json::{Value, json};

use crate::run_node;
use crate::site::{Site, VERSIONS};
use crate::support::{Backend, DemoDevice};

struct Talk<'a> {
    site: &'a Site,
    backend: &'a Backend,
    device: &'a DemoDevice,
    version: &'static str,
    url: String,
}

impl Talk<'_> {
    /// Runs the device until it has taken so many messages.
    async fn device(&self, count: usize) -> Value {
        let DemoDevice {
            product,
            name,
            credentials,
            ..
        } = self.device;
        let arguments = json!({
            "url": self.url,
            "ca": self.site.ca.certificate,
            "version": self.version,
            "count": count,
            "who": {
                "product": product,
                "name": name,
                "client_id": credentials.client_id,
                "username": credentials.username,
                "password": credentials.password,
            },
        });
        let run = tokio::task::spawn_blocking(move || run_node("talk.mjs", &arguments));
        run.await.unwrap()
    }

    /// What is stored of the device once it is so many messages: payload, QoS and a user property.
    async fn reports(&self, count: usize) -> Vec<[String; 3]> {
        let DemoDevice { product, name, .. } = self.device;
        let subject = format!("device.up.mqtt.thing.{product}.{name}");
        let stored = self.backend.wait_for("DEVICE_UP", &subject, count).await;
        let shown = stored.iter().map(|report| {
            [
                report.text(),
                report.header("Jw-Qos"),
                report.header("Jw-User-shift"),
            ]
            .map(str::to_owned)
        });
        shown.collect()
    }

    async fn command(&self, qos: &str) {
        let DemoDevice { product, name, .. } = self.device;
        let subject = format!("device.down.thing.{product}.{name}");
        let headers = [("Jw-Qos", qos), ("Jw-User-shift", "late")];
        self.backend.publish(&subject, &headers, "do it").await;
    }

    /// The commands as the device sees them.
    fn commands(&self, qos: &[u8]) -> Value {
        let DemoDevice { product, name, .. } = self.device;
        let topic = format!("$thing/down/property/{product}/{name}");
        let shift = (self.version == "5.0").then_some("late");
        let seen = qos.iter().map(|qos| json!([topic, "do it", qos, shift]));
        seen.collect()
    }

    async fn run(&self) {
        let is_v5 = self.version == "5.0";
        let service = async {
            self.reports(3).await;
            for qos in ["0", "1", "2"] {
                self.command(qos).await;
            }
        };
        let (seen, ()) = tokio::join!(self.device(3), service);
        let expected = json!({
            "present": false,
            "suback": 2,
            // 3.1.1 cannot say no: acknowledged, and not stored.
            "other": if is_v5 { [0x87, 0x87] } else { [0, 0] },
            "down": self.commands(&[0, 1, 2]),
        });
        assert_eq!(seen, expected, "{} {}", self.url, self.version);

        // Its connection was cut: there is its Will, and its session waits.
        let shift = if is_v5 { "night" } else { "" };
        let mut reports = vec![["0", "0", shift], ["1", "1", shift], ["2", "2", shift]];
        reports.push(["gone", "1", ""]);
        assert_eq!(self.reports(4).await, reports);
        for qos in ["1", "2"] {
            self.command(qos).await;
        }
        let seen = self.device(2).await;
        let expected = json!({"present": true, "down": self.commands(&[1, 2])});
        assert_eq!(seen, expected, "{} {}", self.url, self.version);
    }
}

#[tokio::test]
async fn a_device_on_mqtt_js_and_a_service_talk() {
    let site = Site::devices().await;
    let backend = Backend::connect(&site.gateway.ready.nats).await;
    let transports = [
        ("mqtt", "tcp"),
        ("mqtts", "tls"),
        ("ws", "ws"),
        ("wss", "wss"),
    ];
    let devices = site.gateway.add_devices("js", transports.len());
    // Each version at two of them.
    let versions = VERSIONS.into_iter().cycle();
    for (((scheme, transport), device), version) in transports.iter().zip(&devices).zip(versions) {
        let talk = Talk {
            site: &site,
            backend: &backend,
            device,
            version,
            url: format!("{scheme}://{}/mqtt", site.at(transport)),
        };
        talk.run().await;
    }
}
