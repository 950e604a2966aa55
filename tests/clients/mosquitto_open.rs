//! mosquitto's command line tools in the open profile, over TCP and TLS, in both versions.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use rumqttc::v5::mqttbytes::v5::PublishProperties;

use crate::site::Site;
use crate::support::{Backend, Credentials, Device, Protocol, Publish, eventually, within};

/// How mosquitto_sub prints a message.
const FORMAT: &str = "%t %q %r %p";

/// One transport and version.
#[derive(Clone, Copy)]
struct Tools<'a> {
    site: &'a Site,
    transport: &'static str,
    version: &'static str,
}

impl<'a> Tools<'a> {
    fn all(site: &'a Site) -> impl Iterator<Item = Self> {
        let runs = [
            ("tcp", "mqttv311"),
            ("tcp", "mqttv5"),
            ("tls", "mqttv311"),
            ("tls", "mqttv5"),
        ];
        runs.into_iter().map(move |(transport, version)| Self {
            site,
            transport,
            version,
        })
    }

    fn topic(&self, rest: &str) -> String {
        format!("{}/{}/{rest}", self.transport, self.version)
    }

    fn command(&self, program: &str, id: &str, topic: &str, more: &[&str]) -> Command {
        let address = self.site.at(self.transport);
        let mut command = Command::new(program);
        command
            .args(["-h", "127.0.0.1", "-p", &address.port().to_string()])
            .args(["-V", self.version, "-i", &self.topic(id), "-t", topic])
            .args(more)
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if self.transport == "tls" {
            command.arg("--cafile").arg(&self.site.ca.certificate);
        }
        command
    }

    fn start(&self, program: &str, id: &str, topic: &str, more: &[&str]) -> Child {
        let mut command = self.command(program, id, topic, more);
        let child = command.stdin(Stdio::piped()).spawn();
        child.unwrap_or_else(|error| {
            panic!("{program}: {error}; deploy/test.sh installs mosquitto-clients")
        })
    }

    async fn publish(&self, rest: &str, more: &[&str]) {
        let publisher = self.start("mosquitto_pub", "publisher", &self.topic(rest), more);
        assert_eq!(lines(publisher).await, [""; 0]);
    }

    /// mosquitto_sub with a session that stays.
    async fn subscribe(&self, id: &str, rest: &str, more: &[&str]) -> Vec<String> {
        let mut arguments = vec!["-c", "-q", "2", "-F", FORMAT];
        if self.version == "mqttv5" {
            arguments.extend(["-x", "600"]);
        }
        arguments.extend(more);
        lines(self.start("mosquitto_sub", id, &self.topic(rest), &arguments)).await
    }

    /// Subscribes and goes.
    async fn remember(&self, id: &str, rest: &str) {
        assert_eq!(self.subscribe(id, rest, &["-E"]).await, [""; 0]);
    }

    /// What has come meanwhile.
    async fn collect(&self, id: &str, rest: &str, count: &str) -> Vec<String> {
        self.subscribe(id, rest, &["-C", count]).await
    }
}

/// What it prints until its good end.
async fn lines(child: Child) -> Vec<String> {
    let output = within("its end", child.wait_with_output()).await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {printed}", output.status);
    printed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn sessions_wait_for_what_was_published_meanwhile() {
    let site = Site::open().await;
    for tools in Tools::all(&site) {
        let topic = tools.topic("offline");
        tools.remember("sleeper", "offline").await;
        for qos in ["1", "2"] {
            tools.publish("offline", &["-q", qos, "-m", "waits"]).await;
        }
        assert_eq!(
            tools.collect("sleeper", "offline", "2").await,
            [format!("{topic} 1 0 waits"), format!("{topic} 2 0 waits")]
        );
    }
}

#[tokio::test]
async fn retained_messages_are_set_and_cleared() {
    let site = Site::open().await;
    for tools in Tools::all(&site) {
        for (rest, qos) in [("retained/a", "1"), ("retained/b", "2")] {
            tools.publish(rest, &["-q", qos, "-r", "-m", "kept"]).await;
        }
        let both = tools.collect("both", "retained/#", "2").await;
        let mut both: Vec<_> = both.iter().map(String::as_str).collect();
        both.sort_unstable();
        let [a, b] = ["retained/a", "retained/b"].map(|rest| tools.topic(rest));
        let b = format!("{b} 2 1 kept");
        assert_eq!(both, [format!("{a} 1 1 kept"), b.clone()]);
        tools.publish("retained/a", &["-q", "1", "-r", "-n"]).await;
        assert_eq!(tools.collect("one", "retained/#", "1").await, [b]);
    }
}

#[tokio::test]
async fn a_will_follows_a_killed_client_and_an_alias_names_a_topic() {
    let site = Site::open().await;
    let backend = Backend::connect(&site.gateway.ready.nats).await;
    for tools in Tools::all(&site) {
        let will = tools.topic("will");
        tools.remember("heir", "will").await;
        let mut more = vec!["-l", "-q", "1", "--will-qos", "1"];
        more.extend(["--will-topic", &will, "--will-payload", "gone"]);
        if tools.version == "mqttv5" {
            // From the second line on it sends no topic.
            more.extend(["-D", "publish", "topic-alias", "3"]);
        }
        let mut doomed = tools.start("mosquitto_pub", "doomed", &tools.topic("lines"), &more);
        let stdin = doomed.stdin.as_mut().unwrap();
        stdin.write_all(b"first\nsecond\n").await.unwrap();
        let subject = format!("mqtt.{}.{}.lines", tools.transport, tools.version);
        let stored = backend.wait_for("MQTT", &subject, 2).await;
        let stored = stored.iter().map(|line| line.text());
        assert_eq!(stored.collect::<Vec<_>>(), ["first", "second"]);
        doomed.kill().await.unwrap();
        assert_eq!(
            tools.collect("heir", "will", "1").await,
            [format!("{will} 1 0 gone")]
        );
    }
}

#[tokio::test]
async fn a_group_shares_the_work() {
    let site = Site::open().await;
    for tools in Tools::all(&site) {
        let filter = format!("$share/group/{}", tools.topic("work"));
        let member = |id| {
            let more = ["-q", "1", "-C", "3", "-F", "%p"];
            tools.start("mosquitto_sub", id, &filter, &more)
        };
        let mut members = [member("member1"), member("member2")];
        // They do not say when they have subscribed.
        let mut number = 0;
        eventually("both have done their share", async || {
            number += 1;
            let payload = number.to_string();
            tools.publish("work", &["-q", "1", "-m", &payload]).await;
            let ended = members.each_mut().map(|member| member.try_wait().unwrap());
            let all = ended.iter().all(Option::is_some);
            all.then_some(()).ok_or_else(|| format!("{ended:?}"))
        })
        .await;
        let [first, second] = members;
        let mut work = [lines(first).await, lines(second).await].concat();
        work.sort();
        work.dedup();
        assert_eq!(work.len(), 6, "each done once: {work:?}");
    }
}

/// mosquitto_rr asks, rumqttc answers.
#[tokio::test]
async fn a_request_has_its_response() {
    let site = Site::open().await;
    let who = Credentials::anybody("responder");
    let mut responder = Device::connect(Protocol::V5, site.at("tcp"), &who).await;
    for tools in Tools::all(&site).filter(|tools| tools.version == "mqttv5") {
        let (request, response) = (tools.topic("request"), tools.topic("response"));
        responder.subscribe(&request).await;
        let mut more = vec!["-e", &response, "-m", "why?", "-q", "1"];
        more.extend(["-D", "publish", "correlation-data", "number 7"]);
        more.extend(["-D", "publish", "user-property", "shift", "night"]);
        let requester = tools.start("mosquitto_rr", "requester", &request, &more);
        let asked = responder.next().await;
        assert_eq!(asked.text(), "why?");
        let properties = asked.properties.unwrap();
        assert_eq!(properties.response_topic.as_ref(), Some(&response));
        assert_eq!(
            properties.user_properties,
            [("shift".to_owned(), "night".to_owned())]
        );
        assert_eq!(
            properties.correlation_data.as_deref(),
            Some(&b"number 7"[..])
        );
        let mut answer = Publish::new(&response, "because");
        answer.properties = Some(PublishProperties {
            correlation_data: properties.correlation_data,
            ..PublishProperties::default()
        });
        responder.publish(answer);
        responder.acked().await.unwrap();
        assert_eq!(lines(requester).await, ["because"]);
    }
}
