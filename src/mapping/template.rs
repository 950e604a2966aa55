//! A rule's subject template: writing a subject, and reading one back.
//!
//! `{protocol}` and `{handle}` are filled in when it is loaded; what stays are literal tokens and the identity. A type or
//! an id is no token of a subject: headers give those back, so that the number of tokens is fixed.

use bytes::{BufMut, BytesMut};

use super::subject::{decode_token, encode_token, is_filter};
use crate::device::DeviceId;

/// A subject as tokens: `device.up.{protocol}.{handle}.{product}.{device}`.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(String),
    Product,
    Device,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub(super) fn parse(text: &str, protocol: &str, handle: &str) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut tokens = Vec::new();
        for token in text.split('.') {
            match token {
                "{protocol}" => tokens.push(Token::Literal(protocol.to_owned())),
                "{handle}" => tokens.push(Token::Literal(handle.to_owned())),
                "{product}" => tokens.push(Token::Product),
                "{device}" => tokens.push(Token::Device),
                _ if token.contains(['{', '}']) => faults.push(format!(
                    "unknown capture {token}, expected one of {{protocol}}, {{handle}}, {{product}}, {{device}}"
                )),
                "*" | ">" => faults.push(format!("token {token}, expected no wildcard")),
                _ if is_filter(token) => tokens.push(Token::Literal(token.to_owned())),
                _ => faults.push(format!("token {token:?}, expected one token of a NATS subject")),
            }
        }
        for (capture, name) in [(Token::Product, "{product}"), (Token::Device, "{device}")] {
            match tokens.iter().filter(|token| **token == capture).count() {
                1 => {}
                0 => faults.push(format!("no {name}, expected it: no header gives it back")),
                _ => faults.push(format!("{name} twice, expected it once")),
            }
        }
        if faults.is_empty() {
            Ok(Self(tokens))
        } else {
            Err(faults)
        }
    }

    /// Appends the subject of a device.
    pub(super) fn write(&self, id: &DeviceId, out: &mut BytesMut) {
        for (at, token) in self.0.iter().enumerate() {
            if at > 0 {
                out.put_u8(b'.');
            }
            match token {
                Token::Literal(literal) => out.put_slice(literal.as_bytes()),
                Token::Product => encode_token(id.product(), out),
                Token::Device => encode_token(id.name(), out),
            }
        }
    }

    /// Whose subject this is; none if it is not of this template.
    pub(super) fn read(&self, subject: &str) -> Option<DeviceId> {
        let mut tokens = subject.split('.');
        let (mut product, mut name) = (None, None);
        for token in &self.0 {
            let found = tokens.next()?;
            match token {
                Token::Literal(literal) => (literal == found).then_some(())?,
                Token::Product => product = Some(decode_token(found)?),
                Token::Device => name = Some(decode_token(found)?),
            }
        }
        tokens.next().is_none().then_some(())?;
        DeviceId::new(&product?, &name?).ok()
    }

    /// The filter of all its subjects.
    pub(super) fn filter(&self) -> String {
        let tokens = self.0.iter().map(|token| match token {
            Token::Literal(literal) => literal.as_str(),
            Token::Product | Token::Device => "*",
        });
        tokens.collect::<Vec<_>>().join(".")
    }
}
