//! Which properties and parameters of a message go out.
//!
//! A bad property is left out and the others go out; a bad parameter of an event or action costs the whole.

use std::collections::BTreeMap;

use super::body::Param;
use super::definition::Definition;
use super::interpretation::Unknown;
use super::model::Schema;
use super::request::check_identifier;
use crate::event::{Fault, Members, descend, reason};

/// The faults of one message: the first, and how many more.
#[derive(Default)]
pub(super) struct Faults {
    first: Option<Fault>,
    more: usize,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        match self.first {
            None => self.first = Some(fault),
            Some(_) => self.more += 1,
        }
    }

    /// The first one, which says how many more there are.
    pub(super) fn finish(self) -> Option<Fault> {
        let Self { first, more } = self;
        first.map(|mut fault| {
            if more > 0 {
                let faults = if more == 1 { "fault" } else { "faults" };
                fault.rule.push_str(&format!("; and {more} more {faults}"));
            }
            fault
        })
    }
}

/// The properties that go out, of an object at `path`.
pub(super) fn good<'a>(
    members: Members<'a>,
    schema: Option<&Schema>,
    unknown: Unknown,
    path: &str,
    faults: &mut Faults,
) -> Vec<Param<'a>> {
    let mut place = path.to_owned();
    let mut keep = |(id, value): &Param<'a>| {
        place.truncate(path.len());
        descend(&mut place, id);
        let checked = check_identifier(id, &place).and_then(|()| match schema {
            None => Ok(true),
            Some(schema) => match schema.property(id) {
                Some(definition) => definition.check(value, &mut place).map(|()| true),
                None => keep_unknown(unknown, &place),
            },
        });
        checked.unwrap_or_else(|fault| {
            faults.add(fault);
            false
        })
    };
    let mut params = members.0;
    params.retain(|param| keep(param));
    params
}

/// The parameters that go out, of an object at `path`; `declared` are those of the model, all of them there if they are `required`.
pub(super) fn all_good<'a>(
    members: Members<'a>,
    declared: Option<&BTreeMap<String, Definition>>,
    required: bool,
    unknown: Unknown,
    path: &str,
) -> Result<Vec<Param<'a>>, Fault> {
    let mut place = path.to_owned();
    let mut params = Vec::with_capacity(members.0.len());
    let mut known = 0;
    for (id, value) in members.0 {
        place.truncate(path.len());
        descend(&mut place, &id);
        check_identifier(&id, &place)?;
        let goes_out = match declared.map(|declared| declared.get(&*id)) {
            None => true,
            Some(Some(definition)) => {
                definition.check(value, &mut place)?;
                known += 1;
                true
            }
            Some(None) => keep_unknown(unknown, &place)?,
        };
        if goes_out {
            params.push((id, value));
        }
    }
    match declared.filter(|declared| required && known < declared.len()) {
        None => Ok(params),
        Some(declared) => {
            let is_there = |name: &str| params.iter().any(|(id, _)| id == name);
            let missing = declared.keys().find(|name| !is_there(name));
            place.truncate(path.len());
            descend(&mut place, missing.map_or("", String::as_str));
            let rule = "expected every parameter that the model declares";
            Err(Fault::new(reason::MISSING, place, rule))
        }
    }
}

/// Whether an identifier that the model does not have goes out.
pub(super) fn keep_unknown(unknown: Unknown, path: &str) -> Result<bool, Fault> {
    match unknown {
        Unknown::Keep => Ok(true),
        Unknown::Drop => Ok(false),
        Unknown::DeadLetter => {
            let rule = "expected an identifier of the product's model";
            Err(Fault::new(reason::UNKNOWN, path, rule))
        }
    }
}
