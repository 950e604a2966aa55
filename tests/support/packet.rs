//! MQTT packets as bytes, written out field by field: for [`Wire`](super::Wire), and independent of every codec in use.

use super::device::{Credentials, Protocol};

/// PINGREQ
pub const PINGREQ: [u8; 2] = [0xC0, 0x00];
/// PINGRESP
pub const PINGRESP: [u8; 2] = [0xD0, 0x00];
/// DISCONNECT without a reason, which is a normal one in both versions.
pub const DISCONNECT: [u8; 2] = [0xE0, 0x00];

/// CONNECT of a device, with clean session (clean start).
pub fn connect(protocol: Protocol, who: &Credentials, keep_alive: u16) -> Vec<u8> {
    connect_with_properties(protocol, who, keep_alive, &[])
}

/// [`connect`] with these properties (MQTT 5), as bytes without their length.
pub fn connect_with_properties(
    protocol: Protocol,
    who: &Credentials,
    keep_alive: u16,
    properties: &[u8],
) -> Vec<u8> {
    const USERNAME_PASSWORD_CLEAN: u8 = 0xC2;
    let level = match protocol {
        Protocol::V311 => 4,
        Protocol::V5 => 5,
    };
    let mut body = string("MQTT");
    body.extend([level, USERNAME_PASSWORD_CLEAN]);
    body.extend(keep_alive.to_be_bytes());
    body.extend(properties_of(protocol, properties));
    for text in [&who.client_id, &who.username, &who.password] {
        body.extend(string(text));
    }
    packet(0x10, &body)
}

/// PUBLISH, with QoS 1 where it has a Packet Identifier.
pub fn publish(protocol: Protocol, topic: &str, packet_id: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut body = string(topic);
    body.extend(packet_id.into_iter().flat_map(u16::to_be_bytes));
    body.extend(properties_of(protocol, &[]));
    body.extend(payload);
    let qos_1 = u8::from(packet_id.is_some()) << 1;
    packet(0x30 | qos_1, &body)
}

/// SUBSCRIBE to filters, each with its QoS.
pub fn subscribe(protocol: Protocol, packet_id: u16, filters: &[(&str, u8)]) -> Vec<u8> {
    let mut body = packet_id.to_be_bytes().to_vec();
    body.extend(properties_of(protocol, &[]));
    for (filter, qos) in filters {
        body.extend(string(filter));
        body.push(*qos);
    }
    packet(0x82, &body)
}

/// AUTH with a reason and, where they are, the Authentication Method and data.
pub fn auth(reason: u8, method: Option<&str>, data: Option<&str>) -> Vec<u8> {
    let properties = authentication(method, data);
    let length = variable_byte_integer(properties.len());
    packet(0xF0, &[&[reason][..], &length, &properties].concat())
}

/// The properties Authentication Method and Authentication Data.
pub fn authentication(method: Option<&str>, data: Option<&str>) -> Vec<u8> {
    let property = |identifier: u8, text: &str| [&[identifier][..], &string(text)].concat();
    let method = method.map(|method| property(0x15, method));
    let data = data.map(|data| property(0x16, data));
    method.into_iter().chain(data).flatten().collect()
}

/// A packet: type and flags, Remaining Length, the rest.
pub fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    packet.extend(variable_byte_integer(body.len()));
    packet.extend(body);
    packet
}

/// Text with its length in two bytes.
pub fn string(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

/// Seven bits a byte, the lowest first.
pub fn variable_byte_integer(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7F).unwrap();
        value >>= 7;
        bytes.push(low | u8::from(value > 0) << 7);
        if value == 0 {
            return bytes;
        }
    }
}

fn properties_of(protocol: Protocol, properties: &[u8]) -> Vec<u8> {
    match protocol {
        Protocol::V311 => Vec::new(),
        Protocol::V5 => [&variable_byte_integer(properties.len()), properties].concat(),
    }
}

/// The DISCONNECT of MQTT 5 by which the gateway ends a connection: the code and, as Reason String, its words.
pub fn disconnect(code: u8) -> Vec<u8> {
    let words = match code {
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x87 => "not authorized",
        0x89 => "server busy",
        0x8B => "server shutting down",
        0x8D => "keep alive timeout",
        0x8E => "session taken over",
        0x93 => "receive maximum exceeded",
        0x94 => "topic alias invalid",
        0x95 => "packet too large",
        0x9A => "retain not supported",
        0x9B => "QoS not supported",
        _ => panic!("DISCONNECT {code:#x}"),
    };
    let reason_string = [&[0x1F][..], &string(words)].concat();
    let length = u8::try_from(reason_string.len()).unwrap();
    packet(0xE0, &[&[code, length], &reason_string[..]].concat())
}
