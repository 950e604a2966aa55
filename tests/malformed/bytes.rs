//! Packets written by hand, so that what is tested does not make its own test.

use crate::support::{Credentials, Protocol};

/// The CONNECT of a device that is let in: clean, keep alive of a minute.
pub(crate) fn connect(protocol: Protocol, who: &Credentials) -> Vec<u8> {
    connect_with(protocol, who, &[])
}

/// The same with these properties, at most 127 bytes; 3.1.1 has none.
pub(crate) fn connect_with(protocol: Protocol, who: &Credentials, properties: &[u8]) -> Vec<u8> {
    let mut body = string(b"MQTT");
    match protocol {
        Protocol::V311 => body.extend([4, 0xc2, 0, 60]),
        Protocol::V5 => {
            body.extend([5, 0xc2, 0, 60]);
            body.push(u8::try_from(properties.len()).unwrap());
            body.extend(properties);
        }
    }
    for text in [&who.client_id, &who.username, &who.password] {
        body.extend(string(text.as_bytes()));
    }
    packet(0x10, body.len(), &body)
}

/// A PUBLISH with QoS 1.
pub(crate) fn publish(protocol: Protocol, topic: &str, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = string(topic.as_bytes());
    body.extend(packet_id.to_be_bytes());
    if protocol == Protocol::V5 {
        body.push(0);
    }
    body.extend(payload);
    packet(0x32, body.len(), &body)
}

/// The same PUBLISH on a topic that its device owns, so that the fault alone can keep it out of the stream: levels are put
/// before and behind the topic, whatever it is. Bytes that have no topic are left as they are.
pub(crate) fn own(publish: &[u8], product: &str, name: &str) -> Vec<u8> {
    let Some((remaining, body)) = split(publish).filter(|_| publish[0] >> 4 == 3) else {
        return publish.to_vec();
    };
    let Some((topic, rest)) = split_string(body).filter(|(topic, _)| !topic.is_empty()) else {
        return publish.to_vec();
    };
    let mut owned = b"$thing/up/property/".to_vec();
    owned.extend(topic);
    owned.extend(format!("/{product}/{name}").as_bytes());
    let remaining = remaining + owned.len() - topic.len();
    let mut body = string(&owned);
    body.extend(rest);
    packet(publish[0], remaining, &body)
}

/// The topic of a PUBLISH, which must have one.
pub(crate) fn topic(publish: &[u8]) -> String {
    let (_, body) = split(publish).unwrap();
    let (topic, _) = split_string(body).unwrap();
    String::from_utf8(topic.to_vec()).unwrap()
}

/// Remaining Length, and the bytes behind it.
fn split(packet: &[u8]) -> Option<(usize, &[u8])> {
    let mut remaining = 0;
    for (at, byte) in packet.get(1..5)?.iter().enumerate() {
        remaining |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((remaining, &packet[at + 2..]));
        }
    }
    None
}

fn split_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

/// `remaining` is the Remaining Length to write, true or not.
fn packet(first: u8, remaining: usize, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut rest = remaining;
    loop {
        let more = if rest > 0x7f { 0x80 } else { 0 };
        packet.push(u8::try_from(rest & 0x7f).unwrap() | more);
        rest >>= 7;
        if rest == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}
