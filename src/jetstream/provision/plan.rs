//! All streams and durables: what would be changed, and changing it.

use serde::Serialize;

use super::difference::{Difference, differences};
use super::durable::Durable;
use super::floors::Floors;
use super::stream::{self, Stream};
use crate::jetstream::{Error, Link};

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A stream.
    Stream,
    /// A durable consumer.
    Durable,
}

/// What has to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is missing.
    Create,
    /// It differs.
    Update,
    /// Nothing.
    Keep,
}

/// What has to be done about one stream or durable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What it is.
    pub kind: Kind,
    /// `<stream>` or `<stream>/<durable>`.
    pub name: String,
    /// What has to be done.
    pub action: Action,
    /// What differs, where it is there.
    pub differences: Vec<Difference>,
}

/// A change that was made or refused.
#[derive(Debug)]
pub struct Applied {
    /// The change.
    pub change: Change,
    /// Whether it was made; the server's words otherwise.
    pub outcome: Result<(), Error>,
}

impl Change {
    pub(super) fn of(kind: Kind, name: String, found: Option<Vec<Difference>>) -> Self {
        let action = match &found {
            None => Action::Create,
            Some(differences) if differences.is_empty() => Action::Keep,
            Some(_) => Action::Update,
        };
        Self {
            kind,
            name,
            action,
            differences: found.unwrap_or_default(),
        }
    }
}

/// What has to be done about each, in this order; nothing is changed.
///
/// # Errors
/// [`Error::Request`] when the server does not answer, [`Error::Stream`] when it refuses to say.
pub async fn plan(
    link: &Link,
    streams: &[Stream],
    durables: &[Durable],
) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::with_capacity(streams.len() + durables.len());
    for stream in streams {
        let found = stream::found(link, &stream.name).await?;
        let found = found.map(|found| differences(&stream.config, &found.config));
        changes.push(Change::of(Kind::Stream, stream.name.clone(), found));
    }
    for durable in durables {
        let found = durable.found(link).await?;
        let found = found.map(|found| durable.differences(&found.config));
        changes.push(Change::of(Kind::Durable, durable.label(), found));
    }
    Ok(changes)
}

/// Does what [`plan`] says; one that is refused does not hold up the others.
///
/// # Errors
/// As [`plan`].
pub async fn apply(
    link: &Link,
    streams: &[Stream],
    durables: &[Durable],
    floors: &Floors,
) -> Result<Vec<Applied>, Error> {
    let mut applied = Vec::new();
    for change in plan(link, streams, durables).await? {
        let stream = || streams.iter().find(|stream| stream.name == change.name);
        let durable = || durables.iter().find(|own| own.label() == change.name);
        let outcome = match (change.kind, change.action) {
            (_, Action::Keep) => Ok(()),
            (Kind::Stream, action) => match stream() {
                Some(stream) if action == Action::Create => {
                    stream::create(link, "CREATE", stream).await.map(drop)
                }
                Some(stream) => stream::create(link, "UPDATE", stream).await.map(drop),
                None => Ok(()),
            },
            (Kind::Durable, action) => match durable() {
                Some(durable) if action == Action::Create => {
                    durable.create(link, floors).await.map(drop)
                }
                Some(durable) => match durable.found(link).await {
                    Ok(Some(found)) => durable.update(link, &found.config).await,
                    Ok(None) => durable.create(link, floors).await.map(drop),
                    Err(error) => Err(error),
                },
                None => Ok(()),
            },
        };
        applied.push(Applied { change, outcome });
    }
    Ok(applied)
}
