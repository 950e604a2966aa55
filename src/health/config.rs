//! What is too much, and who is told.

use serde::Deserialize;

use super::receiver::Form;
use crate::net::post;

/// Alarms: their thresholds, and who is told about them. Thresholds apply to `/health/mq` as well.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Named in every notification, such as `production`.
    pub environment: String,
    /// Named in every notification, such as `eu-1`.
    pub region: String,
    /// How often streams and durables are looked at, in milliseconds.
    pub interval_ms: u64,
    /// Messages that may wait for a durable.
    pub lag_max: u64,
    /// How long more of them may wait before it is an alarm, in seconds.
    pub lag_for_s: u64,
    /// Of a hundred messages that a durable is finished with, how many may have failed.
    pub failure_percent_max: u64,
    /// By how much the rate of uplinks may differ from one window to the next, in percent.
    pub rate_step_percent_max: u64,
    /// The time over which failures and rates are measured, in seconds.
    pub window_s: u64,
    /// A durable that nobody has pulled from for so long counts as dead, in seconds.
    pub alive_within_s: u64,
    /// How long a notification waits for further news, in milliseconds.
    pub group_wait_ms: u64,
    /// Notifications to one receiver; more news wait and are told together.
    pub notifications_per_minute_max: u64,
    /// After so many seconds an alarm that is not over is told again; 0: never.
    pub repeat_s: u64,
    /// How long a receiver may take to answer, in milliseconds.
    pub timeout_ms: u64,
    /// Gets every notification as JSON by POST.
    pub webhook_url: Option<String>,
    /// A Feishu group robot: `https://open.feishu.cn/open-apis/bot/v2/hook/…`.
    pub feishu_url: Option<String>,
    /// What notifications to Feishu are signed with, if the robot asks for a signature.
    pub feishu_secret: Option<String>,
    /// A WeCom group robot: `https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…`.
    pub wecom_url: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            environment: String::new(),
            region: String::new(),
            interval_ms: 5_000,
            lag_max: 10_000,
            lag_for_s: 300,
            failure_percent_max: 1,
            rate_step_percent_max: 50,
            window_s: 300,
            alive_within_s: 30,
            group_wait_ms: 10_000,
            notifications_per_minute_max: 10,
            repeat_s: 14_400,
            timeout_ms: 10_000,
            webhook_url: None,
            feishu_url: None,
            feishu_secret: None,
            wecom_url: None,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults: Vec<String> = [
            ("interval_ms", self.interval_ms),
            ("window_s", self.window_s),
            ("alive_within_s", self.alive_within_s),
            (
                "notifications_per_minute_max",
                self.notifications_per_minute_max,
            ),
            ("timeout_ms", self.timeout_ms),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("{key}: expected more than 0"))
        .collect();
        for (form, url) in self.receivers() {
            if let Err(fault) = post::parse(url) {
                faults.push(format!("{}_url: {fault}", form.as_str()));
            }
        }
        if self.feishu_secret.is_some() && self.feishu_url.is_none() {
            faults.push("feishu_secret: expected feishu_url beside it".to_owned());
        }
        faults
    }

    /// Whom to tell, and how.
    pub(super) fn receivers(&self) -> impl Iterator<Item = (Form, &str)> {
        let feishu = Form::Feishu {
            secret: self.feishu_secret.clone(),
        };
        [
            (Form::Webhook, &self.webhook_url),
            (feishu, &self.feishu_url),
            (Form::Wecom, &self.wecom_url),
        ]
        .into_iter()
        .filter_map(|(form, url)| Some((form, url.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_keys() {
        assert_eq!(Config::default().validate(), Vec::<String>::new());
        let config = Config {
            interval_ms: 0,
            webhook_url: Some("ftp://a/b".to_owned()),
            wecom_url: Some("https://".to_owned()),
            feishu_secret: Some("s".to_owned()),
            ..Config::default()
        };
        let faults = config.validate();
        let keys: Vec<&str> = faults
            .iter()
            .filter_map(|fault| Some(fault.split_once(':')?.0))
            .collect();
        let expected = ["interval_ms", "webhook_url", "wecom_url", "feishu_secret"];
        assert_eq!(keys, expected, "{faults:?}");
    }
}
