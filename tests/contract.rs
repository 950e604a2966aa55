//! The wire contract as golden files: what devices, services and operators see changes only in a reviewed diff.
//!
//! `UPDATE_GOLDEN=1 cargo test --test contract` writes `tests/golden/` anew.

use std::fmt::Write;
use std::path::Path;

use bytes::Bytes;
use jetway::device::{DeviceId, Direction};
use jetway::mapping::{Form, Holder, Mapping, Profile, Receipt, Settings, Stream, Tree};
use jetway::message::{Headers, Message};
use jetway::mqtt::{PacketId, Publish, PublishProperties, QoS};

/// Compares a text with a golden file.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).expect("the golden file is written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = expected
        .lines()
        .zip(actual.lines())
        .find(|(expected, actual)| expected != actual);
    assert!(
        expected == actual,
        "{name} differs, first in {differing:#?}; if that is meant: UPDATE_GOLDEN=1 cargo test --test contract"
    );
}

fn load(settings: &Settings) -> Mapping {
    Mapping::load(settings, None).expect("the project's files are right")
}

/// The topics of SUBJECTS §2, one more type, and a further level.
const TOPICS: [&str; 38] = [
    "$thing/up/property/P.1/D",
    "$thing/up/event/P.1/D",
    "$thing/up/action/P.1/D",
    "$thing/up/service/P.1/D",
    "$thing/up/unheard/P.1/D",
    "$thing/up/property/custom/P.1/D",
    "$thing/down/property/P.1/D",
    "$thing/down/event/P.1/D",
    "$thing/down/action/P.1/D",
    "$thing/down/service/P.1/D",
    "$ota/up/progress/P.1/D",
    "$ota/up/report/P.1/D",
    "$ota/down/upgrade/P.1/D",
    "$ota/down/progress/P.1/D",
    "$ota/down/report/P.1/D",
    "$shadow/up/get/P.1/D",
    "$shadow/down/get/P.1/D",
    "$gateway/up/topo/P.1/D",
    "$gateway/up/status/P.1/D",
    "$gateway/up/thing/P.1/D",
    "$gateway/down/topo/P.1/D",
    "$gateway/down/status/P.1/D",
    "$gateway/down/thing/P.1/D",
    "$config/up/get/P.1/D",
    "$config/down/get/P.1/D",
    "$config/down/push/P.1/D",
    "$log/up/operation/P.1/D",
    "$log/up/report/P.1/D",
    "$log/up/update/P.1/D",
    "$log/down/operation/P.1/D",
    "$log/down/report/P.1/D",
    "$log/down/update/P.1/D",
    "$ext/up/ntp/P.1/D",
    "$ext/up/register/P.1/D",
    "$ext/down/ntp/P.1/D",
    "$ext/down/register/P.1/D",
    "$rpc/up/17/P.1/D",
    "$rpc/down/17/P.1/D",
];

/// The topics of one direction.
fn topics(mapping: &Mapping, direction: Direction) -> impl Iterator<Item = &'static str> {
    let direction_of = |topic: &str| mapping.address(topic).expect("a topic of ours").direction;
    TOPICS
        .into_iter()
        .filter(move |topic| direction_of(topic) == direction)
}

fn up(mapping: &Mapping, topic: &str, properties: PublishProperties, out: &mut String) {
    let publish = Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: topic.into(),
        packet_id: None,
        properties,
        payload: Bytes::from_static(b"{\"method\":\"report\"}"),
    };
    let address = mapping.address(topic).expect("a topic of ours");
    let id = DeviceId::new(address.product, address.name).expect("names of a device");
    let receipt = Receipt {
        id: "0198c0de-1",
        received_ms: 1_754_000_000_123,
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    let uplink = mapping
        .uplink(&id, &address, &publish, &receipt)
        .expect("a message");
    let stored = &uplink.message.subject;
    let stream = mapping.uplink_streams().join(", ");
    writeln!(out, "{topic}\n  stored  {stored} in {stream}").expect("a text grows");
    writeln!(out, "  live    {}", uplink.live.as_deref().unwrap_or("-")).expect("a text grows");
    for (name, value) in uplink.message.headers.iter() {
        writeln!(out, "  header  {name}: {value}").expect("a text grows");
    }
    writeln!(out, "  payload {}\n", uplink.message.payload.escape_ascii()).expect("a text grows");
}

fn mqtt5() -> PublishProperties {
    PublishProperties {
        payload_format_indicator: Some(1),
        message_expiry_interval: Some(60),
        response_topic: Some("$thing/up/action/P.1/D".into()),
        correlation_data: Some(Bytes::from_static(&[0, 1, 255])),
        content_type: Some("application/json".into()),
        user: [("colour", "red"), ("a:b", "50%\r\n"), ("colour", "blue")]
            .into_iter()
            .collect(),
        ..PublishProperties::default()
    }
}

#[test]
fn uplinks() {
    let mapping = load(&Settings::default());
    let mut out = "# tree = \"protocol\", form = \"native\"\n\n".to_owned();
    for topic in topics(&mapping, Direction::Up) {
        up(&mapping, topic, PublishProperties::default(), &mut out);
    }
    out.push_str("# with the properties of MQTT 5\n\n");
    up(&mapping, "$thing/up/property/P.1/D", mqtt5(), &mut out);
    out.push_str("# tree = \"handle\"\n\n");
    let settings = Settings {
        tree: Tree::Handle,
        ..Settings::default()
    };
    up(
        &load(&settings),
        "$thing/up/property/P.1/D",
        PublishProperties::default(),
        &mut out,
    );
    up(
        &load(&settings),
        "$rpc/up/17/P.1/D",
        PublishProperties::default(),
        &mut out,
    );
    out.push_str("# form = \"protobuf\"\n\n");
    let forms = [("thing".to_owned(), Form::Protobuf)].into();
    up(
        &load(&Settings {
            forms,
            ..Settings::default()
        }),
        "$thing/up/property/P.1/D",
        mqtt5(),
        &mut out,
    );
    golden("uplinks.txt", &out);
}

fn down(
    mapping: &Mapping,
    subject: &str,
    headers: &[(&str, &str)],
    payload: &[u8],
    out: &mut String,
) {
    let mut all = Headers::default();
    let stored = [
        ("Nats-Subject", subject),
        ("Nats-Sequence", "42"),
        ("Nats-Last-Sequence", "41"),
        ("Nats-Time-Stamp", "2026-01-01T00:00:00Z"),
    ];
    for (name, value) in headers.iter().chain(&stored) {
        all.push(*name, *value);
    }
    let message = Message {
        subject: subject.into(),
        headers: all,
        payload: Bytes::copy_from_slice(payload),
    };
    writeln!(out, "{subject}").expect("a text grows");
    for (name, value) in headers {
        writeln!(out, "  header  {name}: {value}").expect("a text grows");
    }
    writeln!(out, "  payload {}", payload.escape_ascii()).expect("a text grows");
    match mapping.downlink(&message) {
        Ok(downlink) => {
            writeln!(out, "  topic   {}", downlink.topic).expect("a text grows");
            let (qos, retain, expires) = (downlink.qos, downlink.retain, downlink.expires);
            writeln!(out, "  {qos:?}, retain {retain}, {expires:?}").expect("a text grows");
            properties(&downlink.properties, out);
            out.push('\n');
        }
        Err(error) => writeln!(out, "  error   {error}\n").expect("a text grows"),
    }
}

/// The properties that are there.
fn properties(properties: &PublishProperties, out: &mut String) {
    let mut line = |name: &str, value: String| {
        writeln!(out, "  property {name}: {value}").expect("a text grows");
    };
    if let Some(format) = properties.payload_format_indicator {
        line("payload format indicator", format.to_string());
    }
    if let Some(topic) = &properties.response_topic {
        line("response topic", topic.to_string());
    }
    if let Some(data) = &properties.correlation_data {
        line("correlation data", data.escape_ascii().to_string());
    }
    if let Some(content_type) = &properties.content_type {
        line("content type", content_type.to_string());
    }
    for (name, value) in properties.user.iter() {
        line("user property", format!("{name:?} = {value:?}"));
    }
}

#[test]
fn downlinks() {
    let mapping = load(&Settings::default());
    let mut out = String::new();
    for topic in topics(&mapping, Direction::Down) {
        let address = mapping.address(topic).expect("a topic of ours");
        let subject = format!("device.down.mqtt.{}.P%2E1.D", address.handle);
        let said = match address.handle {
            "rpc" => ("Jw-Topic", topic),
            _ => ("Jw-Type", address.kind),
        };
        down(&mapping, &subject, &[said], b"x", &mut out);
    }
    for (handle, methods) in [
        (
            "thing",
            "control getReport reportReply packReportReply reportInfoReply getStatusReply eventReply action actionReply appBindToken bindChange other",
        ),
        ("ota", "upgrade progress report other"),
        ("shadow", "other"),
        (
            "gateway",
            "register bind unbind found getTopo change notifyBind getFound online offline getSchema createSchema deleteSchema other",
        ),
        ("config", "reply push other"),
        ("log", "getStatusReply reportInfoReply other"),
        ("ext", "getNtpReply other"),
        ("rpc", "other"),
    ] {
        for method in methods.split(' ') {
            let payload = format!("{{\"method\":\"{method}\"}}");
            down(
                &mapping,
                &format!("device.down.mqtt.{handle}.P.D"),
                &[],
                payload.as_bytes(),
                &mut out,
            );
        }
    }
    let all = [
        ("Jw-Qos", "0"),
        ("Jw-Retain", "1"),
        ("Nats-TTL", "60"),
        ("Content-Type", "application/json"),
        ("Jw-Payload-Format", "1"),
        ("Jw-Response-Topic", "$thing/up/action/P/D"),
        ("Jw-Correlation", "AAH/"),
        ("Jw-User-colour", "red"),
        ("Jw-User-a%3Ab", "50%25%0D%0A"),
        ("Jw-User-colour", "blue"),
    ];
    down(&mapping, "device.down.mqtt.thing.P.D", &all, b"x", &mut out);
    let form = [("Content-Type", jetway::mapping::CONTENT_TYPE)];
    down(
        &mapping,
        "device.down.mqtt.thing.P.D",
        &form,
        b"\x1a\x05event\x5a\x01x",
        &mut out,
    );
    down(&mapping, "device.down.mqtt.status.fix", &[], b"", &mut out);
    golden("downlinks.txt", &out);
}

/// What the README shows an operator is accepted.
#[test]
fn the_example_of_an_own_file() {
    let readme = include_str!("../subjects/README.md");
    let mut examples = (readme.split("```toml\n").skip(1))
        .filter_map(|rest| rest.split_once("```").map(|(example, _)| example));
    let example = examples.find(|example| example.contains("[[rule]]"));
    let example = example.expect("an example of a rule");
    let mapping =
        Mapping::load(&Settings::default(), Some(("README.md", example))).expect("a right example");
    assert_eq!(
        mapping
            .address("meters/P/D/power")
            .map(|address| address.kind),
        Some("power")
    );
}

#[test]
fn streams() {
    let mut out = String::new();
    for (tree, only) in [(Tree::Protocol, None), (Tree::Handle, Some("DEVICE_UP"))] {
        let mapping = load(&Settings {
            tree,
            ..Settings::default()
        });
        let shown = |stream: &&Stream| only.is_none_or(|name| stream.name == name);
        for stream in mapping.streams.iter().filter(shown) {
            let config = serde_json::to_string_pretty(&stream.config).expect("JSON is written");
            writeln!(
                out,
                "# tree = {tree:?}, $JS.API.STREAM.CREATE.{}\n{config}\n",
                stream.name
            )
            .expect("a text grows");
        }
    }
    for durable in &load(&Settings::default()).durables {
        let config = serde_json::to_string_pretty(&durable.config).expect("JSON is written");
        let (stream, name) = (&durable.stream, &durable.name);
        writeln!(out, "# $JS.API.CONSUMER.CREATE.{stream}.{name}\n{config}\n")
            .expect("a text grows");
    }
    golden("streams.txt", &out);
}

/// The open profile: topics and filters with all that is special in them, both ways, and the stream.
#[test]
fn open() {
    let mapping = load(&Settings {
        profile: Profile::Open,
        ..Settings::default()
    });
    let mut out =
        "# what a client publishes, retained, with the properties of MQTT 5\n\n".to_owned();
    for topic in ["site/pump 1/rpm.raw", "/a//%", "größe"] {
        published(&mapping, topic, &mut out);
    }
    out.push_str("# what a filter selects\n\n");
    for filter in ["site/+/rpm.raw", "site/#", "#", "+/#", "/+/"] {
        let selects = |subjects: Option<Vec<_>>| subjects.expect("short enough").join(" ");
        writeln!(
            out,
            "{filter}\n  selects  {}",
            selects(mapping.subscription(filter))
        )
        .expect("a text grows");
        writeln!(
            out,
            "  retained {}\n",
            selects(mapping.retained_filters(filter))
        )
        .expect("a text grows");
    }
    out.push_str("# what a service sends\n\n");
    down(
        &mapping,
        "mqtt.site.lamp.%.set",
        &[("Jw-Qos", "2"), ("Jw-Receipt", "_INBOX.1")],
        b"on",
        &mut out,
    );
    down(&mapping, "mqtt.site/lamp", &[], b"on", &mut out);
    out.push_str("# streams\n\n");
    let delivery = &mapping.delivery;
    writeln!(
        out,
        "delivered: {} of {}\n",
        delivery.filters.join(" "),
        delivery.stream
    )
    .expect("a text grows");
    for stream in &mapping.streams {
        writeln!(out, "{}", stream.name).expect("a text grows");
        if stream.name == "MQTT" {
            let config = serde_json::to_string_pretty(&stream.config).expect("JSON is written");
            writeln!(out, "{config}").expect("a text grows");
        }
    }
    golden("open.txt", &out);
}

fn published(mapping: &Mapping, topic: &str, out: &mut String) {
    let publish = Publish {
        dup: false,
        qos: QoS::ExactlyOnce,
        retain: true,
        topic: topic.into(),
        packet_id: None,
        properties: mqtt5(),
        payload: Bytes::from_static(b"21.5"),
    };
    let address = mapping.address(topic).expect("every topic has a rule");
    let client = DeviceId::open("plant/7").expect("a client identifier");
    let receipt = Receipt {
        id: "0198c0de-1",
        received_ms: 1_754_000_000_123,
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    let uplink = mapping
        .uplink(&client, &address, &publish, &receipt)
        .expect("a message");
    let stream = mapping.uplink_streams().join(", ");
    writeln!(
        out,
        "{topic}\n  stored   {} in {stream}",
        uplink.message.subject
    )
    .expect("a text grows");
    for (name, value) in uplink.message.headers.iter() {
        writeln!(out, "  header   {name}: {value}").expect("a text grows");
    }
    let holder = Holder {
        tokens: &Mapping::device_tokens(&client),
        session: "0198c0de",
    };
    let packet_id = PacketId::new(7).expect("more than 0");
    let held = holder
        .hold(uplink.message.clone(), packet_id)
        .expect("it is short");
    writeln!(out, "  held     {}", held.subject).expect("a text grows");
    for (name, value) in held.headers.iter() {
        if uplink.message.headers.get(name) != Some(value) && !name.starts_with("Jw-User-") {
            writeln!(out, "  header   {name}: {value}").expect("a text grows");
        }
    }
    let kept = uplink.retained.expect("it is retained");
    writeln!(out, "  retained {}", kept.subject).expect("a text grows");
    // The same headers, but for these.
    let stored = &uplink.message.headers;
    for (name, _) in stored
        .iter()
        .filter(|(name, _)| kept.headers.get(name).is_none())
    {
        writeln!(out, "  without  {name}").expect("a text grows");
    }
    for (name, value) in kept
        .headers
        .iter()
        .filter(|(name, _)| stored.get(name).is_none())
    {
        writeln!(out, "  header   {name}: {value}").expect("a text grows");
    }
    out.push('\n');
}
