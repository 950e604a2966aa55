//! The subjects of application events of the thing model (SUBJECTS §3), in stream `APPLICATION`.

use std::fmt::Write;

use bytes::BytesMut;

use super::Error;
use super::percent;
use super::subject::{SUBJECT_BYTES_MAX, device_tokens, encode_token};
use crate::device::DeviceId;
use crate::message::Subject;

/// What a device reported to applications. Each identifier is non-empty and at most 128 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report<'a> {
    /// All properties of one report: `application.device.P.D.report.thing.property`.
    Properties,
    /// The same for readers of the second version of the subjects: `application.v2.device.P.D.report.thing.property`.
    PropertiesV2,
    /// One property: `….property.<id>`. The index of an array's element, `id.3`, is a token more; no part is empty.
    Property(&'a str),
    /// `….event.<type>.<id>`
    Event {
        /// `info`, `alert` or `fault`.
        type_: &'a str,
        /// Which.
        id: &'a str,
    },
    /// `….action.<id>.<req|resp>.<up|down>`
    Action {
        /// Which.
        id: &'a str,
        /// Whether it is the answer to a call.
        is_answer: bool,
        /// Whether it goes to the device.
        downlink: bool,
    },
}

impl Report<'_> {
    /// The subject of a device's report.
    ///
    /// # Errors
    /// [`Error::SubjectTooLong`] if NATS could refuse it.
    pub fn subject(&self, device: &DeviceId) -> Result<Subject, Error> {
        let version = match self {
            Self::PropertiesV2 => "v2.",
            _ => "",
        };
        let mut out = BytesMut::with_capacity(160);
        let device = device_tokens(device);
        let written = write!(out, "application.{version}device.{device}.report.thing.");
        written.expect("a buffer in memory grows");
        match self {
            Self::Properties | Self::PropertiesV2 => out.extend_from_slice(b"property"),
            Self::Property(id) => {
                out.extend_from_slice(b"property");
                for part in id.split('.') {
                    out.extend_from_slice(b".");
                    encode_token(part, &mut out);
                }
            }
            Self::Event { type_, id } => {
                out.extend_from_slice(b"event.");
                encode_token(type_, &mut out);
                out.extend_from_slice(b".");
                encode_token(id, &mut out);
            }
            Self::Action {
                id,
                is_answer,
                downlink,
            } => {
                out.extend_from_slice(b"action.");
                encode_token(id, &mut out);
                let kind: &[u8] = if *is_answer { b".resp" } else { b".req" };
                out.extend_from_slice(kind);
                let direction: &[u8] = if *downlink { b".down" } else { b".up" };
                out.extend_from_slice(direction);
            }
        }
        match out.len() {
            ..=SUBJECT_BYTES_MAX => Ok(percent::take(&mut out)),
            length => Err(Error::SubjectTooLong(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_has_the_subject_of_the_contract() {
        let device = DeviceId::new("P.1", "D").unwrap();
        let action = |is_answer, downlink| Report::Action {
            id: "open",
            is_answer,
            downlink,
        };
        for (report, expected) in [
            (
                Report::Properties,
                "application.device.P%2E1.D.report.thing.property",
            ),
            (
                Report::PropertiesV2,
                "application.v2.device.P%2E1.D.report.thing.property",
            ),
            (
                Report::Property("temp"),
                "application.device.P%2E1.D.report.thing.property.temp",
            ),
            (
                Report::Property("arr.2"),
                "application.device.P%2E1.D.report.thing.property.arr.2",
            ),
            (
                Report::Property("a b>"),
                "application.device.P%2E1.D.report.thing.property.a%20b%3E",
            ),
            (
                Report::Event {
                    type_: "alert",
                    id: "low.2",
                },
                "application.device.P%2E1.D.report.thing.event.alert.low%2E2",
            ),
            (
                action(false, false),
                "application.device.P%2E1.D.report.thing.action.open.req.up",
            ),
            (
                action(false, true),
                "application.device.P%2E1.D.report.thing.action.open.req.down",
            ),
            (
                action(true, false),
                "application.device.P%2E1.D.report.thing.action.open.resp.up",
            ),
            (
                action(true, true),
                "application.device.P%2E1.D.report.thing.action.open.resp.down",
            ),
        ] {
            assert_eq!(report.subject(&device).unwrap(), expected);
        }
        let long = DeviceId::new(&".".repeat(128), &".".repeat(128)).unwrap();
        let id = "*".repeat(128);
        let report = Report::Property(&id).subject(&long);
        assert_eq!(report, Err(Error::SubjectTooLong(1_195)));
    }
}
