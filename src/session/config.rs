//! Limits of a session.

use serde::Deserialize;

use super::downlink_window::INFLIGHT_MAX;

/// Limits that every session gets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Largest MQTT packet in bytes; lowered at start to what the NATS server takes.
    pub packet_bytes_max: u32,
    /// QoS 1 and 2 messages of one device that may wait for their PUBACK or PUBCOMP (MQTT 5: Receive Maximum). One that speaks
    /// 3.1.1 is held back when so many wait for the stream.
    pub uplink_inflight_max: u16,
    /// QoS 2 messages that a device which speaks 3.1.1 may leave without PUBREL; the connection ends beyond it.
    pub uplink_unreleased_max: u16,
    /// Bytes of one device's messages that may wait for the stream; each counts its content and 512 bytes.
    pub uplink_inflight_bytes_max: usize,
    /// QoS 1 and 2 messages to one device that may wait for its PUBACK or PUBCOMP; at most 2,047.
    pub downlink_inflight_max: u16,
    /// Topic filters of one session.
    pub subscriptions_max: usize,
    /// Levels of a topic or a topic filter.
    pub topic_levels_max: usize,
    /// User properties of one message.
    pub user_properties_max: usize,
    /// Retained messages that may wait for one device that subscribed.
    pub retained_max: usize,
    /// Longest time that a session outlives its connection, in seconds; 0: not at all. It is that of each session without
    /// clean session in 3.1.1.
    pub session_expiry_max_s: u32,
    /// Whether shared subscriptions are available; not a key of the file, because the profile decides.
    #[serde(skip)]
    pub shared_subscriptions: bool,
    /// Whether a QoS 2 message is published at its PUBREL and held until then (MQTT 5 §4.3.3, method A), or at once (method B);
    /// not a key of the file either.
    #[serde(skip)]
    pub publishes_at_release: bool,
    /// Topics that a device may give an alias (MQTT 5: Topic Alias Maximum); 0: none. Together they keep no more than 1,024 bytes
    /// for each of these, and nothing until the first is set.
    pub uplink_topic_alias_max: u16,
    /// Topics that a device is given an alias for, if it takes so many; 0: none. The same bound in bytes.
    pub downlink_topic_alias_max: u16,
    /// Longest keep alive in seconds; also used for a device that asks for none.
    pub keep_alive_max_s: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packet_bytes_max: 1024 * 1024,
            uplink_inflight_max: 128,
            uplink_unreleased_max: 8_192,
            uplink_inflight_bytes_max: 1024 * 1024,
            downlink_inflight_max: 32,
            subscriptions_max: 100,
            topic_levels_max: 128,
            user_properties_max: 128,
            retained_max: 10_000,
            session_expiry_max_s: 604_800,
            shared_subscriptions: false,
            publishes_at_release: false,
            uplink_topic_alias_max: 10,
            downlink_topic_alias_max: 16,
            keep_alive_max_s: 1_200,
        }
    }
}

impl Config {
    /// Every fault, as `key: what was expected`.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut positive = |key: &str, value: u64| {
            if value == 0 {
                faults.push(format!("{key}: expected more than 0"));
            }
        };
        positive("uplink_inflight_max", self.uplink_inflight_max.into());
        positive("uplink_unreleased_max", self.uplink_unreleased_max.into());
        positive("downlink_inflight_max", self.downlink_inflight_max.into());
        positive("subscriptions_max", self.subscriptions_max as u64);
        positive("topic_levels_max", self.topic_levels_max as u64);
        positive("keep_alive_max_s", self.keep_alive_max_s.into());
        if self.downlink_inflight_max > INFLIGHT_MAX {
            faults.push(format!(
                "downlink_inflight_max: expected at most {INFLIGHT_MAX}, found {}",
                self.downlink_inflight_max
            ));
        }
        if !(1024..=268_435_455).contains(&self.packet_bytes_max) {
            faults.push(format!(
                "packet_bytes_max: expected 1024 to 268435455, found {}",
                self.packet_bytes_max
            ));
        }
        if self.uplink_inflight_bytes_max < self.packet_bytes_max as usize {
            faults.push(format!(
                "uplink_inflight_bytes_max: expected at least packet_bytes_max ({}), found {}",
                self.packet_bytes_max, self.uplink_inflight_bytes_max
            ));
        }
        faults
    }
}
