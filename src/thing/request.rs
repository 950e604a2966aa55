//! A message's fields, each as its text, and what is read from one.
//!
//! A field that is `null` is not there. Fields that nobody reads here are passed over.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::{Fault, Members, is_object, reason};

/// The longest identifier of a property, event, parameter or action, in bytes.
const IDENTIFIER_BYTES_MAX: usize = 128;
/// The longest method and message token, in bytes.
const WORD_BYTES_MAX: usize = 256;

type Raw<'a> = Option<&'a RawValue>;

/// A message, an entry of a pack report, or a sub-device in one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) method: Raw<'a>,
    pub(crate) msg_token: Raw<'a>,
    pub(crate) timestamp: Raw<'a>,
    pub(crate) params: Raw<'a>,
    pub(crate) properties: Raw<'a>,
    pub(crate) events: Raw<'a>,
    pub(crate) sub_devices: Raw<'a>,
    #[serde(rename = "eventID")]
    pub(crate) event_id: Raw<'a>,
    #[serde(rename = "type")]
    pub(crate) type_: Raw<'a>,
    #[serde(rename = "actionID")]
    pub(crate) action_id: Raw<'a>,
    pub(crate) code: Raw<'a>,
    pub(crate) msg: Raw<'a>,
    pub(crate) data: Raw<'a>,
    pub(crate) sys: Raw<'a>,
    #[serde(rename = "productID")]
    pub(crate) product_id: Raw<'a>,
    pub(crate) device_name: Raw<'a>,
}

/// How a device wants its answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Sys {
    pub(super) no_ask: bool,
    pub(super) ret_msg: bool,
}

impl<'a> Request<'a> {
    /// Reads the fields of a value at `path` that is JSON.
    pub(crate) fn read(json: &'a str, path: &str) -> Result<Self, Fault> {
        match is_object(json) {
            true => serde_json::from_str(json).map_err(|error| shape(path, &error.to_string())),
            false => Err(shape(path, "expected an object")),
        }
    }

    /// What the request says of its answer; what is no such object says nothing.
    pub(super) fn sys(&self) -> Sys {
        let sys = self.sys.filter(|sys| is_object(sys.get()));
        sys.and_then(|sys| serde_json::from_str(sys.get()).ok())
            .unwrap_or_default()
    }
}

/// A fault of a field's JSON type.
pub(super) fn shape(path: &str, rule: &str) -> Fault {
    Fault::new(reason::SHAPE, path, rule)
}

/// A text; none if it is not there or empty.
pub(crate) fn text<'a>(raw: Raw<'a>, path: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let Some(raw) = raw else { return Ok(None) };
    let text = string(raw).ok_or_else(|| shape(path, "expected a text"))?;
    if text.len() > WORD_BYTES_MAX {
        let rule = format!("expected at most {WORD_BYTES_MAX} bytes");
        return Err(Fault::new(reason::LENGTH, path, rule));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A value that is a string; borrowed where nothing in it is escaped.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => serde_json::from_str(raw.get()).ok().map(Cow::Owned),
    }
}

/// The identifier of an event or action.
pub(super) fn identifier<'a>(raw: Raw<'a>, path: &str) -> Result<Cow<'a, str>, Fault> {
    let name = raw.map(|raw| string(raw).ok_or_else(|| shape(path, "expected a text")));
    let name = name.ok_or_else(|| shape(path, "expected an identifier"))??;
    check_identifier(&name, path)?;
    Ok(name)
}

/// Whether a name can be an identifier: what becomes tokens of a subject and keys of tables.
pub(super) fn check_identifier(name: &str, path: &str) -> Result<(), Fault> {
    let rule = if name.len() > IDENTIFIER_BYTES_MAX {
        format!("expected an identifier of at most {IDENTIFIER_BYTES_MAX} bytes")
    } else if name.split('.').any(str::is_empty) {
        "expected an identifier without empty parts".to_owned()
    } else if name.contains(char::is_control) {
        "expected an identifier without control characters".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::new(reason::IDENTIFIER, path, rule))
}

/// The members of an object; none if it is not there.
pub(crate) fn members<'a>(raw: Raw<'a>, path: &str) -> Result<Option<Members<'a>>, Fault> {
    let Some(raw) = raw else { return Ok(None) };
    serde_json::from_str(raw.get())
        .map(Some)
        .map_err(|_no_object| shape(path, "expected an object"))
}

/// The elements of an array; none if it is not there.
pub(crate) fn elements<'a>(raw: Raw<'a>, path: &str) -> Result<Vec<&'a RawValue>, Fault> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    serde_json::from_str(raw.get()).map_err(|_no_array| shape(path, "expected an array"))
}

/// A whole number that is not negative; none if it is not there or another value.
pub(super) fn number(raw: Raw<'_>) -> Option<u64> {
    raw.and_then(|raw| raw.get().parse().ok())
}
