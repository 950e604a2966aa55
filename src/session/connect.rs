//! CONNECT → what both sides agreed for this connection, or the reason why not.
//!
//! Who the device is, is not decided here, and neither is whether a session of it is stored. What is not available is announced in
//! the CONNACK of MQTT 5 and refused: shared subscriptions outside the open profile.

use std::num::{NonZeroU16, NonZeroU32};

use super::Config;
use crate::mqtt::{Connack, ConnackProperties, Connect, ReasonCode, Version};

/// What both sides agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The protocol version of this connection.
    pub version: Version,
    /// Keep alive in force, in seconds, never 0.
    pub keep_alive_s: u16,
    /// Most unacknowledged QoS 1 and 2 messages that the device takes.
    pub downlink_inflight_max: u16,
    /// Largest packet that the device takes, in bytes.
    pub downlink_packet_bytes_max: u32,
    /// Most topic aliases that the device is given.
    pub downlink_topic_alias_max: u16,
    /// Whether refusals are explained in words.
    pub problem_information: bool,
    /// Whether CONNECT asked for a session that outlives the connection: only then may DISCONNECT too.
    pub session_expiry_asked: bool,
    /// Whether nothing of an earlier session is to be used.
    pub clean_start: bool,
    /// How long the session outlives the connection, in seconds; 0: it ends with it.
    pub session_expiry_s: u32,
    /// What to say in CONNACK.
    pub connack: Connack,
}

/// Checks a CONNECT against what this server offers.
///
/// # Errors
/// The Reason Code for CONNACK; 3.1.1 gets its nearest return code.
pub fn agree(connect: &Connect, config: &Config) -> Result<Agreement, ReasonCode> {
    if connect.version == Version::V3_1_1 && connect.client_id.is_empty() && !connect.clean_start {
        return Err(ReasonCode::ClientIdentifierNotValid); // [MQTT-3.1.3-8]
    }
    let wanted = &connect.properties;
    let keep_alive_s = match connect.keep_alive {
        0 => config.keep_alive_max_s,
        asked => asked.min(config.keep_alive_max_s),
    };
    let session_expiry_s = session_expiry_s(connect, config);
    Ok(Agreement {
        version: connect.version,
        keep_alive_s,
        downlink_inflight_max: wanted
            .receive_maximum
            .map_or(config.downlink_inflight_max, |asked| {
                asked.get().min(config.downlink_inflight_max)
            }),
        // [MQTT-3.1.2-24]
        downlink_packet_bytes_max: wanted.maximum_packet_size.map_or(u32::MAX, NonZeroU32::get),
        downlink_topic_alias_max: wanted
            .topic_alias_maximum
            .unwrap_or(0)
            .min(config.downlink_topic_alias_max),
        problem_information: wanted.request_problem_information.unwrap_or(true),
        session_expiry_asked: wanted.session_expiry_interval.unwrap_or(0) > 0,
        clean_start: connect.clean_start,
        session_expiry_s,
        connack: connack(connect, config, keep_alive_s, session_expiry_s),
    })
}

/// 3.1.1 cannot say how long: its session ends with the connection, or is kept as long as any.
fn session_expiry_s(connect: &Connect, config: &Config) -> u32 {
    let asked_s = match (connect.version, connect.clean_start) {
        (Version::V3_1_1, true) => 0,
        (Version::V3_1_1, false) => u32::MAX,
        (Version::V5, _) => connect.properties.session_expiry_interval.unwrap_or(0),
    };
    asked_s.min(config.session_expiry_max_s)
}

fn connack(
    connect: &Connect,
    config: &Config,
    keep_alive_s: u16,
    session_expiry_s: u32,
) -> Connack {
    let asked_s = connect.properties.session_expiry_interval.unwrap_or(0);
    let properties = ConnackProperties {
        session_expiry_interval: (session_expiry_s != asked_s).then_some(session_expiry_s),
        receive_maximum: NonZeroU16::new(config.uplink_inflight_max),
        maximum_packet_size: NonZeroU32::new(config.packet_bytes_max),
        topic_alias_maximum: Some(config.uplink_topic_alias_max).filter(|maximum| *maximum > 0),
        shared_subscription_available: (!config.shared_subscriptions).then_some(false),
        server_keep_alive: (keep_alive_s != connect.keep_alive).then_some(keep_alive_s),
        ..ConnackProperties::default()
    };
    Connack {
        session_present: false, // Session::new knows.
        reason: ReasonCode::Success,
        properties,
    }
}

/// A CONNACK that refuses.
#[must_use]
pub fn refusal(reason: ReasonCode) -> Connack {
    Connack {
        session_present: false, // [MQTT-3.2.2-6]
        reason,
        properties: ConnackProperties::default(),
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
pub(in crate::session) mod tests;
