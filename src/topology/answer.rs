//! Answers to gateway devices, with the platform's codes.

use bytes::Bytes;
use serde::Serialize;

use crate::device::DeviceId;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It is done.
    Ok,
    /// It says something wrongly, or a signature is not the sub-device's.
    Parameter,
    /// The catalogue does not answer.
    Database,
    /// There is no such device.
    NotFound,
    /// A sub-device is another gateway device's.
    BoundToAnother,
    /// A sub-device is not this gateway device's.
    NotBound,
}

impl Code {
    fn number(self) -> u32 {
        match self {
            Self::Ok => 200,
            Self::Parameter => 100_006,
            Self::Database => 100_008,
            Self::NotFound => 100_009,
            Self::BoundToAnother => 2_000_005,
            Self::NotBound => 2_000_006,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Parameter => "expected devices, each signed with its own secret",
            Self::Database => "not known now, ask again",
            Self::NotFound => "there is no such device",
            Self::BoundToAnother => "a device is bound to another gateway",
            Self::NotBound => "a device is not bound to this gateway",
        }
    }
}

/// What is said, before it is known of which sub-devices.
pub(super) struct Answer<'a> {
    pub(super) method: &'static str,
    pub(super) msg_token: Option<&'a str>,
    pub(super) code: Code,
    pub(super) says_why: bool,
    pub(super) each_has_code: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_token: Option<&'a str>,
    code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a str>,
    payload: Payload<'a>,
}

#[derive(Serialize)]
struct Payload<'a> {
    devices: Vec<Fields<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(rename = "productID")]
    product_id: &'a str,
    device_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u32>,
}

impl Answer<'_> {
    pub(super) fn write(&self, devices: &[DeviceId]) -> Bytes {
        let fields = |device| {
            let device: &DeviceId = device;
            Fields {
                product_id: device.product(),
                device_name: device.name(),
                code: self.each_has_code.then(|| Code::Ok.number()),
            }
        };
        let body = Body {
            method: self.method,
            msg_token: self.msg_token,
            code: self.code.number(),
            msg: self.says_why.then(|| self.code.words()),
            payload: Payload {
                devices: devices.iter().map(fields).collect(),
            },
        };
        let body = serde_json::to_vec(&body);
        body.expect("texts and numbers always serialise").into()
    }
}
