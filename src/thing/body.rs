//! The bodies of events, in both shapes. Values stand in them as the device wrote them.

use std::borrow::Cow;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::device::DeviceId;
use crate::event::Timestamp;
use crate::mapping::Presence;

/// A property or parameter with its value's text.
pub(super) type Param<'a> = (Cow<'a, str>, &'a RawValue);

/// What one event says.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) device: &'a DeviceId,
    pub(super) msg_token: Option<&'a str>,
    /// When the device says it was, if that can be; else when it was received. Unix milliseconds.
    pub(super) sampled_ms: u64,
    pub(super) what: What<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// All properties of a report.
    Report(&'a [Param<'a>]),
    /// One of them.
    Property(&'a Param<'a>),
    Event {
        type_: &'a str,
        id: &'a str,
        params: &'a [Param<'a>],
    },
    Action {
        id: &'a str,
        is_answer: bool,
        code: Option<u64>,
        msg: Option<&'a str>,
        params: &'a [Param<'a>],
    },
}

/// The data of an event in the envelope.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    product_id: &'a str,
    device_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    sampled_at: Timestamp,
    received_at: Timestamp,
    params: Params<'a>,
}

/// The body that the platform writes, fields in its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Platform<'a> {
    device: PlatformDevice<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_token: Option<&'a str>,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<&'a str>,
    #[serde(rename = "actionID", skip_serializing_if = "Option::is_none")]
    action_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<NumberForBool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Params<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    req_type: Option<&'static str>,
}

#[derive(Serialize)]
struct PlatformDevice<'a> {
    #[serde(rename = "productID")]
    product_id: &'a str,
    #[serde(rename = "deviceName")]
    device_name: &'a str,
}

/// The platform's body of a connection event.
#[derive(Serialize)]
struct PlatformPresence<'a> {
    device: PlatformDevice<'a>,
    status: u8,
    timestamp: String,
}

/// What applications of the platform get when a device connects or its connection ends, `at_ms` Unix milliseconds:
/// `{"device": {"productID", "deviceName"}, "status": 1 | 2, "timestamp": "<at_ms>"}` (profile §5).
///
/// # Panics
/// Never: texts and numbers always serialise.
#[must_use]
pub fn platform_presence(device: &DeviceId, presence: Presence, at_ms: u64) -> Bytes {
    let body = PlatformPresence {
        device: PlatformDevice::of(device),
        status: match presence {
            Presence::Connected => 1,
            Presence::Disconnected => 2,
        },
        timestamp: at_ms.to_string(),
    };
    let body = serde_json::to_vec(&body).expect("texts and numbers always serialise");
    body.into()
}

/// Params as an object.
struct Params<'a> {
    params: &'a [Param<'a>],
    numbers_for_bools: bool,
}

/// A value; the platform knows no booleans, only 0 and 1.
struct NumberForBool<'a>(&'a RawValue);

impl<'a> PlatformDevice<'a> {
    fn of(device: &'a DeviceId) -> Self {
        Self {
            product_id: device.product(),
            device_name: device.name(),
        }
    }
}

fn direction(downlink: bool) -> &'static str {
    if downlink { "down" } else { "up" }
}

impl<'a> Data<'a> {
    pub(super) fn new(said: &Said<'a>, received_ms: u64, downlink: bool) -> Self {
        let params = |params| Params {
            params,
            numbers_for_bools: false,
        };
        let data = Self {
            product_id: said.device.product(),
            device_name: said.device.name(),
            msg_token: said.msg_token,
            identifier: None,
            type_: None,
            direction: None,
            code: None,
            message: None,
            sampled_at: Timestamp(said.sampled_ms),
            received_at: Timestamp(received_ms),
            params: params(&[]),
        };
        match said.what {
            What::Report(all) => Self {
                params: params(all),
                ..data
            },
            What::Property(one) => Self {
                params: params(std::slice::from_ref(one)),
                ..data
            },
            What::Event {
                type_,
                id,
                params: all,
            } => Self {
                identifier: Some(id),
                type_: Some(type_),
                params: params(all),
                ..data
            },
            What::Action {
                id,
                code,
                msg,
                params: all,
                ..
            } => Self {
                identifier: Some(id),
                direction: Some(direction(downlink)),
                code,
                message: msg,
                params: params(all),
                ..data
            },
        }
    }
}

impl<'a> Platform<'a> {
    pub(super) fn new(said: &Said<'a>, downlink: bool) -> Self {
        let params = |params| {
            Some(Params {
                params,
                numbers_for_bools: true,
            })
        };
        let body = Self {
            device: PlatformDevice::of(said.device),
            msg_token: None,
            timestamp: said.sampled_ms.to_string(),
            identifier: None,
            type_: None,
            action_id: None,
            param: None,
            params: None,
            code: None,
            msg: None,
            dir: None,
            req_type: None,
        };
        match said.what {
            What::Report(all) => Self {
                params: params(all),
                ..body
            },
            What::Property((id, value)) => Self {
                identifier: Some(id),
                param: Some(NumberForBool(value)),
                ..body
            },
            What::Event {
                type_,
                id,
                params: all,
            } => Self {
                identifier: Some(id),
                type_: Some(type_),
                params: params(all),
                ..body
            },
            What::Action {
                id,
                is_answer,
                code,
                msg,
                params: all,
            } => Self {
                msg_token: said.msg_token,
                action_id: Some(id),
                params: params(all),
                code,
                msg,
                dir: Some(direction(downlink)),
                req_type: Some(if is_answer { "resp" } else { "req" }),
                ..body
            },
        }
    }
}

impl Serialize for Params<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.params.len()))?;
        for (id, value) in self.params {
            match self.numbers_for_bools {
                true => map.serialize_entry(id, &NumberForBool(value))?,
                false => map.serialize_entry(id, value)?,
            }
        }
        map.end()
    }
}

impl Serialize for NumberForBool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.get() {
            "true" => serializer.serialize_u8(1),
            "false" => serializer.serialize_u8(0),
            _ => self.0.serialize(serializer),
        }
    }
}
