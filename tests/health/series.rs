//! G38: what a device calls itself or sends is no label; every queue has its depth and age, every loss a counter.

use std::collections::{BTreeMap, BTreeSet};

use crate::setting::Setting;
use crate::site::{BOTH, Registered, SECRET};
use crate::support::{Connect, Credentials, Device, Publish};

/// A product and devices that would be something else in a line of `/metrics`, in a subject or in a log.
const PRODUCT: &str = "p\"} 1";
const HOSTILE: &str = "d{reason=\"x\",le='Inf'} .*>";
const DEVICES: usize = 200;

/// Each series by its name and labels.
async fn series(setting: &Setting) -> BTreeSet<String> {
    let (status, body) = setting.site.gateway.get("/metrics").await;
    assert_eq!(status, 200);
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect()
}

/// A job has its series from its first run on, which the time of day decides and no device.
fn without_jobs(mut series: BTreeSet<String>) -> BTreeSet<String> {
    series.retain(|name| !name.starts_with("jetway_jobs_"));
    series
}

/// All that a device does that is counted: it logs in, or fails to; publishes, also where it may not; gets a message; leaves.
async fn live(setting: &Setting, number: usize) {
    let who = Registered::new(PRODUCT, &format!("{HOSTILE}{number}"));
    let backend = setting.backend().await;
    for protocol in BOTH {
        let stranger = Credentials::new(PRODUCT, &format!("{HOSTILE}{number}?"), SECRET);
        let refused = Connect::new(protocol, setting.site.gateway.mqtt(), &stranger);
        assert!(Device::connect_with(refused).await.is_err());
        let mut device = setting.site.connect(protocol, &who).await;
        device.subscribe(&who.topic("$thing/down/+")).await;
        device.publish(Publish::new(&who.reports(), "{}"));
        device.acked().await.unwrap();
        device.publish(Publish::new(&format!("{HOSTILE}{number}"), "{}"));
        assert!(device.acked().await.is_ok());
        let subject = jetway::mapping::Mapping::device_tokens(
            &jetway::device::DeviceId::new(PRODUCT, &who.name).unwrap(),
        );
        let subject = format!("device.down.thing.{subject}");
        backend.publish(&subject, &[], "").await;
        device.next().await;
        device.disconnect().await;
    }
}

#[tokio::test]
async fn g38_the_number_of_series_does_not_depend_on_devices() {
    let setting = Setting::start(&[]).await;
    let count = (DEVICES + 1).to_string();
    let add = [PRODUCT, HOSTILE, "--secret", SECRET, "--count", &count];
    setting.site.add_device(&add);
    live(&setting, 0).await;
    let normal = "jetway_disconnects_total{reason=\"normal\"}";
    setting.site.counted(normal, 1.0).await;
    // What it reported is no report.
    let dead = "jetway_dlq_messages{origin=\"events\",reason=\"shape\"}";
    setting.site.counted(dead, 1.0).await;
    setting.row("a first look", |_| true).await;
    let one = without_jobs(series(&setting).await);
    for family in ["disconnects", "connects_rejected", "auth_denied"] {
        let start = format!("jetway_{family}_total{{reason=");
        assert!(
            one.iter().any(|series| series.starts_with(&start)),
            "{family}"
        );
    }
    for first in (1..=DEVICES).step_by(20) {
        let some = (first..first + 20).map(|number| live(&setting, number));
        futures_util::future::join_all(some).await;
    }
    let before = f64::from(u32::try_from(2 * DEVICES).unwrap());
    setting.site.counted(normal, before).await;
    assert_eq!(without_jobs(series(&setting).await), one);
    for series in &one {
        assert!(
            !series.contains(PRODUCT) && !series.contains("x\\\""),
            "{series}"
        );
    }
}

#[tokio::test]
async fn g38_labels_are_words_of_ours_and_names_of_the_configuration() {
    let setting = Setting::start(&[]).await;
    setting.row("a first look", |_| true).await;
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for series in series(&setting).await {
        let Some((_, text)) = series.trim_end_matches('}').split_once('{') else {
            continue;
        };
        for label in text.split("\",") {
            let (name, value) = label.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"').to_owned();
            labels.entry(name.to_owned()).or_default().insert(value);
        }
    }
    let known = [
        "durable", "job", "kind", "le", "limit", "name", "origin", "outcome", "reason", "receiver",
        "replicas", "storage", "stream",
    ];
    for name in labels.keys() {
        assert!(
            known.contains(&&**name),
            "label {name} is new: {:?}",
            labels[name]
        );
    }
    let words = ["outcome", "reason", "origin", "receiver", "kind", "limit"];
    for value in words.iter().filter_map(|name| labels.get(*name)).flatten() {
        let is_word = value
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_word && !value.is_empty(), "{value:?} is no fixed word");
    }
}

#[tokio::test]
async fn g38_every_queue_has_depth_and_age_and_every_loss_a_counter() {
    let setting = Setting::start(&[]).await;
    setting.row("a first look", |_| true).await;
    let series = series(&setting).await;
    let has = |name: &str| series.contains(name);
    for queue in ["uplink", "status", "application", "dead_letter"] {
        for figure in ["waiting", "stalled_seconds", "refused_total"] {
            let name = format!("jetway_{queue}_stream_{figure}");
            assert!(has(&name), "{name}");
        }
    }
    let config = jetway::config::Config::default();
    let mapping = jetway::gateway::mapping(&config).unwrap();
    for stream in &mapping.streams {
        for figure in ["messages", "oldest_seconds"] {
            let name = format!("jetway_stream_{figure}{{stream=\"{}\"}}", stream.name);
            assert!(has(&name), "{name}");
        }
    }
    for durable in &mapping.durables {
        let labels = format!(
            "{{stream=\"{}\",durable=\"{}\"}}",
            durable.stream, durable.name
        );
        for figure in [
            "lag",
            "oldest_seconds",
            "ack_pending",
            "failed_total",
            "redelivered_total",
        ] {
            let name = format!("jetway_durable_{figure}{labels}");
            assert!(has(&name), "{name}");
        }
    }
    for loss in [
        "uplink_shed",
        "uplink_denied",
        "nats_dropped",
        "dead_letters_lost",
        "connections_refused",
    ] {
        let name = format!("jetway_{loss}_total");
        assert!(has(&name), "{name}");
    }
}
