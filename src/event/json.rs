//! JSON of strangers: one walk over a document tells whether it is safe to read, and where it is not.
//!
//! The walk keeps nothing but the path to where it is and the names of the objects that are open, so it takes linear time and
//! little memory. What passes has one meaning for every reader: no name twice, no deeper than is said, no number that
//! a reader could choke on. Values are handed on as the text that they are, so that nobody's digits change.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::{Fault, descend, reason};

/// How many arrays and objects of a device may stand in one another. Some more may in an event: it has what a device wrote in it.
pub const DEPTH_MAX: usize = 64;
/// How many bytes a number may have.
pub const NUMBER_BYTES_MAX: usize = 64;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Up to so many names of an object are compared one by one; more are hashed.
const FEW_NAMES: usize = 16;

/// The text of a document that is safe to read and nested no deeper than `depth_max`, which is below serde_json's own limit, 128.
///
/// # Errors
/// What is wrong first, and where.
pub(crate) fn check(document: &[u8], depth_max: usize) -> Result<&str, Fault> {
    if document.starts_with(BYTE_ORDER_MARK) {
        return Err(Fault::new(
            reason::ENCODING,
            "",
            "expected JSON, found a byte order mark",
        ));
    }
    let text = str::from_utf8(document).map_err(|error| {
        let valid = document.get(..error.valid_up_to()).unwrap_or_default();
        let path = path_at_end(str::from_utf8(valid).unwrap_or_default(), depth_max);
        Fault::new(reason::ENCODING, path, format!("expected UTF-8, {error}"))
    })?;
    let mut walk = Walk::new(depth_max);
    let walked = walk.document(text);
    if let Some((reason, rule)) = walk.broken.take() {
        return Err(Fault::new(reason, walk.pointer(), rule));
    }
    if let Some(at) = long_number(text) {
        let path = path_at_end(text.get(..at).unwrap_or_default(), depth_max);
        let rule = format!("expected a number of at most {NUMBER_BYTES_MAX} characters");
        return Err(Fault::new(reason::NUMBER, path, rule));
    }
    match walked {
        Ok(()) => Ok(text),
        Err(error) => {
            let rule = format!("expected JSON, {error}");
            Err(Fault::new(reason::MALFORMED, walk.pointer(), rule))
        }
    }
}

/// Whether a value that [`check`] has passed is an object.
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Where the first number that is too long begins.
fn long_number(text: &str) -> Option<usize> {
    let (mut in_string, mut escaped, mut length) = (false, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => {
                in_string = !in_string;
                length = 0;
            }
            _ if in_string => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' => {
                length += 1;
                if length > NUMBER_BYTES_MAX {
                    return Some(at + 1 - length);
                }
            }
            _ => length = 0,
        }
    }
    None
}

/// The path to the value that a beginning of a document ends in or before.
fn path_at_end(beginning: &str, depth_max: usize) -> String {
    let mut walk = Walk::new(depth_max);
    match walk.document(beginning) {
        Ok(()) | Err(_) => walk.pointer(),
    }
}

enum Step<'de> {
    Name(Cow<'de, str>),
    Index(usize),
}

struct Walk<'de> {
    depth_max: usize,
    /// To where the walk is; after an error, to where it stopped.
    path: Vec<Step<'de>>,
    /// The rule of ours that stopped it; none if JSON's did.
    broken: Option<(&'static str, String)>,
}

impl<'de> Walk<'de> {
    fn new(depth_max: usize) -> Self {
        Self {
            depth_max,
            path: Vec::new(),
            broken: None,
        }
    }

    fn document(&mut self, text: &'de str) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Value(self).deserialize(&mut deserializer)?;
        deserializer.end()
    }

    /// An array or object begins.
    fn open<E: Error>(&mut self) -> Result<(), E> {
        let depth_max = self.depth_max;
        if self.path.len() < depth_max {
            return Ok(());
        }
        let rule = format!("expected at most {depth_max} arrays and objects in one another");
        Err(self.stop(reason::DEPTH, rule))
    }

    fn stop<E: Error>(&mut self, reason: &'static str, rule: String) -> E {
        self.broken = Some((reason, rule));
        E::custom("")
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            match step {
                Step::Name(name) => descend(&mut pointer, name),
                Step::Index(index) => descend(&mut pointer, &index.to_string()),
            }
        }
        pointer
    }
}

/// Walks one value.
struct Value<'w, 'de>(&'w mut Walk<'de>);

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let walk = self.0;
        walk.open()?;
        for index in 0.. {
            walk.path.push(Step::Index(index));
            let more = array.next_element_seed(Value(walk))?.is_some();
            walk.path.pop();
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let walk = self.0;
        walk.open()?;
        let mut names = Names::default();
        while let Some(name) = object.next_key_seed(Name)? {
            let is_new = names.add(name.clone());
            walk.path.push(Step::Name(name));
            if !is_new {
                let rule = "expected each name of an object once";
                return Err(walk.stop(reason::DUPLICATE_KEY, rule.to_owned()));
            }
            object.next_value_seed(Value(walk))?;
            walk.path.pop();
        }
        Ok(())
    }
}

/// The names of an object so far.
#[derive(Default)]
struct Names<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Names<'de> {
    /// Whether the name is new.
    fn add(&mut self, name: Cow<'de, str>) -> bool {
        if self.few.contains(&name) || self.many.contains(&name) {
            return false;
        }
        match self.few.len() {
            FEW_NAMES.. => self.many.insert(name),
            _ => {
                self.few.push(name);
                true
            }
        }
    }
}

/// A name of an object, borrowed where nothing in it is escaped.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// The members of an object in its order, each value as its text.
#[derive(Debug, Default)]
pub(crate) struct Members<'de>(pub(crate) Vec<(Cow<'de, str>, &'de RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Collect)
    }
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = object.next_key_seed(Name)? {
            members.push((name, object.next_value()?));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
