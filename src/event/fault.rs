//! Why a document is not what it should be: a word of a fixed set, the place in it, and the rule.

use std::fmt;

/// The longest path that is told, in bytes.
pub const PATH_BYTES_MAX: usize = 256;

/// The longest rule that is told, in bytes.
const RULE_BYTES_MAX: usize = 512;

/// The words that [`Fault::reason`] can be. A metric may have them as a label.
pub mod reason {
    /// Not UTF-8, or a byte order mark.
    pub const ENCODING: &str = "encoding";
    /// Not JSON.
    pub const MALFORMED: &str = "malformed";
    /// Nested too deep.
    pub const DEPTH: &str = "depth";
    /// A number with too many digits.
    pub const NUMBER: &str = "number";
    /// Two members of one object have the same name.
    pub const DUPLICATE_KEY: &str = "duplicate_key";
    /// A field is missing or has another JSON type.
    pub const SHAPE: &str = "shape";
    /// A method that the message's type does not have.
    pub const METHOD: &str = "method";
    /// A name that is none: empty, too long, or with control characters.
    pub const IDENTIFIER: &str = "identifier";
    /// More events than one message may give.
    pub const TOO_MANY: &str = "too_many";
    /// An event that would be larger than a message may be.
    pub const TOO_LARGE: &str = "too_large";
    /// A value of another type than the product's model says.
    pub const TYPE: &str = "type";
    /// A number below its minimum or above its maximum.
    pub const RANGE: &str = "range";
    /// A number between two steps.
    pub const STEP: &str = "step";
    /// A value that is none of those that there are.
    pub const ENUM: &str = "enum";
    /// A text or an array that is too long.
    pub const LENGTH: &str = "length";
    /// A checksum that does not hold.
    pub const CHECKSUM: &str = "checksum";
    /// An identifier that the product's model does not have.
    pub const UNKNOWN: &str = "unknown";
    /// A parameter that the product's model has and the message has not.
    pub const MISSING: &str = "missing";
}

/// One thing that is wrong in a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// A word of [`reason`].
    pub reason: &'static str,
    /// Where: a JSON pointer (RFC 6901), its first [`PATH_BYTES_MAX`] bytes. Holds what the document's author wrote.
    pub path: String,
    /// What was expected there, and what was found: lower case, no full stop.
    pub rule: String,
}

impl Fault {
    /// A fault at `path`. What is too long is cut.
    #[must_use]
    pub fn new(reason: &'static str, path: impl Into<String>, rule: impl Into<String>) -> Self {
        let mut path = path.into();
        path.truncate(path.floor_char_boundary(PATH_BYTES_MAX));
        let mut rule = rule.into();
        rule.truncate(rule.floor_char_boundary(RULE_BYTES_MAX));
        Self { reason, path, rule }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:?}: {}", self.reason, self.path, self.rule)
    }
}

/// Appends a member's name to a JSON pointer; one that is too long already stays as it is.
pub(crate) fn descend(path: &mut String, name: &str) {
    if path.len() > PATH_BYTES_MAX {
        return;
    }
    path.push('/');
    let name = name.get(..name.floor_char_boundary(PATH_BYTES_MAX));
    for character in name.unwrap_or_default().chars() {
        match character {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            other => path.push(other),
        }
    }
}
