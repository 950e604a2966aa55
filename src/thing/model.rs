//! A product's document: what its devices report, and which of their requests are answered.
//!
//! `{"reply": ["property", "event", "ntp"], "schema": {"properties": […], "events": […], "actions": […]}}`, both optional. The schema
//! is the platform's (profile §4.6): definitions stand inline or under `define`, names are `id` or `identifier`, and numbers may be
//! texts. Without a schema nothing is checked; without `reply` nothing is answered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::definition::{Definition, Kind, Number};
use super::request::check_identifier;
use crate::event::{self, DEPTH_MAX, Fault, is_object, reason};

/// The types of events.
pub(super) const EVENT_TYPES: [&str; 3] = ["info", "alert", "fault"];

/// What is known of a product.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Which requests are answered: property, event, ntp.
    reply: Vec<&'static str>,
    schema: Option<Schema>,
}

/// What a product's devices report.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Schema {
    properties: BTreeMap<String, Definition>,
    pub(super) events: BTreeMap<String, Event>,
    pub(super) actions: BTreeMap<String, Action>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// One of [`EVENT_TYPES`].
    pub(super) type_: &'static str,
    pub(super) params: BTreeMap<String, Definition>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Action {
    pub(super) input: BTreeMap<String, Definition>,
    pub(super) output: BTreeMap<String, Definition>,
}

impl Model {
    /// Reads a product's document.
    ///
    /// # Errors
    /// What is wrong first, and where: not JSON that is safe to read, a field of another type, a type of value or a kind of
    /// request that does not exist, a name that stands twice, a minimum above its maximum.
    pub fn parse(document: &[u8]) -> Result<Self, Fault> {
        let text = event::check(document, DEPTH_MAX)?;
        let invalid = |error: serde_json::Error| Fault::new(reason::SHAPE, "", error.to_string());
        if !is_object(text) {
            return Err(Fault::new(reason::SHAPE, "", "expected an object"));
        }
        let written: Written = serde_json::from_str(text).map_err(invalid)?;
        let kinds = written.reply.iter().enumerate().map(|(at, kind)| {
            let path = format!("/reply/{at}");
            one_of(kind, &["property", "event", "ntp"], &path)
        });
        Ok(Self {
            reply: kinds.collect::<Result<_, _>>()?,
            schema: written.schema.as_ref().map(Schema::read).transpose()?,
        })
    }

    /// Whether requests of a type are answered.
    pub(super) fn answers(&self, type_: &str) -> bool {
        self.reply.contains(&type_)
    }

    pub(super) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }
}

impl Schema {
    /// The definition of a property, or of an element of one: `id.3`.
    pub(super) fn property(&self, id: &str) -> Option<&Definition> {
        if let Some(definition) = self.properties.get(id) {
            return Some(definition);
        }
        let (array, index) = id.rsplit_once('.')?;
        let index: usize = index.parse().ok()?;
        match self.properties.get(array)? {
            Definition::Array { max, of } if max.is_none_or(|max| index < max) => Some(of),
            _ => None,
        }
    }

    fn read(written: &WrittenSchema) -> Result<Self, Fault> {
        let path = "/schema";
        Ok(Self {
            properties: definitions(&written.properties, &format!("{path}/properties"))?,
            events: named(&written.events, &format!("{path}/events"), |event, path| {
                let type_ = match event.type_.as_deref() {
                    None | Some("") => "info",
                    Some(type_) => one_of(type_, &EVENT_TYPES, &format!("{path}/type"))?,
                };
                let params = definitions(&event.params, &format!("{path}/params"))?;
                Ok(Event { type_, params })
            })?,
            actions: named(
                &written.actions,
                &format!("{path}/actions"),
                |action, path| {
                    Ok(Action {
                        input: definitions(&action.input, &format!("{path}/input"))?,
                        output: definitions(&action.output, &format!("{path}/output"))?,
                    })
                },
            )?,
        })
    }
}

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    reply: Vec<String>,
    schema: Option<WrittenSchema>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct WrittenSchema {
    properties: Option<Vec<Item>>,
    events: Option<Vec<WrittenEvent>>,
    actions: Option<Vec<WrittenAction>>,
}

#[derive(Deserialize)]
struct WrittenEvent {
    #[serde(alias = "identifier")]
    id: String,
    #[serde(rename = "type")]
    type_: Option<String>,
    params: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct WrittenAction {
    #[serde(alias = "identifier")]
    id: String,
    input: Option<Vec<Item>>,
    output: Option<Vec<Item>>,
}

/// A property, parameter or member: its definition is inline or under one of two names.
#[derive(Deserialize)]
struct Item {
    #[serde(alias = "identifier")]
    id: String,
    #[serde(alias = "dataType")]
    define: Option<Define>,
    #[serde(flatten)]
    inline: Define,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Define {
    #[serde(rename = "type")]
    type_: Option<String>,
    min: Option<Scalar>,
    max: Option<Scalar>,
    max_len: Option<Scalar>,
    start: Option<Scalar>,
    step: Option<Scalar>,
    unit: Option<String>,
    mapping: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    specs: Option<Vec<Item>>,
    array_info: Option<Box<Self>>,
}

/// A number, or a text of one; the empty text is none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(f64),
    Text(String),
}

trait Named {
    fn name(&self) -> &str;
}

impl Named for Item {
    fn name(&self) -> &str {
        &self.id
    }
}

impl Named for WrittenEvent {
    fn name(&self) -> &str {
        &self.id
    }
}

impl Named for WrittenAction {
    fn name(&self) -> &str {
        &self.id
    }
}

/// Reads each entry of a list into what it is by its name.
fn named<W: Named, T>(
    list: &Option<Vec<W>>,
    path: &str,
    read: impl Fn(&W, &str) -> Result<T, Fault>,
) -> Result<BTreeMap<String, T>, Fault> {
    let mut all = BTreeMap::new();
    for (at, entry) in list.iter().flatten().enumerate() {
        let path = format!("{path}/{at}");
        check_identifier(entry.name(), &format!("{path}/id"))?;
        if all
            .insert(entry.name().to_owned(), read(entry, &path)?)
            .is_some()
        {
            let rule = format!("expected {} once", entry.name());
            return Err(Fault::new(
                reason::DUPLICATE_KEY,
                format!("{path}/id"),
                rule,
            ));
        }
    }
    Ok(all)
}

fn definitions(
    list: &Option<Vec<Item>>,
    path: &str,
) -> Result<BTreeMap<String, Definition>, Fault> {
    named(list, path, |item, path| {
        item.define.as_ref().unwrap_or(&item.inline).read(path)
    })
}

fn one_of(found: &str, all: &[&'static str], path: &str) -> Result<&'static str, Fault> {
    all.iter()
        .copied()
        .find(|one| *one == found)
        .ok_or_else(|| {
            let rule = format!("expected one of {}", all.join(", "));
            Fault::new(reason::ENUM, path, rule)
        })
}

impl Define {
    fn read(&self, path: &str) -> Result<Definition, Fault> {
        let type_ = self.type_.as_deref().unwrap_or_default();
        Ok(match type_ {
            "bool" => Definition::Bool,
            "int" => self.number(Kind::Int, path)?,
            "float" => self.number(Kind::Float, path)?,
            "timestamp" => self.number(Kind::Timestamp, path)?,
            "string" => Definition::Text(self.length(path)?),
            "enum" => {
                let values = self
                    .mapping
                    .iter()
                    .flatten()
                    .map(|(value, _)| value.clone());
                let values: Vec<_> = values.collect();
                if values.is_empty() {
                    let rule = "expected the values that there are";
                    return Err(Fault::new(reason::SHAPE, format!("{path}/mapping"), rule));
                }
                Definition::Enum(values)
            }
            "array" => {
                let place = format!("{path}/arrayInfo");
                let of = self.array_info.as_ref().map(|of| of.read(&place));
                Definition::Array {
                    max: self.length(path)?,
                    of: Box::new(of.transpose()?.unwrap_or(Definition::Any)),
                }
            }
            "struct" => Definition::Struct(definitions(&self.specs, &format!("{path}/specs"))?),
            _ => {
                let types = "bool, int, float, timestamp, string, enum, array or struct";
                let rule = format!("expected the type {types}");
                return Err(Fault::new(reason::ENUM, format!("{path}/type"), rule));
            }
        })
    }

    fn number(&self, kind: Kind, path: &str) -> Result<Definition, Fault> {
        let read = |scalar, name: &str| number(scalar, &format!("{path}/{name}"));
        let (min, max) = (read(&self.min, "min")?, read(&self.max, "max")?);
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            let rule = format!("expected at most the maximum, {max}");
            return Err(Fault::new(reason::RANGE, format!("{path}/min"), rule));
        }
        Ok(Definition::Number(Number {
            kind,
            min,
            max,
            start: read(&self.start, "start")?.unwrap_or_default(),
            // The platform writes 0 where there is no step.
            step: read(&self.step, "step")?.filter(|step| *step > 0.0),
            unit: self.unit.clone().unwrap_or_default(),
        }))
    }

    /// How long a text or an array may be.
    fn length(&self, path: &str) -> Result<Option<usize>, Fault> {
        let (scalar, name) = match &self.max_len {
            Some(_) => (&self.max_len, "maxLen"),
            None => (&self.max, "max"),
        };
        let path = format!("{path}/{name}");
        let Some(length) = number(scalar, &path)? else {
            return Ok(None);
        };
        // Read as a text again: a float that is no whole number has no length.
        length
            .to_string()
            .parse()
            .map(Some)
            .map_err(|_no_length| Fault::new(reason::SHAPE, path, "expected a whole number"))
    }
}

fn number(scalar: &Option<Scalar>, path: &str) -> Result<Option<f64>, Fault> {
    let text: Cow<'_, str> = match scalar {
        None => return Ok(None),
        Some(Scalar::Number(number)) => return Ok(Some(*number)),
        Some(Scalar::Text(text)) => text.trim().into(),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let fault = || Fault::new(reason::SHAPE, path, "expected a number");
    number.map(Some).ok_or_else(fault)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
