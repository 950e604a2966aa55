//! A gateway that looks often and tells soon, with a durable of the tests' own.

use std::fs;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use serde_json::Value;
use tempfile::TempDir;

use crate::site::Site;
use crate::support::{Backend, eventually};

pub(crate) const STREAM: &str = "APPLICATION";
pub(crate) const DURABLE: &str = "watched";
/// What it selects.
pub(crate) const SUBJECT: &str = "application.watched";

const RULES: &str = r#"
[[durable]]
name = "watched"
stream = "APPLICATION"
filters = ["application.watched"]
ack_wait = "30s"
max_deliver = 2
sample_percent = 100
"#;

/// The site, and the file that its gateway reads.
pub(crate) struct Setting {
    pub(crate) site: Site,
    _rules: TempDir,
}

impl Setting {
    /// A gateway that looks every 100 ms and tells at once, with these variables more.
    pub(crate) async fn start(environment: &[(&str, &str)]) -> Self {
        let rules = tempfile::tempdir().unwrap();
        let file = rules.path().join("rules.toml");
        fs::write(&file, RULES).unwrap();
        let file = file.display().to_string();
        let usual = [
            ("JETWAY_RULES_FILE", &*file),
            ("JETWAY_ALARM_INTERVAL_MS", "100"),
            ("JETWAY_ALARM_GROUP_WAIT_MS", "500"),
            ("JETWAY_ALARM_NOTIFICATIONS_PER_MINUTE_MAX", "600"),
            ("JETWAY_ALARM_ENVIRONMENT", "test bench"),
            ("JETWAY_ALARM_REGION", "here"),
            ("JETWAY_OWNERSHIP_LEASE_S", "2"),
        ];
        Self {
            site: Site::start(&[&usual, environment].concat()).await,
            _rules: rules,
        }
    }

    pub(crate) async fn backend(&self) -> Backend {
        self.site.backend().await
    }

    /// Waits until a metric has a value.
    pub(crate) async fn shows(&self, metric: &str, value: f64) {
        eventually(&format!("{metric} is {value}"), async || {
            match self.site.gateway.metric(metric).await {
                now if now == value => Ok(()),
                now => Err(format!("{now}")),
            }
        })
        .await;
    }

    /// `/health/mq` once it says so: status, and the row of the tests' durable.
    pub(crate) async fn row(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> (u16, Value) {
        eventually(what, async || {
            let (status, body) = self.site.gateway.get("/health/mq").await;
            let report: Value = serde_json::from_str(&body).unwrap();
            let rows = report["durables"].as_array().unwrap();
            let row = rows.iter().find(|row| row["durable"] == DURABLE);
            match row {
                Some(row) if is_it(row) => Ok((status, row.clone())),
                _ => Err(body),
            }
        })
        .await
    }
}

/// Its name with the labels of the tests' durable.
pub(crate) fn metric(name: &str) -> String {
    format!("jetway_durable_{name}{{stream=\"{STREAM}\",durable=\"{DURABLE}\"}}")
}

/// The durable as its service uses it; created if it is not there.
pub(crate) async fn consumer(backend: &Backend) -> Consumer<pull::Config> {
    let config = pull::Config {
        durable_name: Some(DURABLE.to_owned()),
        filter_subject: SUBJECT.to_owned(),
        ack_policy: AckPolicy::Explicit,
        max_deliver: 2,
        sample_frequency: 100,
        ..pull::Config::default()
    };
    let stream = backend.stream(STREAM).await;
    stream
        .get_or_create_consumer(DURABLE, config)
        .await
        .unwrap()
}
