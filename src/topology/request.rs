//! A request of a gateway device, read from its JSON.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::answer::{Answer, Code};
use crate::auth::credentials::{Method, Secret};
use crate::auth::replay::Signed;
use crate::device::DeviceId;

/// Sub-devices in one request.
const DEVICES_MAX: usize = 1_000;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// To act for sub-devices that prove that they want it.
    Bind,
    /// To act for them no more.
    Unbind,
    /// For which ones it may act.
    GetTopo,
    /// That they are connected to it.
    Online,
    /// That they are not.
    Offline,
}

impl Verb {
    /// The verb of a method of a topic's type.
    fn named(kind: &str, method: &str) -> Option<Self> {
        match (kind, method) {
            ("topo", "bind") => Some(Self::Bind),
            ("topo", "unbind") => Some(Self::Unbind),
            ("topo", "getTopo") => Some(Self::GetTopo),
            ("status", "online") => Some(Self::Online),
            ("status", "offline") => Some(Self::Offline),
            _ => None,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Unbind => "unbind",
            Self::GetTopo => "getTopo",
            Self::Online => "online",
            Self::Offline => "offline",
        }
    }

    /// `Jw-Type` of the request and its answer.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Bind | Self::Unbind | Self::GetTopo => "topo",
            Self::Online | Self::Offline => "status",
        }
    }
}

/// A request.
pub struct Request {
    /// What is asked.
    pub verb: Verb,
    /// The sub-devices that it names; none where one is no device.
    pub devices: Option<Vec<Named>>,
    msg_token: Option<String>,
    sys: Sys,
}

/// A sub-device as a request names it.
pub struct Named {
    /// Which.
    pub device: DeviceId,
    signature: String,
    signed: String,
    timestamp_s: i64,
    sign_method: Option<Method>,
}

impl Named {
    /// Whether it was signed with this secret: `P;N;random;timestamp`.
    #[must_use]
    pub fn is_signed(&self, secret: &Secret) -> bool {
        self.sign_method
            .is_some_and(|method| secret.has_signed(method, &self.signed, &self.signature))
    }

    /// What is good once: all that was signed, with whichever method.
    #[must_use]
    pub fn signed(&self) -> Signed<'_> {
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(&self.signed));
        Signed {
            device: &self.device,
            nonce: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            timestamp_s: self.timestamp_s,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    method: String,
    msg_token: Option<String>,
    sys: Option<Sys>,
    payload: Option<Payload>,
}

/// How a device wants its answer.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sys {
    no_ask: bool,
    ret_msg: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    devices: Vec<Fields>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Fields {
    #[serde(rename = "productID")]
    product_id: String,
    device_name: String,
    signature: String,
    random: Value,
    timestamp: Value,
    sign_method: String,
}

impl Request {
    /// Reads what came on a topic of this type; none if it is not to be answered here.
    #[must_use]
    pub fn read(kind: &str, payload: &[u8]) -> Option<Self> {
        let body: Body = serde_json::from_slice(payload).ok()?;
        let verb = Verb::named(kind, &body.method)?;
        let fields = body.payload.unwrap_or_default().devices;
        let devices = (fields.len() <= DEVICES_MAX)
            .then(|| fields.into_iter().map(named).collect())
            .flatten();
        Some(Self {
            verb,
            devices,
            msg_token: body.msg_token,
            sys: body.sys.unwrap_or_default(),
        })
    }

    /// The answer with these sub-devices; none if the device wants none.
    #[must_use]
    pub fn answer(&self, code: Code, devices: &[DeviceId]) -> Option<Bytes> {
        let answer = Answer {
            method: self.verb.method(),
            msg_token: self.msg_token.as_deref(),
            code,
            says_why: self.sys.ret_msg,
            each_has_code: self.verb == Verb::GetTopo,
        };
        (!self.sys.no_ask).then(|| answer.write(devices))
    }
}

fn named(fields: Fields) -> Option<Named> {
    let device = DeviceId::new(&fields.product_id, &fields.device_name).ok()?;
    let [random, timestamp] = [&fields.random, &fields.timestamp].map(scalar);
    Some(Named {
        signed: format!(
            "{};{};{random};{timestamp}",
            device.product(),
            device.name()
        ),
        device,
        signature: fields.signature,
        // What is no time is long ago.
        timestamp_s: timestamp.parse().unwrap_or(i64::MIN),
        sign_method: Method::named(&fields.sign_method),
    })
}

/// A number or text as it is signed.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the profile.
    fn bind(signature: &str, method: &str) -> String {
        format!(
            r#"{{"method":"bind","msgToken":"b1","payload":{{"devices":[{{"productID":"0S1","deviceName":"sub-7","random":48213,"timestamp":"1754000000","signMethod":"{method}","signature":"{signature}"}}]}}}}"#
        )
    }

    fn is_signed(payload: &str) -> bool {
        let secret = "ICEiIyQlJicoKSorLC0uLzAxMjM="
            .parse::<Secret>()
            .ok()
            .unwrap();
        let request = Request::read("topo", payload.as_bytes()).unwrap();
        assert_eq!(request.verb, Verb::Bind);
        let devices = request.devices.unwrap();
        assert_eq!(devices[0].device, DeviceId::new("0S1", "sub-7").unwrap());
        devices[0].is_signed(&secret)
    }

    #[test]
    fn a_signature_of_the_sub_device_is_known_and_no_other() {
        const SHA1: &str = "e5cb35a6f069483aa98867ead8b26e05ecdefd00";
        const SHA256: &str = "1ebb9dc377d2da52bd223f00663dbadbbbba4660d52063c6125ef860792b526d";
        assert!(is_signed(&bind(SHA1, "hmacsha1")));
        assert!(is_signed(&bind(SHA256, "hmacsha256")));
        for wrong in [
            bind(SHA1, "hmacsha256"),
            bind(SHA256, "hmacsha1"),
            bind(SHA256, "none"),
            bind(&SHA256.replace('1', "2"), "hmacsha256"),
            bind(&SHA256.to_uppercase(), "hmacsha256"),
            bind("", "hmacsha256"),
            bind(SHA256, "hmacsha256").replace("48213", "48214"),
            bind(SHA256, "hmacsha256").replace("48213", "[48213]"),
        ] {
            assert!(!is_signed(&wrong), "{wrong}");
        }
    }

    #[test]
    fn what_was_signed_is_told_from_other_signatures_and_not_by_how_it_is_written() {
        let signed = |payload: &str| {
            let request = Request::read("topo", payload.as_bytes()).unwrap();
            let devices = request.devices.unwrap();
            let signed = devices[0].signed();
            (signed.nonce, signed.timestamp_s)
        };
        let payload = bind("a", "hmacsha256");
        let one = signed(&payload);
        assert_eq!(one.1, 1_754_000_000);
        for same in [
            bind("b", "hmacsha1"),
            payload.replace(r#""1754000000""#, "1754000000"),
            payload.replace("48213", r#""48213""#),
        ] {
            assert_eq!(signed(&same), one, "{same}");
        }
        for other in [
            payload.replace("48213", "48214"),
            payload.replace("1754000000", "1754000001"),
            payload.replace("sub-7", "sub-8"),
        ] {
            assert_ne!(signed(&other).0, one.0, "{other}");
        }
        for no_time in [r#""""#, r#""soon""#, "1754000000.5", "1e9", "null", "[1]"] {
            let payload = payload.replace(r#""1754000000""#, no_time);
            assert_eq!(signed(&payload).1, i64::MIN, "{no_time}");
        }
    }

    #[test]
    fn what_is_for_services_or_no_request_is_passed_over() {
        for (kind, payload) in [
            ("topo", ""),
            ("topo", "[]"),
            ("topo", r#"{"method":"register"}"#),
            ("topo", r#"{"method":"online"}"#),
            ("status", r#"{"method":"bind"}"#),
            ("thing", r#"{"method":"bind"}"#),
            ("topo", r#"{"method":"bind","payload":{"devices":7}}"#),
        ] {
            assert!(
                Request::read(kind, payload.as_bytes()).is_none(),
                "{payload}"
            );
        }
    }

    #[test]
    fn names_that_no_device_can_have_name_none() {
        let read = |device: &str| {
            let payload = format!(r#"{{"method":"unbind","payload":{{"devices":[{device}]}}}}"#);
            Request::read("topo", payload.as_bytes()).unwrap().devices
        };
        assert!(read(r#"{"productID":"a","deviceName":"b"}"#).is_some());
        for device in [
            "{}",
            r#"{"productID":"a","deviceName":"+"}"#,
            r#"{"productID":"a/b","deviceName":"c"}"#,
        ] {
            assert!(read(device).is_none(), "{device}");
        }
        let many = vec![r#"{"productID":"a","deviceName":"b"}"#; DEVICES_MAX + 1];
        assert!(read(&many.join(",")).is_none());
    }

    #[test]
    fn an_answer_says_what_the_platform_says() {
        let device = DeviceId::new("0S1", "sub-7").unwrap();
        let answer = |kind, payload: &str, code| {
            let request = Request::read(kind, payload.as_bytes()).unwrap();
            let answer = request.answer(code, std::slice::from_ref(&device));
            answer.map(|answer| String::from_utf8(answer.to_vec()).unwrap())
        };
        let online = r#"{"method":"online","msgToken":"s1"}"#;
        assert_eq!(
            answer("status", online, Code::NotBound).unwrap(),
            r#"{"method":"online","msgToken":"s1","code":2000006,"payload":{"devices":[{"productID":"0S1","deviceName":"sub-7"}]}}"#
        );
        let topology = r#"{"method":"getTopo","sys":{"retMsg":true}}"#;
        assert_eq!(
            answer("topo", topology, Code::Ok).unwrap(),
            r#"{"method":"getTopo","code":200,"msg":"ok","payload":{"devices":[{"productID":"0S1","deviceName":"sub-7","code":200}]}}"#
        );
        let quiet = r#"{"method":"getTopo","sys":{"noAsk":true}}"#;
        assert_eq!(answer("topo", quiet, Code::Ok), None);
    }
}
