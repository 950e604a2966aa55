//! One message of a device to the positions that it reports.
//!
//! Read are `report`, `packReport` with its sub-devices, and `position` of `reportInfo`, all of `thing/property`. Any other message has
//! none, and no fault: what is wrong with a message as such is the thing model's to say. Of the parameters of one entry the first
//! rule that finds something decides; half a position counts only if there is no whole one.

use std::mem;
use std::ops::ControlFlow;
use std::slice;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::convert::convert;
use super::flags::Flags;
use super::nmea;
use super::point::{Draft, Found};
use super::report::Report;
use super::rule::{Form, Rule};
use super::rules::Rules;
use super::time;
use super::tree::Value;
use crate::device::DeviceId;
use crate::event::{self, DEPTH_MAX, Fault, descend, reason};
use crate::thing::request::{Request, elements, text};

/// How many entries of a message are read, and how many reports it may give; what is more is a fault.
pub const POINTS_MAX: usize = 10_000;
/// How many faults are told of one message; the last one says how many more there are.
pub const FAULTS_MAX: usize = 8;
/// How far from 0,0 in both coordinates is still none of the earth's places, degrees (G35): about 110 metres.
const NOWHERE_DEG: f64 = 0.001;

/// Where a message comes from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The device of its topic.
    pub device: &'a DeviceId,
    /// property, event, …
    pub type_: &'a str,
    /// thing, ext, …
    pub handle: &'a str,
    /// When the gateway received it, Unix milliseconds.
    pub received_ms: u64,
}

/// The positions of a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extraction {
    /// In the order of the message; at most [`POINTS_MAX`].
    pub reports: Vec<Report>,
    /// What a rule found and cannot be a position; at most [`FAULTS_MAX`].
    pub faults: Vec<Fault>,
}

/// The positions that a message reports.
///
/// Never fails, and never panics whatever the bytes are. Takes time and memory in proportion to the payload; one without any name
/// that the rules look for is not parsed. `may_act_for` says whether the message's device may report for another one; entries
/// of others are passed over.
#[must_use]
pub fn extract(
    payload: &Bytes,
    source: &Source<'_>,
    rules: &Rules,
    may_act_for: &dyn Fn(&DeviceId) -> bool,
) -> Extraction {
    if (source.handle, source.type_) != ("thing", "property") || !rules.may_have(payload) {
        return Extraction::default();
    }
    let Ok(text) = event::check(payload, DEPTH_MAX) else {
        return Extraction::default();
    };
    let mut reading = Reading {
        source,
        rules,
        entries: 0,
        is_full: false,
        more_faults: 0,
        extraction: Extraction::default(),
    };
    // A fault of the message's own shape is the thing model's.
    let _read = reading.message(text, may_act_for);
    reading.finish()
}

/// A message while it is read.
struct Reading<'a> {
    source: &'a Source<'a>,
    rules: &'a Rules,
    /// How many entries there were so far.
    entries: usize,
    /// Whether it was told that there are too many.
    is_full: bool,
    /// How many faults are not told.
    more_faults: usize,
    extraction: Extraction,
}

/// The parameters of a report, or of an entry of a pack report.
struct Entry<'e> {
    device: &'e DeviceId,
    params: &'e RawValue,
    /// What stands beside the parameters.
    time: Option<&'e RawValue>,
    path: String,
    /// Whether only the property `position` is read.
    is_info: bool,
}

impl Reading<'_> {
    fn message(
        &mut self,
        document: &str,
        may_act_for: &dyn Fn(&DeviceId) -> bool,
    ) -> Result<(), Fault> {
        let request = Request::read(document, "")?;
        let method = text(request.method, "/method")?;
        match method.as_deref() {
            Some(method @ ("report" | "reportInfo")) => {
                if let Some(params) = request.params {
                    self.entry(&Entry {
                        device: self.source.device,
                        params,
                        time: request.timestamp,
                        path: "/params".to_owned(),
                        is_info: method == "reportInfo",
                    });
                }
            }
            Some("packReport") => {
                self.pack(self.source.device, &request, "");
                let sub_devices = elements(request.sub_devices, "/subDevices")?;
                for (at, raw) in sub_devices.into_iter().enumerate() {
                    // One that is not named rightly is the thing model's fault.
                    let path = format!("/subDevices/{at}");
                    let _passed_over = self.sub_device(raw, &path, may_act_for);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn sub_device(
        &mut self,
        raw: &RawValue,
        path: &str,
        may_act_for: &dyn Fn(&DeviceId) -> bool,
    ) -> Result<(), Fault> {
        let request = Request::read(raw.get(), path)?;
        let product = text(request.product_id, path)?.unwrap_or_default();
        let name = text(request.device_name, path)?.unwrap_or_default();
        match DeviceId::new(&product, &name) {
            Ok(device) if may_act_for(&device) => self.pack(&device, &request, path),
            // Its entries keep their numbers, so that a binding that changes moves no other point's.
            _ => self.entries += elements(request.properties, path)?.len(),
        }
        Ok(())
    }

    /// The entries of a pack report, or of a sub-device in one; time is what each says itself.
    fn pack(&mut self, device: &DeviceId, request: &Request<'_>, path: &str) {
        let entries = elements(request.properties, path).unwrap_or_default();
        for (at, raw) in entries.into_iter().enumerate() {
            let entry = Request::read(raw.get(), path).unwrap_or_default();
            match entry.params {
                None => self.entries += 1,
                Some(params) => self.entry(&Entry {
                    device,
                    params,
                    time: entry.timestamp,
                    path: format!("{path}/properties/{at}/params"),
                    is_info: false,
                }),
            }
        }
    }

    /// The position in some parameters, by the first rule that finds something.
    fn entry(&mut self, entry: &Entry<'_>) {
        let number = self.entries;
        self.entries += 1;
        if number >= POINTS_MAX {
            if !mem::replace(&mut self.is_full, true) {
                let rule = format!("expected a message of at most {POINTS_MAX} entries");
                self.fault(Fault::new(reason::TOO_MANY, &*entry.path, rule));
            }
            return;
        }
        let params = Value::new(entry.params);
        let time_ms = entry.time.and_then(|raw| time::read(&Value::new(raw)));
        let mut doubtful = None;
        let mut certain = None;
        for rule in self.rules.of(entry.device.product()) {
            let reference_ms = time_ms.unwrap_or(self.source.received_ms);
            let mut look = |place: &Value<'_>, names: &[&str]| {
                if entry.is_info && names.first() != Some(&"position") {
                    return ControlFlow::Continue(());
                }
                match look(rule, place, &|| pointer(&entry.path, names), reference_ms) {
                    Found::Nothing => ControlFlow::Continue(()),
                    Found::Doubtful(one) => {
                        doubtful.get_or_insert(one);
                        ControlFlow::Continue(())
                    }
                    Found::Certain(all) => {
                        certain = Some(all);
                        ControlFlow::Break(())
                    }
                }
            };
            let mut at = rule.at.iter();
            if at
                .try_for_each(|tokens| walk(&params, tokens, &mut Vec::new(), &mut look))
                .is_break()
            {
                break;
            }
        }
        let all = certain.or_else(|| doubtful.map(|one| vec![one]));
        for (fix, found) in all.into_iter().flatten().enumerate() {
            match found {
                Ok(draft) => self.report(entry, number * nmea::FIXES_MAX + fix, time_ms, &draft),
                Err(fault) => self.fault(fault),
            }
        }
    }

    /// Adds what a rule found as a report.
    fn report(&mut self, entry: &Entry<'_>, index: usize, time_ms: Option<u64>, draft: &Draft) {
        if self.extraction.reports.len() >= POINTS_MAX {
            let rule = format!("expected a message of at most {POINTS_MAX} positions");
            return self.fault(Fault::new(reason::TOO_MANY, &*entry.path, rule));
        }
        let settings = &self.rules.settings;
        let received_ms = self.source.received_ms;
        let device_ms = draft.device_ms.or(time_ms);
        let mut flags = draft.flags;
        if draft.latitude.abs() < NOWHERE_DEG && draft.longitude.abs() < NOWHERE_DEG {
            flags |= Flags::NO_FIX;
        }
        flags |= match device_ms {
            None => Flags::NO_TIME,
            Some(at) if at > received_ms.saturating_add(settings.future_max_ms) => {
                Flags::TIME_IN_FUTURE
            }
            Some(at) if at.saturating_add(settings.past_max_ms) < received_ms => {
                Flags::TIME_TOO_OLD
            }
            Some(_) => Flags::NONE,
        };
        let system = settings.convert_to.unwrap_or(draft.system);
        if system != draft.system {
            flags |= Flags::CONVERTED;
        }
        let (latitude, longitude) = convert(draft.system, system, draft.latitude, draft.longitude);
        self.extraction.reports.push(Report {
            device: entry.device.clone(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            latitude,
            longitude,
            system,
            altitude_m: draft.altitude_m,
            speed_mps: draft.speed_mps,
            course_deg: draft.course_deg,
            satellites: draft.satellites,
            hdop: draft.hdop,
            accuracy_m: draft.accuracy_m,
            device_ms,
            received_ms,
            flags,
        });
    }

    fn fault(&mut self, fault: Fault) {
        match self.extraction.faults.len() < FAULTS_MAX {
            true => self.extraction.faults.push(fault),
            false => self.more_faults += 1,
        }
    }

    fn finish(mut self) -> Extraction {
        let more = self.more_faults;
        if let Some(last) = self.extraction.faults.last_mut().filter(|_| more > 0) {
            let faults = if more == 1 { "fault" } else { "faults" };
            last.rule.push_str(&format!("; and {more} more {faults}"));
        }
        self.extraction
    }
}

/// What a rule finds at a place.
fn look(rule: &Rule, place: &Value<'_>, path: &dyn Fn() -> String, reference_ms: u64) -> Found {
    let holds = |(at, expected): &(Vec<String>, String)| {
        let text = place.at(at).and_then(Value::text);
        text.is_some_and(|text| text == *expected)
    };
    if !rule.when.iter().all(holds) {
        return Found::Nothing;
    }
    match &rule.form {
        Form::Numbers(numbers) => numbers.read(place, path),
        Form::Nmea => match place.text() {
            None => Found::Nothing,
            Some(text) => nmea::read(&text, path, reference_ms),
        },
    }
}

/// Calls `look` with each place that tokens lead to from a value, and the names on the way there, until it breaks.
fn walk<'v>(
    value: &'v Value<'_>,
    tokens: &'v [String],
    names: &mut Vec<&'v str>,
    look: &mut dyn FnMut(&Value<'_>, &[&str]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((token, rest)) = tokens.split_first() else {
        return look(value, names);
    };
    let mut go_on = |name: &'v str, inner: &'v Value<'_>| {
        names.push(name);
        let flow = walk(inner, rest, names, look);
        names.pop();
        flow
    };
    if token == "*" {
        let mut members = value.members();
        return members.try_for_each(|(name, inner)| go_on(name, inner));
    }
    match value.at(slice::from_ref(token)) {
        Some(inner) => go_on(token, inner),
        None => ControlFlow::Continue(()),
    }
}

/// The JSON pointer of a place.
fn pointer(path: &str, names: &[&str]) -> String {
    let mut pointer = path.to_owned();
    for name in names {
        descend(&mut pointer, name);
    }
    pointer
}

#[cfg(test)]
#[path = "extraction_tests.rs"]
pub(super) mod tests;
