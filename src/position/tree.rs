//! A JSON value that is taken apart only where someone looks, each part once.
//!
//! Numbers stay the text that the device wrote until they are read, so that none loses a digit on the way.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::value::RawValue;

use crate::event::{Members, NUMBER_BYTES_MAX};
use crate::thing::request::string;

/// A value of a document that is safe to read.
#[derive(Debug)]
pub(super) struct Value<'a> {
    raw: &'a RawValue,
    inside: OnceCell<Inside<'a>>,
}

#[derive(Debug)]
enum Inside<'a> {
    Nothing,
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
    Array(Vec<Value<'a>>),
}

/// What a value is as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// `null` or an empty text: the device has none.
    Null,
    /// Finite.
    Is(f64),
    /// Something else.
    Not,
}

impl<'a> Value<'a> {
    pub(super) const fn new(raw: &'a RawValue) -> Self {
        Self {
            raw,
            inside: OnceCell::new(),
        }
    }

    fn inside(&self) -> &Inside<'a> {
        self.inside.get_or_init(|| {
            let text = self.raw.get();
            match text.as_bytes().first() {
                Some(b'{') => serde_json::from_str(text).map_or(Inside::Nothing, |members| {
                    let Members(members) = members;
                    let values = members.into_iter();
                    Inside::Object(values.map(|(name, raw)| (name, Self::new(raw))).collect())
                }),
                Some(b'[') => serde_json::from_str(text).map_or(Inside::Nothing, |items| {
                    let items: Vec<&'a RawValue> = items;
                    Inside::Array(items.into_iter().map(Self::new).collect())
                }),
                _ => Inside::Nothing,
            }
        })
    }

    /// The members of an object, in its order; none of another value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = match self.inside() {
            Inside::Object(members) => &**members,
            Inside::Nothing | Inside::Array(_) => &[],
        };
        members.iter().map(|(name, value)| (&**name, value))
    }

    /// The value that a JSON pointer's tokens lead to.
    pub(super) fn at(&self, tokens: &[String]) -> Option<&Self> {
        tokens
            .iter()
            .try_fold(self, |value, token| match value.inside() {
                Inside::Nothing => None,
                Inside::Object(members) => {
                    let mut members = members.iter();
                    members
                        .find(|(name, _)| name == token)
                        .map(|(_, value)| value)
                }
                Inside::Array(items) => items.get(token.parse::<usize>().ok()?),
            })
    }

    /// The value's text if it is a string.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        string(self.raw)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.raw.get(), "null" | "\"\"")
    }

    /// The text as the document has it.
    pub(super) const fn raw(&self) -> &'a RawValue {
        self.raw
    }

    /// The value as a number; a string that is one counts.
    pub(super) fn number(&self) -> Number {
        if self.is_null() {
            return Number::Null;
        }
        let text = self.text();
        let text = text.as_deref().unwrap_or_else(|| self.raw.get()).trim();
        decimal(text).map_or(Number::Not, Number::Is)
    }
}

/// A finite number in decimal digits, to the nearest that there is: `-12`, `12.5`, `+1.25e1`. No `inf`, `nan` or other words.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let is_written = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if text.len() > NUMBER_BYTES_MAX || !text.bytes().all(is_written) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
