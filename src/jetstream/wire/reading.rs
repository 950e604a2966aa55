//! What comes from the server: frames off a buffer. Pure.
//!
//! Invariants: a buffer is changed only by a whole frame; a server that does not speak the protocol gives an error and no more.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use bytestring::ByteString;

use super::Answer;

/// Longer than any line of a server: an INFO that lists a large cluster.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Longer than any answer.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
const LINE_END: &[u8] = b"\r\n";
const NO_RESPONDERS: &[u8] = b"NATS/1.0 503";

/// One thing that a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Message(Answer),
    Ping,
    Pong,
    Ok,
    Info(Box<Info>),
    Error(String),
}

/// What of INFO matters here.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub(super) struct Info {
    pub(super) max_payload: Option<usize>,
    #[serde(default)]
    pub(super) nonce: String,
    #[serde(default)]
    pub(super) tls_required: bool,
    /// Servers of the cluster, with this one.
    #[serde(default)]
    pub(super) connect_urls: Vec<String>,
    #[serde(default, rename = "ldm")]
    pub(super) lame_duck_mode: bool,
}

/// Takes frames off a buffer.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Bytes of the buffer that are known to have no line end.
    searched: usize,
}

impl Reading {
    /// The next frame; none before all of it is there.
    ///
    /// # Errors
    /// `InvalidData`: what came is not the protocol.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        let Some(line_bytes) = self.line(buffer)? else {
            return Ok(None);
        };
        let line = buffer.get(..line_bytes).unwrap_or_default();
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            None => (line, Default::default()),
            Some(at) => {
                let (word, rest) = line.split_at(at);
                (word, rest.get(1..).unwrap_or_default())
            }
        };
        let frame = if word.eq_ignore_ascii_case(b"MSG") {
            return self.message(buffer, line_bytes, Form::Plain);
        } else if word.eq_ignore_ascii_case(b"HMSG") {
            return self.message(buffer, line_bytes, Form::Headers);
        } else if word.eq_ignore_ascii_case(b"PING") {
            Frame::Ping
        } else if word.eq_ignore_ascii_case(b"PONG") {
            Frame::Pong
        } else if word.eq_ignore_ascii_case(b"+OK") {
            Frame::Ok
        } else if word.eq_ignore_ascii_case(b"INFO") {
            Frame::Info(Box::new(serde_json::from_slice(rest).map_err(invalid)?))
        } else if word.eq_ignore_ascii_case(b"-ERR") {
            let words = String::from_utf8_lossy(rest);
            Frame::Error(words.trim_matches(['\'', ' ']).to_owned())
        } else {
            return Err(invalid("expected a word of the NATS protocol"));
        };
        self.take(buffer, line_bytes + LINE_END.len());
        Ok(Some(frame))
    }

    /// How long the first line is, without its end.
    fn line(&mut self, buffer: &BytesMut) -> io::Result<Option<usize>> {
        let unsearched = buffer.get(self.searched..).unwrap_or_default();
        let found = unsearched
            .windows(LINE_END.len())
            .position(|pair| pair == LINE_END);
        match found {
            Some(at) => Ok(Some(self.searched + at)),
            None if buffer.len() > LINE_BYTES_MAX => Err(invalid("expected a line to end")),
            None => {
                // The last byte may be the first of a line end.
                self.searched = buffer.len().saturating_sub(1);
                Ok(None)
            }
        }
    }

    /// `MSG subject sid [reply] bytes`, or `HMSG subject sid [reply] header-bytes bytes`, and then the bytes.
    fn message(
        &mut self,
        buffer: &mut BytesMut,
        line_bytes: usize,
        form: Form,
    ) -> io::Result<Option<Frame>> {
        self.searched = line_bytes;
        let line = buffer.get(..line_bytes).unwrap_or_default();
        let line = str::from_utf8(line).map_err(invalid)?;
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |text: Option<&&str>| text.and_then(|text| text.parse::<usize>().ok());
        let bytes = number(fields.last());
        let headers_bytes = match form {
            Form::Plain => Some(0),
            Form::Headers => number(fields.iter().rev().nth(1)),
        };
        let subject_bytes = fields.get(1).map(|subject| subject.len());
        let sizes = bytes.zip(headers_bytes).zip(subject_bytes);
        let Some(((bytes, headers_bytes), subject_bytes)) =
            sizes.filter(|((all, headers), _)| headers <= all && *all <= MESSAGE_BYTES_MAX)
        else {
            return Err(invalid("expected a message with its size"));
        };
        let whole = line_bytes + LINE_END.len() + bytes + LINE_END.len();
        if buffer.len() < whole {
            return Ok(None);
        }
        let word_bytes = fields.first().map_or(0, |word| word.len()) + 1;
        self.searched = 0;
        let mut frame: Bytes = buffer.split_to(whole).freeze();
        let subject = frame.slice(word_bytes..word_bytes + subject_bytes);
        let subject = ByteString::try_from(subject).map_err(invalid)?;
        frame.advance(line_bytes + LINE_END.len());
        frame.truncate(bytes);
        let headers = frame.split_to(headers_bytes);
        Ok(Some(Frame::Message(Answer {
            subject,
            no_responders: headers.starts_with(NO_RESPONDERS),
            payload: frame,
        })))
    }

    fn take(&mut self, buffer: &mut BytesMut, bytes: usize) {
        buffer.advance(bytes);
        self.searched = 0;
    }
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    Headers,
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
