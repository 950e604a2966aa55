//! WebSocket frames (RFC 6455 §5) to bytes and back, without I/O.
//!
//! Frames of clients are masked; ours are not. Data frames other than binary ones end the connection, and so does everything
//! that the RFC forbids a client. Whatever length a frame announces, nothing is reserved for it.

/// Why reading has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The peer sent Close.
    Closed,
    /// The peer broke a rule; the status code says which kind (RFC 6455 §7.4.1).
    Fault(u16),
}

/// Normal closure.
pub(super) const CLOSE_NORMAL: u16 = 1000;
const CLOSE_PROTOCOL_ERROR: u16 = 1002;
const CLOSE_UNSUPPORTED_DATA: u16 = 1003;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const MASK_BYTES: usize = 4;
/// Most bytes in a control frame.
const CONTROL_BYTES_MAX: u64 = 125;
/// Two bytes, a length of eight, the mask.
const HEADER_BYTES_MAX: usize = 14;

/// Takes frames of a client apart, wherever the reads happen to split them.
#[derive(Debug, Default)]
pub(super) struct Deframer {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    opcode: u8,
    /// Bytes of the frame that have not come yet.
    payload_left: u64,
    /// Turned, so that its first byte is that of the next payload byte.
    mask: [u8; MASK_BYTES],
    /// A message whose last frame has not come.
    in_message: bool,
    /// The payload of a ping that is being read.
    control: Vec<u8>,
    /// The last whole ping, to be answered.
    pub(super) ping: Option<Vec<u8>>,
    /// Set once; nothing is taken after it.
    pub(super) end: Option<End>,
}

impl Deframer {
    /// Moves the payload of all data frames in `bytes` to its front and returns how much that is.
    pub(super) fn deframe(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, mut kept) = (0, 0);
        while self.end.is_none() && at < bytes.len() {
            if self.payload_left == 0 {
                at += self.take_header(bytes.get(at..).unwrap_or_default());
                continue;
            }
            let left = usize::try_from(self.payload_left).unwrap_or(usize::MAX);
            let until = bytes.len().min(at.saturating_add(left));
            let chunk = bytes.get_mut(at..until).unwrap_or_default();
            self.unmask(chunk);
            match self.opcode {
                PING => self.control.extend_from_slice(chunk),
                CLOSE | PONG => {}
                _ => {
                    bytes.copy_within(at..until, kept);
                    kept += until - at;
                }
            }
            self.payload_left -= (until - at) as u64;
            at = until;
            if self.payload_left == 0 {
                self.end_frame();
            }
        }
        kept
    }

    /// Collects a header; how many bytes of it were here.
    fn take_header(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        for byte in bytes {
            if let Some(place) = self.header.get_mut(self.header_bytes) {
                *place = *byte;
            }
            self.header_bytes += 1;
            taken += 1;
            if self.header_bytes == self.header_bytes_expected() {
                self.header_bytes = 0;
                if let Err(code) = self.begin_frame() {
                    self.end = Some(End::Fault(code));
                } else if self.payload_left == 0 {
                    self.end_frame();
                }
                break;
            }
        }
        taken
    }

    fn header_bytes_expected(&self) -> usize {
        let length = match (self.header_bytes, self.header[1] & !MASKED) {
            (0..2, _) => return 2 + MASK_BYTES,
            (_, 126) => 2,
            (_, 127) => 8,
            _ => 0,
        };
        2 + length + MASK_BYTES
    }

    /// Reads a whole header.
    fn begin_frame(&mut self) -> Result<(), u16> {
        let [first, second, rest @ ..] = self.header;
        let (is_last, opcode) = (first & FIN != 0, first & 0x0F);
        let (length, mask) = payload_length(second, &rest).ok_or(CLOSE_PROTOCOL_ERROR)?;
        if first & 0x70 != 0 || second & MASKED == 0 {
            return Err(CLOSE_PROTOCOL_ERROR);
        }
        match opcode {
            CONTINUATION if self.in_message => self.in_message = !is_last,
            BINARY if !self.in_message => self.in_message = !is_last,
            TEXT => return Err(CLOSE_UNSUPPORTED_DATA), // [MQTT-6.0.0-1]
            CLOSE | PING | PONG if is_last && length <= CONTROL_BYTES_MAX => {}
            _ => return Err(CLOSE_PROTOCOL_ERROR),
        }
        (self.opcode, self.payload_left, self.mask) = (opcode, length, mask);
        Ok(())
    }

    fn end_frame(&mut self) {
        match self.opcode {
            PING => self.ping = Some(std::mem::take(&mut self.control)),
            CLOSE => self.end = Some(End::Closed),
            _ => {}
        }
    }

    fn unmask(&mut self, bytes: &mut [u8]) {
        let count = bytes.len();
        let key = u32::from_ne_bytes(self.mask);
        let (words, rest) = bytes.as_chunks_mut();
        for word in words {
            *word = (u32::from_ne_bytes(*word) ^ key).to_ne_bytes();
        }
        for (byte, key) in rest.iter_mut().zip(self.mask) {
            *byte ^= key;
        }
        self.mask.rotate_left(count % MASK_BYTES);
    }
}

/// The payload's length, if it is written in as few bytes as it can be, and the mask behind it.
fn payload_length(
    second: u8,
    rest: &[u8; HEADER_BYTES_MAX - 2],
) -> Option<(u64, [u8; MASK_BYTES])> {
    let (length, minimum, mask) = match second & !MASKED {
        126 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u16::from_be_bytes(*length).into(), 126, rest)
        }
        127 => {
            let (length, rest) = rest.split_first_chunk()?;
            (u64::from_be_bytes(*length), 0x1_0000, rest)
        }
        length => (u64::from(length), 0, rest.as_slice()),
    };
    // The highest bit of eight must be 0.
    let is_valid = length >= minimum && length <= i64::MAX.unsigned_abs();
    is_valid.then_some((length, *mask.first_chunk()?))
}

/// The header of a binary frame that holds so many bytes.
pub(super) fn binary_header(length: usize, into: &mut Vec<u8>) {
    into.push(FIN | BINARY);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..=125), _) => into.push(length),
        (_, Ok(length)) => {
            into.push(126);
            into.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            into.push(127);
            into.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// The answer to a ping, with the ping's payload.
pub(super) fn pong(payload: &[u8], into: &mut Vec<u8>) {
    into.push(FIN | PONG);
    into.push(u8::try_from(payload.len()).expect("a ping's payload is at most 125 bytes"));
    into.extend_from_slice(payload);
}

/// A Close with a status code.
pub(super) fn close(code: u16, into: &mut Vec<u8>) {
    into.extend_from_slice(&[FIN | CLOSE, 2]);
    into.extend_from_slice(&code.to_be_bytes());
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
