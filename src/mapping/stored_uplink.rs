//! An uplink as its stream has it, read back: whose it is, what kind, when it was received (SUBJECTS §4).
//!
//! In either form that uplinks are written in. Who publishes into the stream beside a gateway may leave headers out.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message as _;

use super::envelope::{CONTENT_TYPE, DeviceMessage};
use super::header;
use super::rules::Mapping;
use super::spoken_for;
use super::template::Named;
use crate::device::{DeviceId, Direction};
use crate::message::Message;

/// What a stored uplink says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredUplink<'m> {
    /// The device of its subject.
    pub device: DeviceId,
    /// The handle of its subject: thing, ext, …
    pub handle: &'m str,
    /// property, event, …; empty if nothing says it.
    pub kind: Cow<'m, str>,
    /// When the gateway received it, Unix milliseconds.
    pub received_ms: Option<u64>,
    /// Its W3C trace context, if it is a valid one.
    pub traceparent: Option<Cow<'m, str>>,
    /// The device's payload; none if the message says that it is a [`DeviceMessage`] and is none.
    pub payload: Option<Bytes>,
    /// The sub-devices that its gateway device was allowed to speak for in it.
    pub sub_devices: Vec<DeviceId>,
}

impl Mapping {
    /// Reads an uplink back; none if its subject is that of no up rule.
    #[must_use]
    pub fn stored_uplink<'m>(&'m self, message: &'m Message) -> Option<StoredUplink<'m>> {
        let up = self
            .rules
            .iter()
            .filter(|rule| rule.direction == Direction::Up);
        let (rule, device) =
            up.into_iter()
                .find_map(|rule| match rule.subject.value.read(&message.subject)? {
                    Named::Device(device) => Some((rule, device)),
                    Named::Topic(_) => None,
                })?;
        let headers = &message.headers;
        let of_headers = StoredUplink {
            device,
            handle: &rule.handle.value,
            kind: headers
                .get(header::TYPE)
                .map(header::text)
                .unwrap_or_default(),
            received_ms: headers.get(header::TS).and_then(|text| text.parse().ok()),
            traceparent: traceparent(headers.get(header::TRACEPARENT).map(Cow::Borrowed)),
            payload: Some(message.payload.clone()),
            sub_devices: spoken_for::read(headers),
        };
        if headers.get(header::CONTENT_TYPE) != Some(CONTENT_TYPE) {
            return Some(of_headers);
        }
        let Ok(read) = DeviceMessage::decode(message.payload.clone()) else {
            return Some(StoredUplink {
                payload: None,
                ..of_headers
            });
        };
        Some(StoredUplink {
            kind: Cow::Owned(read.r#type),
            received_ms: u64::try_from(read.received_at_ms).ok().filter(|ms| *ms > 0),
            traceparent: traceparent(Some(Cow::Owned(read.traceparent))),
            payload: Some(read.payload),
            ..of_headers
        })
    }
}

fn traceparent(text: Option<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    text.filter(|text| header::is_traceparent(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::{Form, Receipt, Settings};
    use crate::mqtt::{Publish, PublishProperties, QoS};

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn stored(form: Form) -> (Mapping, Message) {
        let mut settings = Settings::default();
        settings.forms.insert("thing".to_owned(), form);
        let mapping = Mapping::load(&settings, None).unwrap();
        let publish = Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: "$thing/up/event/P.1/D".into(),
            packet_id: None,
            properties: PublishProperties::default(),
            payload: "x".into(),
        };
        let address = mapping.address(&publish.topic).unwrap();
        let device = DeviceId::new("P.1", "D").unwrap();
        let receipt = Receipt {
            id: "a.1",
            received_ms: 5,
            traceparent: TRACE,
        };
        let uplink = mapping.uplink(&device, &address, &publish, &receipt);
        let message = uplink.unwrap().message;
        (mapping, message)
    }

    #[test]
    fn every_form_of_an_uplink_says_the_same() {
        for form in [Form::Native, Form::Protobuf] {
            let (mapping, message) = stored(form);
            let expected = StoredUplink {
                device: DeviceId::new("P.1", "D").unwrap(),
                handle: "thing",
                kind: "event".into(),
                received_ms: Some(5),
                traceparent: Some(TRACE.into()),
                payload: Some("x".into()),
                sub_devices: Vec::new(),
            };
            assert_eq!(mapping.stored_uplink(&message), Some(expected), "{form:?}");
        }
    }

    #[test]
    fn what_is_no_uplink_or_says_nothing_is_read_as_that() {
        let (mapping, mut message) = stored(Form::Protobuf);
        message.payload = "no protobuf".into();
        let read = mapping.stored_uplink(&message).unwrap();
        assert_eq!((read.handle, read.payload), ("thing", None));
        let (mapping, mut message) = stored(Form::Native);
        message.headers.remove(header::TRACEPARENT);
        message.headers.push(header::TRACEPARENT, "not one");
        for name in [header::TYPE, header::TS] {
            message.headers.remove(name);
        }
        let read = mapping.stored_uplink(&message).unwrap();
        assert_eq!(
            (&*read.kind, read.received_ms, read.traceparent),
            ("", None, None)
        );
        message.subject = "device.down.mqtt.thing.P.D".into();
        assert_eq!(mapping.stored_uplink(&message), None);
    }
}
