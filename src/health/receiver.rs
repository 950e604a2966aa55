//! What a notification looks like to each kind of receiver, and what its answer means. Without I/O.
//!
//! Texts in an alarm may come from a device or a service: what robots read as a mention, a link or markup is replaced.
//! A text that is longer than a robot takes ends with how many alarms are left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::Sha256;

use super::alarm::{Alarm, News};

/// Kinds of receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Anything that takes JSON by POST and answers 2xx.
    Webhook,
    /// A Feishu group robot; signed if it has a secret.
    Feishu { secret: Option<String> },
    /// A WeCom group robot.
    Wecom,
}

/// Who tells.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sender {
    pub(super) environment: String,
    pub(super) region: String,
    pub(super) node: String,
}

/// Half of the 20 KB that Feishu takes: JSON may double what it escapes.
const FEISHU_TEXT_BYTES_MAX: usize = 10_000;
/// What WeCom takes as markdown.
const WECOM_TEXT_BYTES_MAX: usize = 4_096;
/// Of one text in an alarm.
const FIELD_CHARS_MAX: usize = 200;

impl Form {
    /// Its name in metrics, logs and keys.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Feishu { .. } => "feishu",
            Self::Wecom => "wecom",
        }
    }

    /// The JSON to post.
    pub(super) fn body(&self, sender: &Sender, news: &News, now_ms: u64) -> Bytes {
        let body = match self {
            Self::Webhook => webhook(sender, news, now_ms),
            Self::Feishu { secret } => {
                let text = text(sender, news, FEISHU_TEXT_BYTES_MAX);
                let content = json!({ "text": text });
                match secret {
                    None => json!({ "msg_type": "text", "content": content }),
                    Some(secret) => {
                        let timestamp = (now_ms / 1_000).to_string();
                        let sign = feishu_sign(&timestamp, secret);
                        json!({ "timestamp": timestamp, "sign": sign, "msg_type": "text", "content": content })
                    }
                }
            }
            Self::Wecom => {
                let text = text(sender, news, WECOM_TEXT_BYTES_MAX);
                json!({ "msgtype": "markdown", "markdown": { "content": text } })
            }
        };
        body.to_string().into()
    }

    /// Whether an answer means that the notification arrived; robots refuse with status 200 and a code.
    ///
    /// # Errors
    /// The receiver's words.
    pub(super) fn accepted(&self, status: u16, body: &[u8]) -> Result<(), String> {
        let start: String = String::from_utf8_lossy(body).chars().take(200).collect();
        let refused = || Err(format!("status {status}: {start}"));
        if !(200..300).contains(&status) {
            return refused();
        }
        let code = match self {
            Self::Webhook => return Ok(()),
            Self::Feishu { .. } => "code",
            Self::Wecom => "errcode",
        };
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        match answer.get(code).and_then(Value::as_i64) {
            Some(0) => Ok(()),
            _ => refused(),
        }
    }
}

fn webhook(sender: &Sender, news: &News, now_ms: u64) -> Value {
    #[derive(Serialize)]
    struct Told<'a> {
        status: &'a str,
        #[serde(flatten)]
        alarm: &'a Alarm,
    }
    let told = |status, alarms: &'_ [Alarm]| -> Vec<Value> {
        alarms
            .iter()
            .map(|alarm| json!(Told { status, alarm }))
            .collect()
    };
    let alarms = [told("firing", &news.firing), told("over", &news.over)].concat();
    json!({
        "environment": sender.environment,
        "region": sender.region,
        "node": sender.node,
        "time_ms": now_ms,
        "alarms": alarms,
    })
}

/// A paragraph for each alarm, as many as fit.
fn text(sender: &Sender, news: &News, bytes_max: usize) -> String {
    /// Of the line that says how many are left out.
    const REST_BYTES: usize = 40;
    let mut text = format!(
        "Jetway: {} firing, {} over",
        news.firing.len(),
        news.over.len()
    );
    let all = news.firing.iter().map(|alarm| ("FIRING", alarm));
    let mut all = all.chain(news.over.iter().map(|alarm| ("OVER", alarm)));
    while let Some((status, alarm)) = all.next() {
        let paragraph = paragraph(sender, status, alarm);
        if text.len() + paragraph.len() + REST_BYTES > bytes_max {
            text.push_str(&format!("\n\n… and {} more", all.count() + 1));
            break;
        }
        text.push_str(&paragraph);
    }
    text
}

fn paragraph(sender: &Sender, status: &str, alarm: &Alarm) -> String {
    let retries = alarm.retries.map(|retries| retries.to_string());
    let lines = [
        ("environment", &*sender.environment),
        ("region", &sender.region),
        ("node", &sender.node),
        ("task", &alarm.task),
        ("event", &alarm.event),
        ("reason", &alarm.reason),
        ("retries", retries.as_deref().unwrap_or_default()),
        ("trace id", &alarm.trace_id),
        ("detail", &alarm.detail),
    ];
    let mut text = format!("\n\n{status} {}", alarm.rule);
    for (name, value) in lines {
        if !value.is_empty() {
            text.push_str(&format!("\n{name}: {}", plain(value)));
        }
    }
    text
}

/// A text without anything that a robot obeys.
fn plain(text: &str) -> String {
    let replaced = text.chars().take(FIELD_CHARS_MAX).map(|char| match char {
        '<' => '‹',
        '>' => '›',
        '[' => '(',
        ']' => ')',
        '`' | '*' => '\'',
        control if control.is_control() => ' ',
        other => other,
    });
    replaced.collect()
}

/// Base64 of the HMAC-SHA-256 of nothing, with time stamp and secret as the key: so Feishu wants it.
fn feishu_sign(timestamp: &str, secret: &str) -> String {
    let key = format!("{timestamp}\n{secret}");
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of any length will do");
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
