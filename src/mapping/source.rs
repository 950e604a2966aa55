//! Reading `subjects/*.toml` so that every fault of every file is found in one go, each with file, line, entry and key.
//!
//! serde stops at the first fault of a document; this reads the spanned tree instead. It knows nothing of rules and
//! streams: those say which keys they have.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One fault in the mapping's files or settings.
///
/// Displays as `subjects/rules.toml:12: rule 3: key `nats`: … expected …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// File and line, such as `subjects/rules.toml:12`; for a setting, its name.
    pub place: String,
    /// What is wrong there and what was expected: lower case, no full stop.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A value and where it stands, for faults that are found later.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    /// File and line.
    pub(crate) place: String,
}

impl<T> At<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: change(self.value),
            place: self.place,
        }
    }
}

/// A file's text under the name that faults give it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'i> {
    pub(crate) name: &'i str,
    pub(crate) text: &'i str,
}

impl<'i> Source<'i> {
    /// Reads each `[[key]]` of the file with `read`; a key that is not in `keys` is a fault.
    ///
    /// A file whose syntax is broken gives all its syntax faults and no entries: half a file makes misleading faults.
    pub(crate) fn entries(
        &self,
        keys: &[&'static str],
        faults: &mut Vec<Fault>,
        mut read: impl FnMut(&'static str, Entry<'_, 'i>),
    ) {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if !errors.is_empty() {
            faults.extend(errors.iter().map(|error| Fault {
                place: self.place(error.span().map_or(0, |span| span.start)),
                message: error.message().trim().replace('\n', ", "),
            }));
            return;
        }
        for (key, value) in document.get_ref() {
            let known = keys.iter().find(|known| **known == key.get_ref());
            let tables = value.get_ref().as_array().and_then(|array| {
                let tables = array.iter().map(|item| item.get_ref().as_table());
                tables.collect::<Option<Vec<_>>>()
            });
            match (known, tables) {
                (Some(&kind), Some(tables)) => {
                    for (index, table) in tables.into_iter().enumerate() {
                        let label = format!("{kind} {}", index + 1);
                        let start = table.keys().map(|key| key.span().start).min();
                        let place = self.place(start.unwrap_or_else(|| key.span().start));
                        read(
                            kind,
                            Entry {
                                source: *self,
                                table,
                                label,
                                place,
                                faults,
                            },
                        );
                    }
                }
                _ => faults.push(Fault {
                    place: self.place(key.span().start),
                    message: format!(
                        "key `{}`: expected only tables [[{}]]",
                        key.get_ref(),
                        keys.join("]], [[")
                    ),
                }),
            }
        }
    }

    fn place(&self, offset: usize) -> String {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{}:{line}", self.name)
    }
}

/// One `[[rule]]` or `[[stream]]` being read.
pub(crate) struct Entry<'e, 'i> {
    source: Source<'i>,
    table: &'e DeTable<'i>,
    label: String,
    place: String,
    faults: &'e mut Vec<Fault>,
}

impl<'e, 'i> Entry<'e, 'i> {
    /// `rule 3`, for faults.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// File and line of its first key.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// A fault of this entry.
    pub(crate) fn fault(&mut self, place: &str, message: impl fmt::Display) {
        self.faults.push(Fault {
            place: place.to_owned(),
            message: format!("{}: {message}", self.label),
        });
    }

    /// Reports each key that is not in `known`.
    pub(crate) fn only(&mut self, known: &[&str]) {
        let table = self.table;
        for key in table
            .keys()
            .filter(|key| !known.contains(&&**key.get_ref()))
        {
            let place = self.source.place(key.span().start);
            let expected = known.join(", ");
            let name = key.get_ref();
            self.fault(
                &place,
                format_args!("key `{name}`: unknown, expected one of {expected}"),
            );
        }
    }

    /// The value of a key, with its line.
    pub(crate) fn value(&self, key: &str) -> Option<At<&'e DeValue<'i>>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(At {
            value: value.get_ref(),
            place: self.source.place(key.span().start),
        })
    }

    /// A text; a fault if it is something else.
    pub(crate) fn text(&mut self, key: &str) -> Option<At<String>> {
        let found = self.value(key)?;
        match found.value.as_str() {
            Some(text) => Some(found.map(|_| text.to_owned())),
            None => {
                let kind = found.value.type_str();
                self.fault(
                    &found.place,
                    format_args!("key `{key}`: found {kind}, expected text"),
                );
                None
            }
        }
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, key: &str) -> Option<At<String>> {
        if self.value(key).is_none() {
            let place = self.place.clone();
            self.fault(&place, format_args!("key `{key}`: missing, expected text"));
        }
        self.text(key)
    }

    /// A table of texts, in no particular order; a fault for each value that is something else.
    pub(crate) fn texts(&mut self, key: &str) -> Vec<(String, At<String>)> {
        let Some(found) = self.value(key) else {
            return Vec::new();
        };
        let Some(table) = found.value.as_table() else {
            let kind = found.value.type_str();
            self.fault(
                &found.place,
                format_args!("key `{key}`: found {kind}, expected a table"),
            );
            return Vec::new();
        };
        let mut texts = Vec::new();
        for (name, value) in table {
            let place = self.source.place(name.span().start);
            match value.get_ref().as_str() {
                Some(text) => {
                    let value = text.to_owned();
                    texts.push((name.get_ref().to_string(), At { value, place }));
                }
                None => {
                    let (kind, name) = (value.get_ref().type_str(), name.get_ref());
                    let message = format!("key `{key}.{name}`: found {kind}, expected text");
                    self.fault(&place, message);
                }
            }
        }
        texts
    }
}

/// The tree as JSON, texts changed by `text`; an integer too large for 64 bits and a date become text.
pub(super) fn to_json(value: &DeValue<'_>, text: &impl Fn(&str) -> String) -> serde_json::Value {
    let items = |item: &Spanned<DeValue<'_>>| to_json(item.get_ref(), text);
    match value {
        DeValue::String(string) => text(string).into(),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or_else(|_| integer.to_string().into(), Into::into),
        DeValue::Float(float) => float.as_str().into(),
        DeValue::Boolean(boolean) => (*boolean).into(),
        DeValue::Datetime(datetime) => datetime.to_string().into(),
        DeValue::Array(array) => array.iter().map(items).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), items(value)))
            .collect(),
    }
}
