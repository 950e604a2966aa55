//! What a topic maps to and why, for people: `jetway subjects explain`.
//!
//! Nothing is decided here; it shows what `address` and `uplink` would do, or the rule that came nearest. Rules of products are in the
//! catalogue, which is not asked: it says where they are listed.

use std::fmt;

use bytes::BytesMut;

use super::capture::Capture;
use super::percent::take;
use super::rule::Rule;
use super::rules::Mapping;
use super::settings::Form;
use super::subject::SUBJECT_BYTES_MAX;
use super::template::Template;
use crate::device::{DeviceId, Direction};

/// Why a topic maps to what it maps to, or to nothing. Displays as one `name  value` line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it maps to something.
    pub mapped: bool,
    lines: Vec<(&'static str, String)>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.lines {
            writeln!(f, "{name:<13} {value}")?;
        }
        Ok(())
    }
}

impl Mapping {
    /// Explains a topic name or filter.
    #[must_use]
    pub fn explain(&self, topic: &str) -> Explanation {
        let mut lines = vec![("topic", topic.to_owned())];
        let mapped = match self.find(topic) {
            Some((rule, _)) if rule.direction == Direction::Both => {
                self.explain_levels(rule, topic, &mut lines)
            }
            Some((rule, captures)) => {
                lines.push(("rule", describe(rule)));
                lines.push(("direction", direction(rule).to_owned()));
                lines.push(("handle", rule.handle.value.clone()));
                if !captures.kind.is_empty() {
                    lines.push(("type", captures.kind.to_owned()));
                }
                match DeviceId::new(captures.product, captures.name) {
                    Ok(id) => {
                        lines.push(("device", id.to_string()));
                        rule.explain(&id, topic, captures.extra, &mut lines);
                        let product = id.product();
                        lines.push((
                            "product rules",
                            format!("may deny it, or allow more: jetway product rule ls {product}"),
                        ));
                        true
                    }
                    Err(error) => {
                        lines.push(("not mapped", error.to_string()));
                        false
                    }
                }
            }
            None => {
                self.explain_nearest(topic, &mut lines);
                false
            }
        };
        Explanation { mapped, lines }
    }

    /// A topic of the open profile: its subject, or those that its filter selects; whether there are any.
    fn explain_levels(
        &self,
        rule: &Rule,
        topic: &str,
        lines: &mut Vec<(&'static str, String)>,
    ) -> bool {
        lines.push(("rule", describe(rule)));
        lines.push(("direction", direction(rule).to_owned()));
        let Some(subjects) = self.subscription(topic) else {
            let message = format!("its subject has more than {SUBJECT_BYTES_MAX} bytes");
            lines.push(("not mapped", message));
            return false;
        };
        lines.push(("subject", subjects.join(", ")));
        lines.push(("stream", rule.stream.value.to_string()));
        let headers = "Jw-Id, Nats-Msg-Id, Jw-Ts, traceparent, Jw-Qos, Jw-Client";
        lines.push(("headers", headers.to_owned()));
        true
    }

    fn explain_nearest(&self, topic: &str, lines: &mut Vec<(&'static str, String)>) {
        let mismatches = self
            .rules
            .iter()
            .filter_map(|rule| Some((rule, rule.pattern.value.mismatch(topic)?)));
        // Of equally near rules the first in the file.
        let nearest = mismatches.reduce(|best, next| {
            if next.1.level > best.1.level {
                next
            } else {
                best
            }
        });
        let Some((rule, mismatch)) = nearest else {
            return;
        };
        if mismatch.level == 1 {
            let mut firsts: Vec<_> = self
                .rules
                .iter()
                .map(|rule| rule.pattern.value.first())
                .collect();
            firsts.dedup();
            firsts.sort_unstable();
            firsts.dedup();
            let found = mismatch.found.unwrap_or_default();
            lines.push((
                "not mapped",
                format!(
                    "level 1: found {found:?}, expected one of {}",
                    firsts.join(", ")
                ),
            ));
            return;
        }
        let found = mismatch
            .found
            .map_or_else(|| "the end".to_owned(), |found| format!("{found:?}"));
        let expected = mismatch.expected.unwrap_or_else(|| "the end".to_owned());
        lines.push(("nearest rule", describe(rule)));
        lines.push((
            "not mapped",
            format!(
                "level {}: found {found}, expected {expected}",
                mismatch.level
            ),
        ));
    }
}

impl Rule {
    fn explain(
        &self,
        id: &DeviceId,
        topic: &str,
        extra: bool,
        lines: &mut Vec<(&'static str, String)>,
    ) {
        let subject = |template: &Template| {
            let mut out = BytesMut::new();
            template.write(id, topic, &mut out);
            take(&mut out).to_string()
        };
        lines.push(("subject", subject(&self.subject.value)));
        if let Some(live) = &self.live {
            lines.push(("live subject", subject(&live.value)));
        }
        lines.push(("stream", self.stream.value.to_string()));
        if self.direction == Direction::Down {
            let default = self.default_type.as_deref().unwrap_or("none");
            if self.pattern.value.has(Capture::Type) {
                lines.push((
                    "type from",
                    format!("Jw-Type, else the payload's method, else {default}"),
                ));
            }
            return;
        }
        let (form, mut headers) = match self.form {
            Form::Native => (
                "native",
                "Jw-Id, Nats-Msg-Id, Jw-Ts, traceparent, Jw-Qos".to_owned(),
            ),
            Form::Protobuf => (
                "protobuf",
                "Jw-Id, Nats-Msg-Id, Jw-Ts, traceparent, Content-Type".to_owned(),
            ),
        };
        if self.form == Form::Native && self.pattern.value.has(Capture::Type) {
            headers.push_str(", Jw-Type");
        }
        if self.form == Form::Native && (extra || self.pattern.value.has(Capture::Id)) {
            headers.push_str(", Jw-Topic: ");
            headers.push_str(topic);
        }
        lines.push(("form", form.to_owned()));
        lines.push(("headers", headers));
    }
}

fn describe(rule: &Rule) -> String {
    format!("{} ({})", rule.pattern.value, rule.pattern.place)
}

fn direction(rule: &Rule) -> &'static str {
    match rule.direction {
        Direction::Up => "up: the device publishes",
        Direction::Down => "down: the device subscribes",
        Direction::Both => "both: whoever is connected publishes and subscribes",
    }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
