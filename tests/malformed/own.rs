//! What a case's PUBLISH needs to be its device's own, in bytes: nothing here minds what is wrong with them.

use crate::support::packet::variable_byte_integer;

/// The same PUBLISH on a topic that its device owns, so that the fault alone can keep it out of the stream: levels are put
/// before and behind the topic, whatever it is. Bytes that have no topic are left as they are.
pub(crate) fn publish(publish: &[u8], product: &str, name: &str) -> Vec<u8> {
    let Some((remaining, body)) = split(publish).filter(|_| publish[0] >> 4 == 3) else {
        return publish.to_vec();
    };
    let Some((topic, rest)) = split_string(body).filter(|(topic, _)| !topic.is_empty()) else {
        return publish.to_vec();
    };
    let behind = format!("/{product}/{name}");
    let owned = [b"$thing/up/property/", topic, behind.as_bytes()].concat();
    // True or not, as before.
    let remaining = remaining + owned.len() - topic.len();
    [
        &publish[..1],
        &variable_byte_integer(remaining),
        &u16::try_from(owned.len()).unwrap().to_be_bytes(),
        &owned,
        rest,
    ]
    .concat()
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
