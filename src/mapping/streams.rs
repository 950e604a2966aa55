//! `subjects/streams.toml`: the JetStream streams as configuration objects of the JetStream API.
//!
//! The keys are those of the API; here they are checked, given their units, and `{protocol}` is filled in. Creating and
//! comparing streams is not done here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::rule::is_token;
use super::settings::{Settings, Tree};
use super::source::{At, Entry, Fault, to_json};
use super::subject::{REPLAYS, intersect, is_filter, status_fix};
use crate::message::covers;

/// A stream that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The configuration object of `$JS.API.STREAM.CREATE`: what is declared here, durations in nanoseconds. The server
    /// adds its defaults for the rest, and leaves out what is false when it is asked.
    pub config: Value,
}

/// What a key's value must be.
pub(super) enum Kind {
    Text,
    OneOf(&'static [&'static str]),
    /// An integer, at least the first; or -1 for no limit if the second says so.
    Count(i64, bool),
    Duration,
    /// A list of them.
    Durations,
    Switch,
    Filters,
    Transform,
}

/// Key, whether each must say it (SUBJECTS §5), and what it must be.
pub(super) type Key = (&'static str, bool, Kind);

const KEYS: [Key; 21] = [
    ("description", false, Kind::Text),
    ("subjects", true, Kind::Filters),
    ("subjects_handle_tree", false, Kind::Filters),
    (
        "retention",
        true,
        Kind::OneOf(&["limits", "interest", "workqueue"]),
    ),
    ("discard", true, Kind::OneOf(&["old", "new"])),
    ("discard_new_per_subject", false, Kind::Switch),
    ("max_msgs_per_subject", false, Kind::Count(1, true)),
    ("max_age", true, Kind::Duration),
    ("max_bytes", true, Kind::Count(1, true)),
    ("num_replicas", true, Kind::Count(1, false)),
    ("storage", true, Kind::OneOf(&["file", "memory"])),
    ("compression", true, Kind::OneOf(&["none", "s2"])),
    ("duplicate_window", true, Kind::Duration),
    ("allow_direct", true, Kind::Switch),
    ("allow_batched", true, Kind::Switch),
    ("allow_atomic", false, Kind::Switch),
    ("allow_msg_ttl", false, Kind::Switch),
    ("allow_rollup_hdrs", false, Kind::Switch),
    ("deny_delete", false, Kind::Switch),
    ("subject_delete_marker_ttl", false, Kind::Duration),
    ("subject_transform", false, Kind::Transform),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transform {
    src: String,
    dest: String,
}

/// The streams of all files while they are read: a later file's stream of the same name changes the keys that it has.
pub(super) struct Declared<'s> {
    settings: &'s Settings,
    list: Vec<Declaration>,
}

/// One stream while it is read.
pub(super) struct Declaration {
    name: String,
    /// File and line of its first key.
    place: String,
    keys: BTreeMap<String, At<Value>>,
}

/// Reads the keys of a stream or durable, beside `others`.
pub(super) fn read_keys(
    entry: &mut Entry<'_, '_>,
    others: &[&str],
    keys: &[Key],
    settings: &Settings,
) -> BTreeMap<String, At<Value>> {
    let own = keys.iter().map(|(key, ..)| *key);
    let known: Vec<&str> = others.iter().copied().chain(own).collect();
    entry.only(&known);
    let mut read = BTreeMap::new();
    for (key, _, kind) in keys {
        let Some(found) = entry.value(key) else {
            continue;
        };
        let fill = |text: &str| text.replace("{protocol}", &settings.protocol);
        let json = found.map(|value| to_json(value, &fill));
        if let Some(value) = kind.read(&json.value) {
            read.insert((*key).to_owned(), json.map(|_| value));
        } else {
            let (found, expected) = (&json.value, kind.expected());
            let message = format!("key `{key}`: found {found}, expected {expected}");
            entry.fault(&json.place, message);
        }
    }
    read
}

/// Reads the name of a stream or durable.
pub(super) fn read_name(entry: &mut Entry<'_, '_>) -> Option<At<String>> {
    let name = entry.required_text("name")?;
    if !is_token(&name.value) {
        let found = &name.value;
        let message = format!("key `name`: found {found:?}, expected letters, digits, `_` and `-`");
        entry.fault(&name.place, message);
    }
    Some(name)
}

impl<'s> Declared<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        Self {
            settings,
            list: Vec::new(),
        }
    }

    /// Reads a `[[stream]]`.
    pub(super) fn read(&mut self, entry: &mut Entry<'_, '_>) {
        let keys = read_keys(entry, &["name"], &KEYS, self.settings);
        let Some(name) = read_name(entry) else {
            return;
        };
        match self
            .list
            .iter_mut()
            .find(|stream| stream.name == name.value)
        {
            Some(stream) => stream.keys.extend(keys),
            None => self.list.push(Declaration {
                name: name.value,
                place: entry.place().to_owned(),
                keys,
            }),
        }
    }

    /// Checks the streams with each other.
    pub(super) fn finish(mut self, faults: &mut Vec<Fault>) -> Filed {
        for stream in &mut self.list {
            stream.choose_subjects(self.settings.tree);
            stream.check_complete(faults);
        }
        let filed = Filed(self.list);
        filed.check_overlaps(faults);
        filed.check_outside(&status_fix(&self.settings.protocol), faults);
        filed.check_outside("_jw.>", faults);
        filed.check_outside(REPLAYS, faults);
        filed
    }
}

impl Declaration {
    fn choose_subjects(&mut self, tree: Tree) {
        if let Some(subjects) = self.keys.remove("subjects_handle_tree")
            && tree == Tree::Handle
        {
            self.keys.insert("subjects".to_owned(), subjects);
        }
    }

    fn check_complete(&self, faults: &mut Vec<Fault>) {
        for (key, required, kind) in &KEYS {
            if *required && !self.keys.contains_key(*key) {
                let message = format!("key `{key}`: missing, expected {}", kind.expected());
                self.fault(&self.place, message, faults);
            }
        }
    }

    fn fault(&self, place: &str, message: String, faults: &mut Vec<Fault>) {
        faults.push(Fault {
            place: place.to_owned(),
            message: format!("stream {}: {message}", self.name),
        });
    }

    /// Its subjects and where they stand.
    fn subjects(&self) -> impl Iterator<Item = (&str, &str)> {
        let subjects = self.keys.get("subjects").into_iter();
        subjects.flat_map(|at| {
            let filters = at.value.as_array().into_iter().flatten();
            filters.filter_map(|filter| Some((filter.as_str()?, &*at.place)))
        })
    }
}

/// The streams of all files, checked.
pub(super) struct Filed(Vec<Declaration>);

impl Filed {
    /// The stream of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|stream| stream.name == name)
    }

    /// Whether a stream stores all subjects of a filter.
    pub(super) fn stores_all(&self, name: &str, filter: &str) -> bool {
        let named = self.0.iter().filter(|stream| stream.name == name);
        named
            .flat_map(Declaration::subjects)
            .any(|(outer, _)| covers(outer, filter))
    }

    /// A stream that stores some subject of a filter.
    pub(super) fn storing(&self, filter: &str) -> Option<&str> {
        let stores =
            |stream: &&Declaration| stream.subjects().any(|(own, _)| intersect(own, filter));
        self.0.iter().find(stores).map(|stream| &*stream.name)
    }

    /// Lets a stream take these subjects too.
    pub(super) fn take(&mut self, name: &str, filter: &str) {
        let named = self.0.iter_mut().filter(|stream| stream.name == name);
        for subjects in named.filter_map(|stream| stream.keys.get_mut("subjects")) {
            if let Value::Array(subjects) = &mut subjects.value {
                subjects.push(filter.into());
            }
        }
    }

    /// The streams as what the JetStream API takes.
    pub(super) fn into_streams(self) -> Vec<Stream> {
        let stream = |declared: Declaration| {
            let keys = declared.keys.into_iter().map(|(key, at)| (key, at.value));
            let name = ("name".to_owned(), declared.name.clone().into());
            Stream {
                config: keys.chain([name]).collect(),
                name: declared.name,
            }
        };
        self.0.into_iter().map(stream).collect()
    }

    /// No subject may be stored twice.
    fn check_overlaps(&self, faults: &mut Vec<Fault>) {
        let all = self
            .0
            .iter()
            .flat_map(|stream| stream.subjects().map(move |own| (stream, own)));
        let all: Vec<_> = all.collect();
        for (at, (stream, (filter, place))) in all.iter().enumerate() {
            for (other, (earlier, _)) in all.iter().take(at) {
                if intersect(filter, earlier) {
                    let name = &other.name;
                    let message = format!(
                        "key `subjects`: {filter} overlaps {earlier} of stream {name}, expected no subject in two"
                    );
                    stream.fault(place, message, faults);
                }
            }
        }
    }

    /// Some subjects may not be stored at all.
    fn check_outside(&self, reserved: &str, faults: &mut Vec<Fault>) {
        for stream in &self.0 {
            for (filter, place) in stream.subjects() {
                if intersect(filter, reserved) {
                    let message = format!(
                        "key `subjects`: {filter} takes {reserved}, expected it in no stream"
                    );
                    stream.fault(place, message, faults);
                }
            }
        }
    }
}

impl Kind {
    /// What a value must be, in words.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::OneOf(choices) => format!("one of {}", choices.join(", ")),
            Self::Count(least, true) => format!("-1 or an integer, at least {least}"),
            Self::Count(least, false) => format!("an integer, at least {least}"),
            Self::Duration => "a duration such as \"90s\", \"2m\", \"1h\" or \"7d\"".to_owned(),
            Self::Durations => "a list of durations such as \"10s\" or \"1m\"".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Filters => "a list of subject filters".to_owned(),
            Self::Transform => "{ src = a subject filter, dest = a subject }".to_owned(),
        }
    }

    /// The value for the API; none if it is not what it must be.
    pub(super) fn read(&self, value: &Value) -> Option<Value> {
        let good = match self {
            Self::Text => value.is_string(),
            Self::OneOf(choices) => choices.contains(&value.as_str()?),
            Self::Count(least, unlimited) => {
                let count = value.as_i64()?;
                count >= *least || (*unlimited && count == -1)
            }
            Self::Duration => return nanoseconds(value.as_str()?).map(Into::into),
            Self::Durations => {
                let steps = value.as_array().filter(|steps| !steps.is_empty())?;
                let read = |step: &Value| nanoseconds(step.as_str()?).filter(|step| *step > 0);
                return Some(steps.iter().map(read).collect::<Option<Vec<_>>>()?.into());
            }
            Self::Switch => value.is_boolean(),
            Self::Filters => {
                let filters = value.as_array()?;
                let good = |filter: &Value| filter.as_str().is_some_and(is_filter);
                !filters.is_empty() && filters.iter().all(good)
            }
            Self::Transform => {
                let read = Transform::deserialize(value).ok()?;
                is_filter(&read.src) && !read.dest.is_empty()
            }
        };
        good.then(|| value.clone())
    }
}

/// `90s`, `2m`, `1h`, `7d` in nanoseconds, as the JetStream API has them.
fn nanoseconds(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let number = number.parse::<u32>().ok()?;
    i64::from(number)
        .checked_mul(seconds)?
        .checked_mul(1_000_000_000)
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
