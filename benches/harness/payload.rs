//! What messages carry: which one of its device it is, so that the stream can be compared with what was acknowledged.
//!
//! `<counter>.<filling>`; in the JSON of a fleet `"msgToken":"<counter>"`.

use bytes::Bytes;

/// Payload number `counter`, from 1, filled up to this length where it is shorter.
pub(crate) fn numbered(counter: u64, bytes: usize) -> Bytes {
    let mut text = format!("{counter}.").into_bytes();
    text.resize(text.len().max(bytes), b'x');
    text.into()
}

/// Which one it is; none for a payload of somebody else.
pub(crate) fn counter(payload: &[u8]) -> Option<u64> {
    const TOKEN: &[u8] = b"\"msgToken\":\"";
    let begin = match payload.first()? {
        b'{' => {
            payload
                .windows(TOKEN.len())
                .position(|text| text == TOKEN)?
                + TOKEN.len()
        }
        _ => 0,
    };
    let digits = payload.get(begin..)?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_which_one_it_is() {
        for bytes in [0, 3, 256] {
            let payload = numbered(70_123, bytes);
            assert_eq!(counter(&payload), Some(70_123));
            assert_eq!(payload.len(), bytes.max(6));
        }
        assert_eq!(
            counter(br#"{"method":"report","msgToken":"12","params":{}}"#),
            Some(12)
        );
        for other in [&b""[..], b"x.", b"{}", b"12", br#"{"msgToken":"12"#] {
            assert_eq!(counter(other), None);
        }
    }
}
