//! All rules, by product: loaded and checked once.
//!
//! The project's own rules are for all products. An operator's file goes before them: its rules for `*` are tried first, and a product
//! that it names, in a `[[position]]` or in a `[[none]]`, has the rules that name it and no others.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

use super::convert::System;
use super::nmea;
use super::rule::{Form, Rule, products};
use crate::mapping::{Entry, Fault, RulesFile};

/// The project's own rules, `subjects/positions.toml`.
pub const SHIPPED: &str = include_str!("../../subjects/positions.toml");
const SHIPPED_NAME: &str = "subjects/positions.toml";

/// What the operator chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What coordinates are converted to; none: they are kept as tagged.
    pub convert_to: Option<System>,
    /// How far a device's time may be ahead of the time of receipt, milliseconds.
    pub future_max_ms: u64,
    /// How far a device's time may be behind the time of receipt, milliseconds.
    pub past_max_ms: u64,
}

impl Default for Settings {
    /// No conversion; five minutes ahead, seven days behind.
    fn default() -> Self {
        Self {
            convert_to: None,
            future_max_ms: 300_000,
            past_max_ms: 7 * 86_400_000,
        }
    }
}

/// Where positions are, of all products.
#[derive(Debug)]
pub struct Rules {
    pub(super) settings: Settings,
    rules: Vec<Rule>,
    /// Indices into `rules`, in the order of trying.
    named: HashMap<String, Vec<usize>>,
    others: Vec<usize>,
    /// Finds what every message has that a rule could find something in.
    marks: AhoCorasick,
}

impl Rules {
    /// Reads the project's rules, [`SHIPPED`], and an operator's: the file's name for faults, and its text.
    ///
    /// # Errors
    /// Every fault of every file, never only the first, each with file, line, table and key.
    pub fn load(
        shipped: &str,
        own: Option<(&str, &str)>,
        settings: Settings,
    ) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut rules = Vec::new();
        let mut named: HashMap<String, Vec<usize>> = HashMap::new();
        let mut others = Vec::new();
        for (name, text) in own.into_iter().chain([(SHIPPED_NAME, shipped)]) {
            let file = RulesFile { name, text };
            file.entries(&["position", "none"], &mut faults, |kind, mut entry| {
                let read = match kind {
                    "none" => {
                        entry.only(&["products"]);
                        named_products(&mut entry).map(|products| (products, None))
                    }
                    _ => Rule::read(&mut entry).map(|(products, rule)| (products, Some(rule))),
                };
                let Some((products, rule)) = read else { return };
                let at = rule.map(|rule| {
                    rules.push(rule);
                    rules.len() - 1
                });
                for product in products {
                    match &*product {
                        "*" => others.extend(at),
                        _ => named.entry(product).or_default().extend(at),
                    }
                }
            });
        }
        // Only searches for the leftmost match are done many bytes at a time.
        let marks = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(marks(&rules));
        let marks = marks.map_err(|error| {
            faults.push(Fault {
                place: SHIPPED_NAME.to_owned(),
                message: format!("expected fewer and shorter names, {error}"),
            });
        });
        match marks {
            Ok(marks) if faults.is_empty() => Ok(Self {
                settings,
                rules,
                named,
                others,
                marks,
            }),
            _ => Err(faults),
        }
    }

    /// The rules for a product, in the order of trying.
    pub(super) fn of(&self, product: &str) -> impl Iterator<Item = &Rule> {
        let indices = self.named.get(product).unwrap_or(&self.others);
        indices.iter().filter_map(|at| self.rules.get(*at))
    }

    /// Whether a message may have a position at all: one pass over its bytes, before anything is parsed.
    pub(super) fn may_have(&self, payload: &[u8]) -> bool {
        self.marks.is_match(payload)
    }
}

/// The products of a `[[none]]`, which must name them.
fn named_products(entry: &mut Entry<'_, '_>) -> Option<Vec<String>> {
    let products = products(entry)?;
    if !products.iter().any(|product| product == "*") {
        return Some(products);
    }
    let place = entry.place().to_owned();
    entry.fault(&place, "key `products`: expected product ids");
    None
}

/// Texts of which each message has one that a rule finds something in: the names of coordinates as JSON, and a backslash with which
/// a name could be written in another way.
fn marks(rules: &[Rule]) -> Vec<String> {
    let mut marks = vec!["\\u".to_owned()];
    for rule in rules {
        match &rule.form {
            Form::Nmea => marks.extend(nmea::MARKS.map(str::to_owned)),
            Form::Numbers(numbers) => {
                for pointer in numbers.latitude.iter().chain(&numbers.longitude) {
                    // The index of an array's element is not in its text.
                    let is_name = |token: &&String| token.parse::<usize>().is_err();
                    let is_escaped = |c: char| c.is_control() || "\"\\/".contains(c);
                    marks.push(match pointer.iter().rev().find(is_name) {
                        // Nothing but indices: any array, or a member that is called so.
                        None => "\"".to_owned(),
                        // There are several ways to escape.
                        Some(name) if name.contains(is_escaped) => "\\".to_owned(),
                        Some(name) => format!("\"{name}\""),
                    });
                }
            }
        }
    }
    marks.sort_unstable();
    marks.dedup();
    marks
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
