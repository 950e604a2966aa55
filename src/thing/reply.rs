//! What a device is answered (profile §4.1, §4.3, §4.4).

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use super::request::Sys;
use crate::event::Fault;

/// Understood.
pub(super) const OK: u32 = 200;
/// The platform's code for what a request says wrongly.
pub(super) const PARAMETER: u32 = 100_006;

/// A message to the device of the message that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// thing or ext.
    pub handle: &'static str,
    /// `Jw-Type`: property, event or ntp.
    pub type_: &'static str,
    /// JSON.
    pub payload: Bytes,
}

/// A reply's fields in the platform's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_token: Option<&'a str>,
    code: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Times>,
}

/// What `getNtpReply` tells: by these a device sets its clock. Unix milliseconds.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Times {
    /// As the device said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device_send_time: Option<u64>,
    pub(super) server_recv_time: u64,
}

/// An answer to a request, before it is known what became of that.
pub(super) struct Answer<'a> {
    /// property, event or ntp.
    pub(super) type_: &'static str,
    pub(super) method: &'static str,
    pub(super) msg_token: Option<Cow<'a, str>>,
    pub(super) sys: Sys,
    pub(super) times: Option<Times>,
}

impl Answer<'_> {
    /// The message; none if the device wants none. A request is understood if something of it became an event; without a fault, so is
    /// one that needs none.
    pub(super) fn reply(&self, has_events: bool, fault: Option<&Fault>) -> Option<Reply> {
        let needs_none = matches!(self.method, "packReportReply" | "getNtpReply");
        let is_understood = has_events || (needs_none && fault.is_none());
        let (code, msg) = match is_understood {
            true => (OK, "ok"),
            false => (
                PARAMETER,
                fault.map_or("expected a known identifier", |fault| &fault.rule),
            ),
        };
        let body = Body {
            method: self.method,
            msg_token: self.msg_token.as_deref(),
            code,
            msg: self.sys.ret_msg.then_some(msg),
            data: self.times,
        };
        let payload = serde_json::to_vec(&body).expect("texts and numbers always serialise");
        (!self.sys.no_ask).then(|| Reply {
            handle: if self.type_ == "ntp" { "ext" } else { "thing" },
            type_: self.type_,
            payload: payload.into(),
        })
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
