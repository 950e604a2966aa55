//! One rule of `subjects/rules.toml`: reading it, and what is wrong with it by itself.
//!
//! What rules may not do to each other and to the streams is in `check`.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use super::pattern::{Pattern, is_name};
use super::settings::{Form, Settings, Tree};
use super::source::{At, Entry};
use super::subject::is_filter;
use super::template::Template;
use crate::device::Direction;

/// The keys of a `[[rule]]`.
const KEYS: [&str; 8] = [
    "handle",
    "direction",
    "mqtt",
    "nats",
    "live",
    "stream",
    "default_type",
    "methods",
];

/// One rule: a topic's shape, and the subject that its messages have.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// `rule 3`, for faults.
    pub(super) label: String,
    pub(super) direction: Direction,
    pub(super) handle: At<String>,
    pub(super) pattern: At<Pattern>,
    /// The subject that is stored.
    pub(super) subject: At<Template>,
    /// The key that it was read from.
    subject_key: &'static str,
    /// The subject of the live copy; none if there is none, or config switches it off.
    pub(super) live: Option<At<Template>>,
    pub(super) stream: At<Arc<str>>,
    /// The form of its uplinks.
    pub(super) form: Form,
    /// The type of a downlink that names none.
    pub(super) default_type: Option<String>,
    /// The type of a downlink by its payload's method.
    pub(super) methods: HashMap<String, String>,
}

impl Rule {
    /// Reads a rule; none if it has faults, which are then reported.
    pub(super) fn read(entry: &mut Entry<'_, '_>, settings: &Settings) -> Option<Self> {
        entry.only(&KEYS);
        let handle = read_handle(entry);
        let direction = read_direction(entry);
        let pattern = entry.required_text("mqtt");
        let pattern = pattern.and_then(|text| checked(entry, "mqtt", text, Pattern::parse));
        // An unreadable handle has its own fault; the templates are checked with a stand-in.
        let name = handle.as_ref().map_or("handle", |handle| &*handle.value);
        let template = |text: &str| Template::parse(text, &settings.protocol, name);
        let subject = entry.required_text("nats");
        let subject = subject.and_then(|text| checked(entry, "nats", text, template));
        let live = entry.text("live");
        let live = live.and_then(|text| checked(entry, "live", text, template));
        let stream = entry.required_text("stream");
        let default_type = entry.text("default_type");
        let methods = entry.texts("methods");
        check_types(entry, default_type.as_ref(), &methods);
        check_direction(entry, direction);
        check_levels(entry, direction, pattern.as_ref(), subject.as_ref());
        let (handle, subject) = (handle?, subject?);
        let (subject_key, subject, live) = match (settings.tree, live) {
            (Tree::Handle, Some(live)) => ("live", live, None),
            (_, live) => (
                "nats",
                subject,
                live.filter(|_| settings.live.contains(&handle.value)),
            ),
        };
        Some(Self {
            label: entry.label().to_owned(),
            direction: direction?,
            form: settings
                .forms
                .get(&handle.value)
                .copied()
                .unwrap_or_default(),
            handle,
            pattern: pattern?,
            subject,
            subject_key,
            live,
            stream: stream?.map(Arc::from),
            default_type: default_type.map(|at| at.value),
            methods: methods
                .into_iter()
                .map(|(name, at)| (name, at.value))
                .collect(),
        })
    }

    /// Whether devices get its messages.
    pub(super) fn is_delivered(&self) -> bool {
        self.direction != Direction::Up
    }

    /// The key and template of each subject that its messages have.
    pub(super) fn subjects(&self) -> impl Iterator<Item = (&'static str, &At<Template>)> {
        let live = self.live.iter().map(|live| ("live", live));
        iter::once((self.subject_key, &self.subject)).chain(live)
    }
}

/// Parses a text; each fault is one of that key.
fn checked<T>(
    entry: &mut Entry<'_, '_>,
    key: &str,
    text: At<String>,
    parse: impl FnOnce(&str) -> Result<T, Vec<String>>,
) -> Option<At<T>> {
    match parse(&text.value) {
        Ok(value) => Some(text.map(|_| value)),
        Err(messages) => {
            for message in messages {
                entry.fault(&text.place, format_args!("key `{key}`: {message}"));
            }
            None
        }
    }
}

fn read_handle(entry: &mut Entry<'_, '_>) -> Option<At<String>> {
    let handle = entry.required_text("handle")?;
    if is_token(&handle.value) {
        return Some(handle);
    }
    let found = &handle.value;
    let message = format!("key `handle`: found {found:?}, expected letters, digits, `_` and `-`");
    entry.fault(&handle.place, message);
    None
}

fn read_direction(entry: &mut Entry<'_, '_>) -> Option<Direction> {
    let direction = entry.required_text("direction")?;
    match direction.value.as_str() {
        "up" => Some(Direction::Up),
        "down" => Some(Direction::Down),
        "both" => Some(Direction::Both),
        found => {
            let message =
                format!("key `direction`: found {found:?}, expected \"up\", \"down\" or \"both\"");
            entry.fault(&direction.place, message);
            None
        }
    }
}

/// Whether a text is a plain subject token that no encoding touches.
pub(super) fn is_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    is_filter(text) && text.bytes().all(plain)
}

fn check_types(
    entry: &mut Entry<'_, '_>,
    default: Option<&At<String>>,
    methods: &[(String, At<String>)],
) {
    let default = default.map(|at| ("default_type".to_owned(), at));
    let methods = methods
        .iter()
        .map(|(name, at)| (format!("methods.{name}"), at));
    for (key, at) in default.into_iter().chain(methods) {
        if !is_name(&at.value) {
            let found = &at.value;
            let message =
                format!("key `{key}`: found {found:?}, expected one level of a topic name");
            entry.fault(&at.place, message);
        }
    }
}

/// Keys that only one direction has.
fn check_direction(entry: &mut Entry<'_, '_>, direction: Option<Direction>) {
    let (keys, expected): (&[&str], _) = match direction {
        Some(Direction::Up) => (&["default_type", "methods"], "down"),
        Some(Direction::Down) => (&["live"], "up"),
        Some(Direction::Both) | None => return,
    };
    for key in keys {
        if let Some(found) = entry.value(key) {
            let message = format!("key `{key}`: expected only with direction = \"{expected}\"");
            entry.fault(&found.place, message);
        }
    }
}

/// Both directions at once have the topics that name no device, and only those.
fn check_levels(
    entry: &mut Entry<'_, '_>,
    direction: Option<Direction>,
    pattern: Option<&At<Pattern>>,
    subject: Option<&At<Template>>,
) {
    let (Some(direction), Some(pattern), Some(subject)) = (direction, pattern, subject) else {
        return;
    };
    let both = direction == Direction::Both;
    if pattern.value.is_any() != both || subject.value.has_levels() != both {
        let message = "key `direction`: \"both\" goes with {levels...} in `mqtt` and `nats`, expected all three or none";
        entry.fault(&pattern.place, message);
    }
}
