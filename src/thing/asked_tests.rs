//! What tests ask: messages of the profile (§4), and a device, a model and settings to read them with.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{Interpretation, Knowledge, Model, Origin, Settings, Shape, Unknown, interpret};
use crate::device::DeviceId;
use crate::event::Received;
use crate::message::Message;

pub(super) const RECEIVED_MS: u64 = 1_754_000_000_500;
pub(super) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(super) const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(super) const MODEL: &str = r#"{
    "reply": ["property", "event", "ntp"],
    "schema": {
        "properties": [
            {"id": "temp", "type": "float", "min": -40, "max": "85", "step": "0.5", "unit": "℃"},
            {"identifier": "power", "define": {"type": "bool"}},
            {"id": "arr", "type": "array", "max": 4, "arrayInfo": {"type": "int", "min": 0, "max": 9}}
        ],
        "events": [{"id": "low", "type": "alert", "params": [{"id": "v", "type": "float", "min": 0, "max": 5}]}],
        "actions": [{"id": "open", "input": [{"id": "angle", "type": "int", "max": 90}], "output": [{"id": "Result", "type": "int"}]}]
    }
}"#;

/// What is asked of [`interpret`], with defaults.
pub(super) struct Asked<'a> {
    pub(super) handle: &'a str,
    pub(super) type_: &'a str,
    pub(super) downlink: bool,
    pub(super) settings: Settings,
    /// The document of every product.
    pub(super) model: Option<&'a str>,
}

pub(super) const PLAIN: Asked<'static> = Asked {
    handle: "thing",
    type_: "property",
    downlink: false,
    settings: Settings {
        shape: Shape::Envelope,
        each_property: false,
        unknown_property: Unknown::Keep,
        message_bytes_max: 2_000_000,
    },
    model: None,
};

pub(super) const PLATFORM: Asked<'static> = Asked {
    settings: Settings {
        shape: Shape::UnitedRhino,
        each_property: true,
        unknown_property: Unknown::Drop,
        message_bytes_max: 2_000_000,
    },
    ..PLAIN
};

impl Asked<'_> {
    pub(super) fn interpret(&self, payload: impl Into<Bytes>) -> Interpretation {
        let device = DeviceId::new("0A1", "dev001").unwrap();
        let model = self
            .model
            .map(|text| Arc::new(Model::parse(text.as_bytes()).unwrap()));
        let origin = Origin {
            device: &device,
            type_: self.type_,
            handle: self.handle,
            received_ms: RECEIVED_MS,
            stream: "DEVICE_UP",
            sequence: 17,
            trace_id: TRACE,
            traceparent: TRACEPARENT,
            downlink: self.downlink,
        };
        let knowledge = Knowledge {
            model: &|_| model.clone(),
            may_act_for: &|device| device.product() == "0S1",
        };
        interpret(&payload.into(), &origin, &self.settings, &knowledge)
    }

    /// Subjects and bodies of events of a message without a fault.
    pub(super) fn events(&self, payload: &str) -> Vec<(String, String)> {
        let interpretation = self.interpret(payload.to_owned());
        assert_eq!(interpretation.fault, None);
        interpretation.events.iter().map(said).collect()
    }

    /// Subjects of what still went out, and reason and path of the fault.
    pub(super) fn fault(&self, payload: &str) -> (Vec<String>, &'static str, String) {
        let interpretation = self.interpret(payload.to_owned());
        let subjects = interpretation
            .events
            .iter()
            .map(|event| event.subject.to_string());
        let fault = interpretation.fault.expect("a fault");
        (subjects.collect(), fault.reason, fault.path)
    }

    /// The reply's place and payload.
    pub(super) fn reply(&self, payload: &str) -> Option<(String, String)> {
        let reply = self.interpret(payload.to_owned()).reply?;
        let payload = String::from_utf8(reply.payload.to_vec()).unwrap();
        Some((format!("{}/{}", reply.handle, reply.type_), payload))
    }
}

pub(super) fn said(event: &Message) -> (String, String) {
    let body = String::from_utf8(event.payload.to_vec()).unwrap();
    (event.subject.to_string(), body)
}

pub(super) fn data(event: &Message) -> Value {
    let received = Received::parse(&event.payload).unwrap();
    serde_json::from_str(received.data.get()).unwrap()
}

pub(super) fn event(subject: &str, body: &str) -> (String, String) {
    (subject.to_owned(), body.to_owned())
}

pub(super) const REPORT: &str = r#"{"method":"report","msgToken":"t1","timestamp":1754000000123,"params":{"temp":21.50,"power":true,"arr.2":7}}"#;
pub(super) const PACK: &str = r#"{"method":"packReport","msgToken":"t2","properties":[{"timestamp":1754000000000,"params":{"temp":21.5}}],
 "events":[{"timestamp":1754000000001,"eventID":"low","params":{"v":2.9}}],
 "subDevices":[{"productID":"0S1","deviceName":"sub-7","isOnline":1,"properties":[{"timestamp":1754000000002,"params":{"temp":1}}],
  "events":[{"eventID":"low","type":"fault","params":{"v":0}}]},{"productID":"0S2","deviceName":"unbound","properties":[{"params":{"temp":1}}]}]}"#;
