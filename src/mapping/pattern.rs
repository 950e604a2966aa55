//! A rule's topic pattern: reading a topic or filter with it, and writing a topic.
//!
//! Names are compared with names and never read as patterns (G22). No capture matches an empty level (G13), so a topic
//! without a type level is nobody's. In a filter a `+` may stand only where the type or the id is. `{levels...}` alone
//! is another matter: it stands for every topic and filter there is, empty levels among them.

use std::fmt;

use super::capture::{Capture, Captures};

/// A topic as levels: `$thing/up/{type}/{extra...}/{product}/{device}`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// Levels before `{extra...}`, or all.
    head: Vec<Level>,
    /// Levels behind `{extra...}`; none if the pattern has no such capture.
    tail: Option<Vec<Level>>,
    /// It is [`LEVELS`].
    any: bool,
}

/// The pattern of every topic.
pub(super) const LEVELS: &str = "{levels...}";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Level {
    Literal(String),
    Capture(Capture),
}

/// Where a topic and a pattern part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The level, from 1.
    pub(super) level: usize,
    /// What stands there; none behind the topic's end.
    pub(super) found: Option<String>,
    /// What the pattern has there; none behind its end.
    pub(super) expected: Option<String>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut pattern = Self {
            text: text.to_owned(),
            head: Vec::new(),
            tail: None,
            any: text == LEVELS,
        };
        if pattern.any {
            pattern.tail = Some(Vec::new());
            return Ok(pattern);
        }
        let mut faults = Vec::new();
        let mut seen: Vec<Capture> = Vec::new();
        for (at, level) in text.split('/').enumerate() {
            if level == "{extra...}" {
                if pattern.tail.replace(Vec::new()).is_some() {
                    faults.push("{extra...} twice, expected at most once".to_owned());
                }
                continue;
            }
            match Level::parse(level) {
                Ok(Level::Capture(_)) if at == 0 => {
                    faults.push(format!(
                        "starts with {level}, expected a literal first level"
                    ));
                }
                Ok(level) => {
                    if let Level::Capture(capture) = level {
                        if seen.contains(&capture) {
                            faults.push(format!("{capture} twice, expected at most once"));
                        }
                        seen.push(capture);
                    }
                    pattern
                        .tail
                        .as_mut()
                        .unwrap_or(&mut pattern.head)
                        .push(level);
                }
                Err(fault) => faults.push(fault),
            }
        }
        for capture in [Capture::Product, Capture::Device] {
            if !seen.contains(&capture) {
                faults.push(format!("no {capture}, expected it once"));
            }
        }
        if faults.is_empty() {
            Ok(pattern)
        } else {
            Err(faults)
        }
    }

    /// What the captures match in a topic name or filter; none if it has another shape.
    pub(super) fn read<'t>(&self, topic: &'t str) -> Option<Captures<'t>> {
        let mut captures = Captures::default();
        if self.any {
            return Some(captures);
        }
        let mut levels = topic.split('/');
        for level in &self.head {
            level.read(levels.next()?, &mut captures)?;
        }
        let Some(tail) = &self.tail else {
            return levels.next().is_none().then_some(captures);
        };
        for level in tail.iter().rev() {
            level.read(levels.next_back()?, &mut captures)?;
        }
        for extra in levels {
            is_name(extra).then_some(())?;
            captures.extra = true;
        }
        Some(captures)
    }

    /// Appends the topic with these captures and no extra levels.
    pub(super) fn write(&self, captures: &Captures<'_>, out: &mut String) {
        for (at, level) in self.levels().enumerate() {
            if at > 0 {
                out.push('/');
            }
            out.push_str(match level {
                Level::Literal(literal) => literal,
                Level::Capture(capture) => captures.get(*capture),
            });
        }
    }

    /// The literal first level.
    pub(super) fn first(&self) -> &str {
        self.text
            .split_once('/')
            .map_or(&*self.text, |(first, _)| first)
    }

    /// Whether it is that of every topic.
    pub(super) fn is_any(&self) -> bool {
        self.any
    }

    /// Whether it has this capture.
    pub(super) fn has(&self, capture: Capture) -> bool {
        self.levels().any(|level| *level == Level::Capture(capture))
    }

    /// Whether some topic matches both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.steps(), &other.steps())
    }

    /// Where a topic parts from this pattern; none if it matches.
    pub(super) fn mismatch(&self, topic: &str) -> Option<Mismatch> {
        let found: Vec<&str> = topic.split('/').collect();
        let tail = self.tail.as_deref().unwrap_or_default();
        let extra = match self.tail {
            Some(_) => found.len().saturating_sub(self.head.len() + tail.len()),
            None => 0,
        };
        // An extra level is no level of the pattern: none stands for it.
        let extra = std::iter::repeat_n(None, extra);
        let expected = self
            .head
            .iter()
            .map(Some)
            .chain(extra)
            .chain(tail.iter().map(Some));
        let expected: Vec<Option<&Level>> = expected.collect();
        (0..found.len().max(expected.len())).find_map(|at| {
            let (found, expected) = (found.get(at).copied(), expected.get(at).copied());
            let matches = match (found, expected) {
                (Some(found), Some(Some(level))) => {
                    level.read(found, &mut Captures::default()).is_some()
                }
                (Some(found), Some(None)) => is_name(found),
                _ => false,
            };
            let level =
                expected.map(|level| level.map_or_else(|| "a name".to_owned(), Level::to_string));
            (!matches).then(|| Mismatch {
                level: at + 1,
                found: found.map(str::to_owned),
                expected: level,
            })
        })
    }

    fn levels(&self) -> impl Iterator<Item = &Level> {
        self.head.iter().chain(self.tail.iter().flatten())
    }

    fn steps(&self) -> Vec<Step<'_>> {
        fn step(level: &Level) -> Step<'_> {
            match level {
                Level::Literal(literal) => Step::Literal(literal),
                Level::Capture(_) => Step::One,
            }
        }
        let many = self.tail.iter().map(|_| Step::Many);
        let tail = self.tail.iter().flatten().map(step);
        self.head.iter().map(step).chain(many).chain(tail).collect()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Level {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(capture) = Capture::parse(text)? {
            return Ok(Self::Capture(capture));
        }
        if is_name(text) {
            return Ok(Self::Literal(text.to_owned()));
        }
        Err(format!(
            "level {text:?}, expected a capture or a name without `+`, `#` and U+0000"
        ))
    }

    fn read<'t>(&self, found: &'t str, captures: &mut Captures<'t>) -> Option<()> {
        match self {
            Self::Literal(literal) => (literal == found).then_some(()),
            Self::Capture(capture) => {
                let wildcard = found == "+" && matches!(capture, Capture::Type | Capture::Id);
                (wildcard || is_name(found)).then(|| captures.set(*capture, found))
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => f.write_str(literal),
            Self::Capture(capture) => capture.fmt(f),
        }
    }
}

/// Whether a text can stand alone as one level of a topic name.
pub(super) fn is_name(level: &str) -> bool {
    !level.is_empty()
        && !level
            .bytes()
            .any(|byte| matches!(byte, b'+' | b'#' | b'/' | 0))
}

/// A level as far as overlapping goes.
#[derive(Clone, Copy)]
enum Step<'p> {
    Literal(&'p str),
    One,
    /// Any number of levels.
    Many,
}

fn overlap(a: &[Step<'_>], b: &[Step<'_>]) -> bool {
    match (a.split_first(), b.split_first()) {
        (None, None) => true,
        (Some((Step::Many, rest)), _) => {
            overlap(rest, b) || b.split_first().is_some_and(|(_, fewer)| overlap(a, fewer))
        }
        (_, Some((Step::Many, _))) => overlap(b, a),
        (Some((Step::Literal(x), _)), Some((Step::Literal(y), _))) if x != y => false,
        (Some((_, a)), Some((_, b))) => overlap(a, b),
        _ => false,
    }
}
