//! A rule's subject template: writing a subject, and reading one back.
//!
//! `{protocol}` and `{handle}` are filled in when it is loaded; what stays are literal tokens and either the identity or,
//! in the open profile, the topic's levels. A type or an id is no token of a subject: headers give those back, so that the
//! number of tokens is fixed.

use bytes::{BufMut, BytesMut};

use super::levels;
use super::pattern::LEVELS;
use super::subject::{decode_token, encode_token, is_filter};
use crate::device::DeviceId;

/// A subject as tokens: `device.up.{protocol}.{handle}.{product}.{device}`, or `mqtt.{levels...}`.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(String),
    Handle(String),
    Product,
    Device,
    /// A whole topic, one token a level; only as the last one.
    Levels,
}

/// What a subject says beside its literal tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// Whom it is about.
    Device(DeviceId),
    /// Which topic it stands for.
    Topic(String),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub(super) fn parse(text: &str, protocol: &str, handle: &str) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let mut tokens = Vec::new();
        // Its dots are no separators.
        let (text, has_levels) = match text.strip_suffix(LEVELS).map(|text| text.strip_suffix('.'))
        {
            Some(Some(text)) => (text, true),
            _ => (text, false),
        };
        for token in text.split('.') {
            match token {
                "{protocol}" => tokens.push(Token::Literal(protocol.to_owned())),
                "{handle}" => tokens.push(Token::Handle(handle.to_owned())),
                "{product}" if !has_levels => tokens.push(Token::Product),
                "{device}" if !has_levels => tokens.push(Token::Device),
                _ if token.contains(['{', '}']) => faults.push(format!(
                    "unknown capture {token}, expected one of {{protocol}}, {{handle}}, {{product}}, {{device}}"
                )),
                "*" | ">" => faults.push(format!("token {token}, expected no wildcard")),
                _ if is_filter(token) => tokens.push(Token::Literal(token.to_owned())),
                _ => faults.push(format!("token {token:?}, expected one token of a NATS subject")),
            }
        }
        if has_levels {
            tokens.push(Token::Levels);
        } else {
            check_identity(&tokens, &mut faults);
        }
        if faults.is_empty() {
            Ok(Self(tokens))
        } else {
            Err(faults)
        }
    }

    /// Whether it takes a whole topic instead of an identity.
    pub(super) fn has_levels(&self) -> bool {
        self.0.last() == Some(&Token::Levels)
    }

    /// Appends the subject of a device, or of a topic if it takes that.
    pub(super) fn write(&self, id: &DeviceId, topic: &str, out: &mut BytesMut) {
        for (at, token) in self.0.iter().enumerate() {
            if at > 0 {
                out.put_u8(b'.');
            }
            match token {
                Token::Literal(literal) | Token::Handle(literal) => {
                    out.put_slice(literal.as_bytes());
                }
                Token::Product => encode_token(id.product(), out),
                Token::Device => encode_token(id.name(), out),
                Token::Levels => levels::write(topic, out),
            }
        }
    }

    /// Whose subject this is, or of which topic; none if it is not of this template.
    pub(super) fn read(&self, subject: &str) -> Option<Named> {
        let mut rest = Some(subject);
        let mut next = || {
            let (token, behind) = match rest?.split_once('.') {
                Some((token, behind)) => (token, Some(behind)),
                None => (rest?, None),
            };
            Some((std::mem::replace(&mut rest, behind)?, token))
        };
        let (mut product, mut name) = (None, None);
        for token in &self.0 {
            let (left, found) = next()?;
            match token {
                Token::Literal(literal) | Token::Handle(literal) => {
                    (literal == found).then_some(())?;
                }
                Token::Product => product = Some(decode_token(found)?),
                Token::Device => name = Some(decode_token(found)?),
                Token::Levels => return levels::read(left).map(Named::Topic),
            }
        }
        next().is_none().then_some(())?;
        DeviceId::new(&product?, &name?).ok().map(Named::Device)
    }

    /// The filter of all its subjects.
    pub(super) fn filter(&self) -> String {
        self.filter_with(|handle| handle)
    }

    /// The filter of all its subjects and those that differ in the handle alone.
    pub(super) fn filter_of_all_handles(&self) -> String {
        self.filter_with(|_| "*")
    }

    fn filter_with<'t>(&'t self, handle: impl Fn(&'t str) -> &'t str) -> String {
        let tokens = self.0.iter().map(|token| match token {
            Token::Literal(literal) => literal.as_str(),
            Token::Handle(name) => handle(name),
            Token::Product | Token::Device => "*",
            Token::Levels => ">",
        });
        tokens.collect::<Vec<_>>().join(".")
    }
}

fn check_identity(tokens: &[Token], faults: &mut Vec<String>) {
    for (capture, name) in [(Token::Product, "{product}"), (Token::Device, "{device}")] {
        match tokens.iter().filter(|token| **token == capture).count() {
            1 => {}
            0 => faults.push(format!("no {name}, expected it: no header gives it back")),
            _ => faults.push(format!("{name} twice, expected it once")),
        }
    }
}
