//! What rules may not do to each other, to the settings and to the streams. Run once, when they are loaded.
//!
//! What holds afterwards: a topic has at most one rule, a subject has at most one rule and one stream, and a live copy
//! is stored nowhere.

use super::held;
use super::rule::{Rule, is_token};
use super::settings::{Profile, Settings};
use super::source::Fault;
use super::streams::Filed;
use super::subject::intersect;
use crate::device::Direction;

/// Checks the whole set.
pub(super) fn check(rules: &[Rule], streams: &Filed, settings: &Settings, faults: &mut Vec<Fault>) {
    check_settings(rules, settings, faults);
    for (at, rule) in rules.iter().enumerate() {
        for earlier in rules.iter().take(at) {
            check_pair(rule, earlier, faults);
        }
        check_stream(rule, streams, faults);
    }
    check_delivery(rules, faults);
}

/// Every node reads what devices get in one order, from one stream.
fn check_delivery(rules: &[Rule], faults: &mut Vec<Fault>) {
    let mut down = rules.iter().filter(|rule| rule.is_delivered());
    let Some(first) = down.next() else {
        return;
    };
    for rule in down.filter(|rule| rule.stream.value != first.stream.value) {
        faults.push(Fault {
            place: rule.stream.place.clone(),
            message: format!(
                "{}: key `stream`: found {:?}, expected the stream of all rules with direction = \"down\", {:?}",
                rule.label, rule.stream.value, first.stream.value
            ),
        });
    }
}

fn check_settings(rules: &[Rule], settings: &Settings, faults: &mut Vec<Fault>) {
    let mut fault = |place: &str, message: String| {
        faults.push(Fault {
            place: format!("mapping.{place}"),
            message,
        });
    };
    let protocol = &settings.protocol;
    if !is_token(protocol) {
        fault(
            "protocol",
            format!("found {protocol:?}, expected letters, digits, `_` and `-`"),
        );
    }
    let up = |handle: &&String| {
        let known = |rule: &Rule| rule.direction == Direction::Up && rule.handle.value == **handle;
        !rules.iter().any(known)
    };
    // Only handles of devices have live copies; the default names them.
    let live = settings
        .live
        .iter()
        .filter(|_| settings.profile == Profile::Device);
    for handle in live.filter(up) {
        fault(
            "live",
            format!("no rule with direction = \"up\" has the handle {handle:?}"),
        );
    }
    for handle in settings.forms.keys().filter(up) {
        fault(
            "forms",
            format!("no rule with direction = \"up\" has the handle {handle:?}"),
        );
    }
    for rule in rules.iter().filter(|rule| rule.handle.value == *protocol) {
        faults.push(Fault {
            place: rule.handle.place.clone(),
            message: format!(
                "{}: key `handle`: {protocol:?} is the protocol's code, expected another name",
                rule.label
            ),
        });
    }
}

fn check_pair(rule: &Rule, earlier: &Rule, faults: &mut Vec<Fault>) {
    let mut fault = |place: &str, message: String| {
        faults.push(Fault {
            place: place.to_owned(),
            message: format!("{}: {message}", rule.label),
        });
    };
    if rule.pattern.value.overlaps(&earlier.pattern.value) {
        let (own, place, other) = (&rule.pattern.value, &rule.pattern.place, &earlier.pattern);
        let message = format!(
            "key `mqtt`: {own} overlaps {} ({}), expected each topic in one rule",
            other.value, other.place
        );
        fault(place, message);
    }
    let same_handle = rule.handle.value == earlier.handle.value;
    if same_handle && rule.direction == earlier.direction {
        let message = format!(
            "key `handle`: {:?} has a rule of this direction ({}), expected one",
            rule.handle.value, earlier.handle.place
        );
        fault(&rule.handle.place, message);
    }
    for (key, own) in rule.subjects() {
        for (_, other) in earlier.subjects() {
            let (filter, taken) = (own.value.filter(), other.value.filter());
            if intersect(&filter, &taken) {
                let place = &other.place;
                let message = format!(
                    "key `{key}`: {filter} overlaps {taken} ({place}), expected each subject in one rule"
                );
                fault(&own.place, message);
            }
        }
    }
}

fn check_stream(rule: &Rule, streams: &Filed, faults: &mut Vec<Fault>) {
    let mut fault = |place: &str, message: String| {
        faults.push(Fault {
            place: place.to_owned(),
            message: format!("{}: {message}", rule.label),
        });
    };
    let name = &*rule.stream.value;
    if !streams.has(name) {
        fault(
            &rule.stream.place,
            format!("key `stream`: {name:?} is not declared, expected a [[stream]]"),
        );
    }
    if let Some((key, subject)) = rule.subjects().next() {
        let filter = subject.value.filter();
        if streams.has(name) && !streams.stores_all(name, &filter) {
            let message = format!(
                "key `{key}`: {filter} is not stored in {name}, expected it in that stream's subjects"
            );
            fault(&subject.place, message);
        }
    }
    if rule.direction == Direction::Both && !streams.stores_all(name, held::ALL) {
        let message = format!(
            "key `stream`: {} is not stored in {name}, expected it in that stream's subjects",
            held::ALL
        );
        fault(&rule.stream.place, message);
    }
    if let Some(live) = &rule.live
        && let Some(storing) = streams.storing(&live.value.filter())
    {
        let message = format!(
            "key `live`: {} is stored in {storing}, expected a subject of no stream",
            live.value.filter()
        );
        fault(&live.place, message);
    }
}
