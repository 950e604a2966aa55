//! rumqttc through the flows of the open profile, over TCP.
//!
//! For TLS and WebSocket it would bring further versions of a certificate verifier and of a random number generator into
//! the dependency tree; the other clients are there for those.

use rumqttc::v5::mqttbytes::v5::{ConnectProperties, PublishProperties};
use serde_json::{Value, json};

use crate::open::check;
use crate::site::{Site, VERSIONS};
use crate::support::{Connect, Credentials, Device, Protocol, Publish, Received};

/// One run of the flows.
struct Run<'a> {
    site: &'a Site,
    protocol: Protocol,
    name: String,
}

impl Run<'_> {
    fn options(&self, id: &str) -> Connect {
        let who = Credentials::anybody(&format!("{}-{id}", self.name));
        Connect::new(self.protocol, self.site.at("tcp"), &who)
    }

    async fn connect(&self, id: &str) -> Device {
        Device::connect_with(self.options(id)).await.unwrap()
    }

    /// With a session that stays for a while.
    async fn connect_stored(&self, id: &str) -> Device {
        let properties = ConnectProperties {
            session_expiry_interval: Some(600),
            ..ConnectProperties::new()
        };
        let options = Connect {
            clean: false,
            properties: (self.protocol == Protocol::V5).then_some(properties),
            ..self.options(id)
        };
        Device::connect_with(options).await.unwrap()
    }

    fn topic(&self, rest: &str) -> String {
        format!("{}/{rest}", self.name)
    }

    fn rest<'a>(&self, topic: &'a str) -> &'a str {
        topic.strip_prefix(&self.topic("")).unwrap()
    }

    /// Publishes and waits for the last answer.
    async fn publish(&self, device: &mut Device, rest: &str, payload: &str, qos: u8, retain: bool) {
        let publish = Publish {
            qos,
            retain,
            ..Publish::new(&self.topic(rest), payload.to_owned())
        };
        send(device, publish).await;
    }

    async fn take(&self, device: &mut Device, count: usize) -> Value {
        let mut taken = Vec::new();
        while taken.len() < count {
            let Received {
                topic,
                payload,
                qos,
                retain,
                ..
            } = device.next().await;
            let payload = String::from_utf8(payload.to_vec()).unwrap();
            taken.push(json!([self.rest(&topic), payload, qos, retain]));
        }
        json!(taken)
    }

    async fn flows(&self) -> Value {
        let mut seen = json!({});
        let mut publisher = self.connect("publisher").await;
        let mut watcher = self.connect("watcher").await;

        seen["granted"] = json!(watcher.subscribe_qos(&self.topic("qos/+"), 2).await);
        for qos in [0, 1, 2] {
            let rest = format!("qos/{qos}");
            self.publish(&mut publisher, &rest, "live", qos, false)
                .await;
        }
        seen["qos"] = self.take(&mut watcher, 3).await;

        let retained = self.topic("retained");
        self.publish(&mut publisher, "retained", "kept", 1, true)
            .await;
        watcher.subscribe(&retained).await;
        seen["retained"] = self.take(&mut watcher, 1).await;
        self.publish(&mut publisher, "retained", "", 1, true).await;
        watcher.subscribe(&retained).await;
        self.publish(&mut publisher, "retained", "after", 2, false)
            .await;
        seen["cleared"] = self.take(&mut watcher, 2).await;

        let mut sleeper = self.connect_stored("sleeper").await;
        let first = sleeper.session_present;
        sleeper.subscribe_qos(&self.topic("offline"), 2).await;
        sleeper.disconnect().await;
        for qos in [1, 2] {
            self.publish(&mut publisher, "offline", "waits", qos, false)
                .await;
        }
        let mut sleeper = self.connect_stored("sleeper").await;
        seen["present"] = json!([first, sleeper.session_present]);
        seen["offline"] = self.take(&mut sleeper, 2).await;
        sleeper.disconnect().await;

        watcher.subscribe(&self.topic("will")).await;
        let mut doomed = self.options("doomed");
        doomed.will = Some(Publish::new(&self.topic("will"), "gone"));
        drop(Device::connect_with(doomed).await.unwrap());
        seen["will"] = self.take(&mut watcher, 1).await;

        seen["shared"] = self.shared(&mut publisher).await;

        let mut first = self.connect("same").await;
        let mut second = self.connect("same").await;
        seen["takeover"] = json!(first.closed().await.reason);
        let any = self.topic("any");
        seen["taken"] = json!(second.publish_acked(&any, "works").await);
        if self.protocol == Protocol::V5 {
            self.request_and_response(&mut publisher, &mut watcher, &mut seen)
                .await;
            seen["alias"] = self.topic_alias(&mut publisher, &mut watcher).await;
        }
        seen
    }

    async fn shared(&self, publisher: &mut Device) -> Value {
        let mut members = [self.connect("member1").await, self.connect("member2").await];
        for member in &mut members {
            let filter = format!("$share/group/{}", self.topic("work"));
            member.subscribe(&filter).await;
        }
        for number in 0..10 {
            let number = number.to_string();
            self.publish(publisher, "work", &number, 1, false).await;
        }
        let [first, second] = &mut members;
        let mut work = Vec::new();
        while work.len() < 10 {
            let received = tokio::select! {
                received = first.next() => received,
                received = second.next() => received,
            };
            work.push(received.text().to_owned());
        }
        work.sort();
        json!(work)
    }

    async fn request_and_response(
        &self,
        requester: &mut Device,
        responder: &mut Device,
        seen: &mut Value,
    ) {
        responder.subscribe(&self.topic("request")).await;
        requester.subscribe(&self.topic("response")).await;
        let mut request = Publish::new(&self.topic("request"), "why?");
        request.properties = Some(PublishProperties {
            response_topic: Some(self.topic("response")),
            correlation_data: Some(self.name.clone().into()),
            user_properties: ["night", "late"]
                .map(|value| ("shift".to_owned(), value.to_owned()))
                .into(),
            content_type: Some("text/plain".to_owned()),
            payload_format_indicator: Some(1),
            ..PublishProperties::default()
        });
        send(requester, request).await;
        let request = responder.next().await;
        let asked = request.properties.clone().unwrap();
        let shifts = asked.user_properties.iter().map(|(_name, value)| value);
        seen["request"] = json!([
            request.text(),
            asked.content_type,
            asked.payload_format_indicator,
            shifts.collect::<Vec<_>>(),
        ]);
        let mut response = Publish::new(&asked.response_topic.unwrap(), "because");
        response.properties = Some(PublishProperties {
            correlation_data: asked.correlation_data,
            ..PublishProperties::default()
        });
        send(responder, response).await;
        let response = requester.next().await;
        let correlated = response.properties.as_ref().unwrap();
        let correlated = correlated.correlation_data.as_deref() == Some(self.name.as_bytes());
        seen["response"] = json!([response.text(), correlated]);
    }

    async fn topic_alias(&self, publisher: &mut Device, watcher: &mut Device) -> Value {
        let topic = self.topic("alias");
        watcher.subscribe(&topic).await;
        let sent = ["alias", ""];
        for topic in [topic.as_str(), ""] {
            let mut publish = Publish::new(topic, "x");
            publish.properties = Some(PublishProperties {
                topic_alias: Some(1),
                ..PublishProperties::default()
            });
            send(publisher, publish).await;
        }
        let [first, second] = [watcher.next().await, watcher.next().await];
        json!([sent, [self.rest(&first.topic), self.rest(&second.topic)]])
    }
}

/// Publishes and waits for the last answer; for QoS 0, until it is sent.
async fn send(device: &mut Device, publish: Publish) {
    if publish.qos == 0 {
        device.publish(publish);
        device.flush().await;
    } else {
        device.publish(publish);
        assert_eq!(device.acked().await.unwrap().reason, 0);
    }
}

#[tokio::test]
async fn rumqttc() {
    let site = Site::open().await;
    let mut seen = json!({});
    for (protocol, version) in [Protocol::V311, Protocol::V5].into_iter().zip(VERSIONS) {
        let name = format!("rumqttc-{version}");
        let run = Run {
            site: &site,
            protocol,
            name,
        };
        seen[format!("tcp {version}")] = Box::pin(run.flows()).await;
    }
    check(&seen, &["tcp"]);
}
