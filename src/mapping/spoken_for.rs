//! For which sub-devices a gateway device spoke in a pack report: what the gateway knew when it took the message, written down with it.
//!
//! Who reads the stream later has no other way to know: a binding may have ended since. Names of devices that are not bound stay out.
//!
//! A product's rules are about topics, and a pack report has only its gateway device's: what it says for a sub-device they do not hold.

use std::collections::HashSet;

use serde::Deserialize;

use super::header::{self, SUB_DEVICES};
use super::rules::Mapping;
use super::subject::decode_token;
use super::uplink::Uplink;
use crate::device::DeviceId;
use crate::message::Headers;

/// Only a payload with this text is read.
const FIELD: &[u8] = b"\"subDevices\"";

/// A pack report, as far as it names sub-devices.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pack {
    sub_devices: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    #[serde(rename = "productID")]
    product_id: String,
    device_name: String,
}

impl Uplink {
    /// Adds the header `Jw-Sub-Devices` with those that `payload` names of the sub-devices which its gateway device may act for, as
    /// far as there is room. What cannot be read names none.
    pub fn speak_for(&mut self, sub_devices: &[DeviceId], payload: &[u8]) {
        if !payload.windows(FIELD.len()).any(|text| text == FIELD) {
            return;
        }
        let pack = serde_json::from_slice::<Pack>(payload).unwrap_or_default();
        let bound: HashSet<&DeviceId> = sub_devices.iter().collect();
        let room = header::BYTES_MAX.saturating_sub(self.message.headers.wire_bytes());
        let mut text = String::new();
        for named in pack.sub_devices {
            let Ok(device) = DeviceId::new(&named.product_id, &named.device_name) else {
                continue;
            };
            let tokens = Mapping::device_tokens(&device);
            // Name, colon, space and line end beside it.
            let bytes = SUB_DEVICES.len() + text.len() + tokens.len() + 5;
            if bound.contains(&device) && bytes <= room {
                let between = if text.is_empty() { "" } else { " " };
                text.extend([between, &tokens]);
            }
        }
        if !text.is_empty() {
            self.message.headers.push(SUB_DEVICES, text);
        }
    }
}

/// The sub-devices that [`Uplink::speak_for`] wrote down.
pub(super) fn read(headers: &Headers) -> Vec<DeviceId> {
    let tokens = headers.get(SUB_DEVICES).unwrap_or_default().split(' ');
    let device = |tokens: &str| {
        let (product, name) = tokens.split_once('.')?;
        DeviceId::new(&decode_token(product)?, &decode_token(name)?).ok()
    };
    tokens.filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn spoken_for(bound: &[DeviceId], payload: &str) -> Vec<DeviceId> {
        let mut uplink = Uplink {
            message: Message {
                subject: "s".into(),
                headers: Headers::default(),
                payload: payload.to_owned().into(),
            },
            live: None,
            retained: None,
        };
        uplink.speak_for(bound, payload.as_bytes());
        assert!(uplink.message.headers.wire_bytes() <= header::BYTES_MAX);
        read(&uplink.message.headers)
    }

    fn pack(devices: &[DeviceId]) -> String {
        let named = devices.iter().map(|device| {
            serde_json::json!({
                "productID": device.product(), "deviceName": device.name(),
                "properties": [{ "params": { "deviceName": "other" } }],
            })
        });
        let named: Vec<_> = named.collect();
        serde_json::json!({ "method": "packReport", "subDevices": named }).to_string()
    }

    #[test]
    fn those_that_are_bound_and_named_are_written_down_whatever_they_are_called() {
        let id = |product, name| DeviceId::new(product, name).unwrap();
        let bound = [id("P.1", "a b"), id("P", "*>%&é"), id("P", "silent")];
        let named = [bound[0].clone(), id("P", "foreign"), bound[1].clone()];
        let expected = [bound[0].clone(), bound[1].clone()];
        assert_eq!(spoken_for(&bound, &pack(&named)), expected);
        for payload in [
            "",
            "\"subDevices\"",
            "{\"subDevices\":7}",
            "{\"subDevices\":[{}]}",
        ] {
            assert_eq!(spoken_for(&bound, payload), [], "{payload}");
        }
    }

    #[test]
    fn more_than_headers_have_room_for_are_left_out() {
        let name = "n".repeat(100);
        let devices = (0..1_000).map(|number| DeviceId::new("P", &format!("{name}{number}")));
        let devices: Vec<_> = devices.map(Result::unwrap).collect();
        let found = spoken_for(&devices, &pack(&devices));
        assert!((500..1_000).contains(&found.len()), "{}", found.len());
        assert_eq!(found, devices[..found.len()]);
    }
}
