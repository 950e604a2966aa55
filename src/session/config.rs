//! Limits of a session.

use serde::Deserialize;

/// Limits that every session gets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Largest MQTT packet in bytes; lowered at start to what the NATS server takes.
    pub packet_bytes_max: u32,
    /// QoS 1 messages of one device that may wait for their PUBACK (MQTT 5: Receive Maximum).
    pub uplink_inflight_max: u16,
    /// Bytes of one device's messages that may wait for the stream; each counts its content and 512 bytes.
    pub uplink_inflight_bytes_max: usize,
    /// QoS 1 messages to one device that may wait for its PUBACK.
    pub downlink_inflight_max: u16,
    /// Topic filters of one session.
    pub subscriptions_max: usize,
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
            uplink_inflight_bytes_max: 1024 * 1024,
            downlink_inflight_max: 32,
            subscriptions_max: 100,
            uplink_topic_alias_max: 16,
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
        positive("downlink_inflight_max", self.downlink_inflight_max.into());
        positive("subscriptions_max", self.subscriptions_max as u64);
        positive("keep_alive_max_s", self.keep_alive_max_s.into());
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
