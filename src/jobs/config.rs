//! When jobs run, for how long, and where XXL-JOB is.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;

use super::reports::SpeedRules;
use crate::net;
use crate::position::{FenceConfig, Fences, TripConfig};

/// Jobs: how often they run, their limits, and XXL-JOB.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Seconds between two runs of `gpsReportScheduleJob`; 0: only when it is asked for.
    pub schedule_interval_s: u64,
    /// Seconds between two runs of `gpsReportOutboxPublishJob`; 0: only when it is asked for. The relay needs none.
    pub publish_interval_s: u64,
    /// Seconds between two runs of `gpsReportNotificationJob`; 0: only when it is asked for.
    pub notification_interval_s: u64,
    /// How long a run may take, in seconds.
    pub run_limit_s: u64,
    /// How long the job of a node that is gone waits for another one, in milliseconds.
    pub lease_ms: u64,
    /// How long runs are kept, with what they said, in seconds.
    pub retention_s: u64,
    /// How long a window of reports is, in seconds; windows begin at multiples of it since 1970.
    pub window_s: u64,
    /// How long after its end a window is closed, in seconds.
    pub grace_s: u64,
    /// How fast devices may be.
    pub speed: SpeedRules,
    /// Fences that `gpsReportNotificationJob` watches; those of `[[gps.fence]]` are watched by the GPS workers.
    pub fence: Vec<FenceConfig>,
    /// When a device stands still; without it that is not told here.
    pub stop: Option<TripConfig>,
    /// Where XXL-JOB reaches this executor; without it there is none.
    #[serde(deserialize_with = "net::some_address")]
    pub xxl_listen: Option<SocketAddr>,
    /// The URL of that which XXL-JOB is told, such as `http://10.0.0.7:9999/`; without it that of `xxl_listen`.
    pub xxl_address: Option<String>,
    /// URLs of XXL-JOB's admin, such as `http://admin:8080/xxl-job-admin`; the first one that answers is told.
    pub xxl_admin: Vec<String>,
    /// The executor's name there.
    pub xxl_app: String,
    /// The access token, the same as the admin's; empty if that has none.
    pub xxl_token: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            schedule_interval_s: 60,
            publish_interval_s: 0,
            notification_interval_s: 60,
            run_limit_s: 600,
            lease_ms: 15_000,
            retention_s: 604_800,
            window_s: 3_600,
            grace_s: 300,
            speed: Vec::new(),
            fence: Vec::new(),
            stop: None,
            xxl_listen: None,
            xxl_address: None,
            xxl_admin: Vec::new(),
            xxl_app: "jetway".to_owned(),
            xxl_token: String::new(),
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !(1..=86_400).contains(&self.run_limit_s) {
            faults.push(format!(
                "run_limit_s: expected 1 to 86400, found {}",
                self.run_limit_s
            ));
        }
        if !(1_000..=600_000).contains(&self.lease_ms) {
            faults.push(format!(
                "lease_ms: expected 1000 to 600000, found {}",
                self.lease_ms
            ));
        }
        if self.retention_s < self.run_limit_s {
            faults.push("retention_s: expected run_limit_s at least".to_owned());
        }
        if !(1..=31 * 86_400).contains(&self.window_s) {
            faults.push(format!(
                "window_s: expected 1 to 2678400, found {}",
                self.window_s
            ));
        }
        if self.grace_s > 31 * 86_400 {
            faults.push(format!(
                "grace_s: expected at most 2678400, found {}",
                self.grace_s
            ));
        }
        faults.extend(self.speed.iter().flat_map(|rule| rule.faults()));
        faults.extend(Fences::new(&self.fence).err().into_iter().flatten());
        faults.extend(self.stop.iter().flat_map(TripConfig::faults));
        let is_public = |address: SocketAddr| !address.ip().is_loopback();
        if self.xxl_listen.is_some_and(is_public) && self.xxl_token.is_empty() {
            faults
                .push("xxl_token: expected one, as xxl_listen is reached from outside".to_owned());
        }
        if self.xxl_listen.is_some() && self.xxl_app.is_empty() {
            faults.push("xxl_app: expected the executor's name".to_owned());
        }
        for url in self.xxl_admin.iter().chain(&self.xxl_address) {
            if let Err(fault) = net::post::parse(url) {
                faults.push(format!("xxl_admin, xxl_address: {fault}"));
            }
        }
        if !self.xxl_admin.is_empty() && self.xxl_listen.is_none() {
            faults.push("xxl_listen: expected an address beside xxl_admin".to_owned());
        }
        faults
    }

    /// How long the lock of a run that is not renewed lasts.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// How long a run may take.
    #[must_use]
    pub fn run_limit(&self) -> Duration {
        Duration::from_secs(self.run_limit_s)
    }

    /// How long runs are kept.
    #[must_use]
    pub fn retention(&self) -> Duration {
        Duration::from_secs(self.retention_s)
    }

    /// The admin's URLs, checked with the configuration.
    pub(super) fn admins(&self) -> Vec<Uri> {
        let urls = self.xxl_admin.iter();
        urls.filter_map(|url| net::post::parse(url).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_keys() {
        assert_eq!(Config::default().validate(), Vec::<String>::new());
        let wrong = r#"
            run_limit_s = 0
            lease_ms = 1
            retention_s = 0
            window_s = 0
            grace_s = 9999999
            xxl_listen = "0.0.0.0:9999"
            xxl_admin = ["ftp://a/"]
            xxl_app = ""
            [[speed]]
            name = ""
            limit_mps = -1.0
        "#;
        let faults = toml::from_str::<Config>(wrong).unwrap().validate();
        for key in [
            "run_limit_s",
            "lease_ms",
            "window_s",
            "grace_s",
            "speed: name",
            "limit_mps",
            "over_mps",
            "xxl_token",
            "xxl_app",
            "xxl_admin",
        ] {
            assert!(
                faults.iter().any(|fault| fault.contains(key)),
                "{key}: {faults:?}"
            );
        }
        let alone = r#"xxl_admin = ["http://a/xxl-job-admin"]"#;
        let faults = toml::from_str::<Config>(alone).unwrap().validate();
        assert_eq!(faults, ["xxl_listen: expected an address beside xxl_admin"]);
    }
}
