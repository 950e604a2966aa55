//! CONNECT → what both sides agreed for this connection, or the reason why not.
//!
//! Who the device is, is not decided here. What this release does not implement is announced in the CONNACK of MQTT 5 and
//! refused: QoS 2, retain, sessions that outlive their connection, shared subscriptions, enhanced authentication.

use std::num::{NonZeroU16, NonZeroU32};

use super::Config;
use crate::mqtt::{Connack, ConnackProperties, Connect, QoS, ReasonCode, Version};

/// The smallest Maximum Packet Size of a device: CONNACK and DISCONNECT must fit, whose size the device has no say in.
const DEVICE_PACKET_BYTES_MIN: u32 = 64;

/// What both sides agreed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The protocol version of this connection.
    pub version: Version,
    /// Keep alive in force, in seconds, never 0.
    pub keep_alive_s: u16,
    /// Most unacknowledged QoS 1 messages that the device takes.
    pub downlink_inflight_max: u16,
    /// Largest packet that the device takes, in bytes.
    pub downlink_packet_bytes_max: u32,
    /// Most topic aliases that the device is given.
    pub downlink_topic_alias_max: u16,
    /// Whether refusals are explained in words.
    pub problem_information: bool,
    /// Whether CONNECT asked for a session that outlives the connection: only then may DISCONNECT too.
    pub session_expiry_asked: bool,
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
    if connect.properties.authentication_method.is_some() {
        return Err(ReasonCode::BadAuthenticationMethod);
    }
    if let Some(will) = &connect.will {
        if will.qos == QoS::ExactlyOnce {
            return Err(ReasonCode::QoSNotSupported); // [MQTT-3.2.2-12]
        }
        if will.retain {
            return Err(ReasonCode::RetainNotSupported); // [MQTT-3.2.2-13]
        }
    }
    let wanted = &connect.properties;
    let downlink_packet_bytes_max = wanted.maximum_packet_size.map_or(u32::MAX, NonZeroU32::get);
    if downlink_packet_bytes_max < DEVICE_PACKET_BYTES_MIN {
        return Err(ReasonCode::PacketTooLarge); // [MQTT-3.1.2-24]
    }
    let keep_alive_s = match connect.keep_alive {
        0 => config.keep_alive_max_s,
        asked => asked.min(config.keep_alive_max_s),
    };
    Ok(Agreement {
        version: connect.version,
        keep_alive_s,
        downlink_inflight_max: wanted
            .receive_maximum
            .map_or(config.downlink_inflight_max, |asked| {
                asked.get().min(config.downlink_inflight_max)
            }),
        downlink_packet_bytes_max,
        downlink_topic_alias_max: wanted
            .topic_alias_maximum
            .unwrap_or(0)
            .min(config.downlink_topic_alias_max),
        problem_information: wanted.request_problem_information.unwrap_or(true),
        session_expiry_asked: wanted.session_expiry_interval.unwrap_or(0) > 0,
        connack: connack(connect, config, keep_alive_s),
    })
}

fn connack(connect: &Connect, config: &Config, keep_alive_s: u16) -> Connack {
    let properties = ConnackProperties {
        // The session ends with the connection whatever was asked for.
        session_expiry_interval: Some(0),
        receive_maximum: NonZeroU16::new(config.uplink_inflight_max),
        maximum_qos: Some(QoS::AtLeastOnce),
        retain_available: Some(false),
        maximum_packet_size: NonZeroU32::new(config.packet_bytes_max),
        topic_alias_maximum: Some(config.uplink_topic_alias_max).filter(|maximum| *maximum > 0),
        shared_subscription_available: Some(false),
        server_keep_alive: (keep_alive_s != connect.keep_alive).then_some(keep_alive_s),
        ..ConnackProperties::default()
    };
    Connack {
        session_present: false, // [MQTT-3.2.2-2]
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
