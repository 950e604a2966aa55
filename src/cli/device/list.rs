//! A list of devices as CSV (RFC 4180): a line with the names of the columns, then a device a line.
//!
//! Columns are found by their names: `product` and `name` must be there, `secret`, `state` and `gateway` may. Every fault is told by
//! its line.

use std::collections::HashSet;
use std::io::Read;

use anyhow::{Context as _, Result, bail};
use csv::{Position, ReaderBuilder, StringRecord};

use crate::auth::credentials::{Credentials, Secret};
use crate::catalogue::{Imported, State};
use crate::cli::place::device;
use crate::device::DeviceId;

/// The columns, in the order in which they are exported.
pub(super) const COLUMNS: [&str; 5] = ["product", "name", "secret", "state", "gateway"];
/// Devices of one list: it is held in memory while it is checked.
const ROWS_MAX: usize = 1_000_000;

/// A device of a list.
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) imported: Imported,
    /// The gateway device that is to act for it.
    pub(super) gateway: Option<DeviceId>,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: u64,
    pub(super) words: String,
}

/// A list that was read.
#[derive(Default)]
pub(super) struct List {
    pub(super) rows: Vec<Row>,
    pub(super) faults: Vec<Fault>,
}

impl List {
    /// Reads all of it.
    ///
    /// # Errors
    /// It cannot be read, has not the columns of a list, or too many lines.
    pub(super) fn read(source: impl Read) -> Result<Self> {
        let mut reader = ReaderBuilder::new().from_reader(source);
        let header = reader.headers().context("line 1")?.clone();
        let places = places(&header)?;
        let (mut list, mut known) = (Self::default(), HashSet::new());
        let mut record = StringRecord::new();
        loop {
            let (line, row) = match reader.read_record(&mut record) {
                Ok(false) => return Ok(list),
                Ok(true) => {
                    let line = record.position().map_or(0, Position::line);
                    (line, read(line, &record, &places))
                }
                Err(error) => {
                    let line = error.position().map(Position::line);
                    let line = line.with_context(|| format!("list: {error}"))?;
                    (line, Err(in_words(&error)))
                }
            };
            let row = row.and_then(|row| match known.insert(row.imported.device.clone()) {
                true => Ok(row),
                false => Err(format!(
                    "{} is in an earlier line, too",
                    row.imported.device
                )),
            });
            match row {
                Ok(row) => list.rows.push(row),
                Err(words) => list.faults.push(Fault { line, words }),
            }
            if list.rows.len() > ROWS_MAX {
                bail!("line {line}: expected at most {ROWS_MAX} devices");
            }
        }
    }
}

/// Where each of [`COLUMNS`] is.
fn places(header: &StringRecord) -> Result<[Option<usize>; COLUMNS.len()]> {
    let mut places = [None; COLUMNS.len()];
    for (at, name) in header.iter().enumerate() {
        // Spreadsheets put a mark in front of a text.
        let name = name.trim_start_matches('\u{feff}').trim();
        let place = COLUMNS
            .iter()
            .zip(&mut places)
            .find(|(known, _)| **known == name);
        match place {
            Some((_, place)) if place.is_none() => *place = Some(at),
            Some(_) => bail!("line 1: column {name:?} is there twice"),
            None => bail!(
                "line 1: column {name:?}: expected one of {}",
                COLUMNS.join(", ")
            ),
        }
    }
    match places {
        [Some(_), Some(_), ..] => Ok(places),
        _ => bail!("line 1: expected the columns product and name"),
    }
}

fn read(
    line: u64,
    record: &StringRecord,
    places: &[Option<usize>; COLUMNS.len()],
) -> Result<Row, String> {
    let [product, name, secret, state, gateway] =
        places.map(|place| place.and_then(|at| record.get(at)).unwrap_or_default());
    let id = DeviceId::new(product, name).map_err(|error| error.to_string())?;
    Credentials::check(&id).map_err(|error| error.to_string())?;
    let secret = match secret {
        "" => None,
        text => {
            // Not strictly base64: other platforms have let operators choose texts, which devices hold.
            let secret = Secret::from_stored(text.to_owned());
            secret
                .password()
                .map_err(|error| format!("secret: {error}"))?;
            Some(secret)
        }
    };
    let state = match state {
        "" => State::Enabled,
        text => text
            .parse()
            .map_err(|expected| format!("state: {expected}"))?,
    };
    let gateway = match gateway {
        "" => None,
        text => Some(device(text).map_err(|error| format!("gateway: {error}"))?),
    };
    if gateway.as_ref() == Some(&id) {
        return Err(format!("gateway: {id} cannot be its own sub-device"));
    }
    Ok(Row {
        line,
        imported: Imported {
            device: id,
            secret,
            state,
        },
        gateway,
    })
}

/// Without the line, which is told before.
fn in_words(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("found {len} fields, expected {expected_len}"),
        csv::ErrorKind::Utf8 { err, .. } => format!("expected UTF-8: {err}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<(u64, String)> {
        let list = List::read(text.as_bytes()).unwrap();
        let faults = list.faults.into_iter();
        faults.map(|fault| (fault.line, fault.words)).collect()
    }

    #[test]
    fn columns_may_be_in_any_order_and_left_out() {
        let text = "\u{feff}gateway,name,product,state\ng/g,d,p,disabled\n,\"e, f\",p,\n";
        let list = List::read(text.as_bytes()).unwrap();
        assert_eq!(list.faults, []);
        let [first, second] = list.rows.try_into().ok().unwrap();
        assert_eq!(
            (first.line, first.gateway),
            (2, DeviceId::new("g", "g").ok())
        );
        assert_eq!(first.imported.state, State::Disabled);
        assert!(first.imported.secret.is_none());
        assert_eq!((second.line, second.gateway), (3, None));
        assert_eq!(second.imported.device.name(), "e, f");
        assert_eq!(second.imported.state, State::Enabled);
    }

    #[test]
    fn each_fault_is_told_by_its_line() {
        let text = "product,name,secret,state,gateway\n\
            p,ok,AAECAwQFBgcICQoLDA0ODxAREhM=,,\n\
            p,a/b,,,\n\
            p,x,s?c?e?t?,,\n\
            p,y,,asleep,\n\
            p,z,,,z\n\
            p,z,,,p/z\n\
            p,few\n\
            p,ok,,,\n\
            ,q,,,\n\
            p,\"two\nlines\",,,x\n";
        let expected = [
            (3, "'/'"),
            (4, "secret: "),
            (5, "state: expected enabled, disabled or blocked"),
            (6, "gateway: expected PRODUCT/NAME"),
            (7, "its own sub-device"),
            (8, "found 2 fields, expected 5"),
            (9, "p/ok is in an earlier line, too"),
            (10, "productID is empty"),
            (11, "gateway: expected PRODUCT/NAME"),
        ];
        let found = faults(text);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((line, words), (expected_line, part)) in found.iter().zip(expected) {
            assert_eq!(*line, expected_line, "{words}");
            assert!(words.contains(part), "{line}: {words}");
            assert!(!words.contains("s?c?e?t?"), "a secret is not shown");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for (text, expected) in [
            ("", "expected the columns product and name"),
            ("product\np\n", "expected the columns product and name"),
            (
                "product,name,colour\n",
                "line 1: column \"colour\": expected one of product",
            ),
            ("product,name,name\n", "column \"name\" is there twice"),
        ] {
            let error = List::read(text.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let bytes = b"product,name\np,a\np,\xff\np,b\n";
        let list = List::read(&bytes[..]).unwrap();
        assert_eq!((list.rows.len(), list.faults.len()), (2, 1));
        assert_eq!(list.faults[0].line, 3);
    }
}
