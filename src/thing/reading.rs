//! One message, read by its method: what it says, whether that is good, and how its device is answered.
//!
//! Which replies of devices are events: an `actionReply` and the data of a `getReportReply`, both are news for applications. A
//! `controlReply` is none: what it set is reported by the device when it holds. `reportInfo` and `getStatus` are none either, they are
//! the platform's own business; and in a pack report `isOnline` says nothing: presence is what the gateway saw itself.

use serde_json::value::RawValue;

use super::body::{Said, What};
use super::interpretation::{Interpretation, Knowledge, Origin, Settings};
use super::model::{EVENT_TYPES, Model};
use super::properties::{Faults, all_good, good, keep_unknown};
use super::publication::Publication;
use super::reply::{Answer, OK, Times};
use super::request::{Request, elements, identifier, members, number, shape, text};
use crate::device::DeviceId;
use crate::event::{Fault, reason};

/// Before 2010 no device has sampled anything: its clock is not set, or counts seconds.
const SAMPLED_MIN_MS: u64 = 1_262_304_000_000;
/// How far a device's clock may be ahead: one day.
const AHEAD_MAX_MS: u64 = 86_400_000;

/// A message while it is read.
pub(super) struct Reading<'a> {
    origin: &'a Origin<'a>,
    settings: &'a Settings,
    knowledge: &'a Knowledge<'a>,
    publication: Publication<'a>,
    faults: Faults,
}

/// Who says something: the message's device, or one that is behind it.
#[derive(Clone, Copy)]
struct Speaker<'s> {
    device: &'s DeviceId,
    model: Option<&'s Model>,
    msg_token: Option<&'s str>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        origin: &'a Origin<'a>,
        settings: &'a Settings,
        knowledge: &'a Knowledge<'a>,
    ) -> Self {
        Self {
            origin,
            settings,
            knowledge,
            publication: Publication::new(origin, settings),
            faults: Faults::default(),
        }
    }

    /// Reads a document that is JSON.
    pub(super) fn read(mut self, document: &str) -> Interpretation {
        let model = (self.knowledge.model)(self.origin.device.product());
        let answer = self.dispatch(document, model.as_deref());
        let answer = answer.unwrap_or_else(|fault| {
            self.faults.add(fault);
            None
        });
        let events = self.publication.finish().unwrap_or_else(|fault| {
            self.faults.add(fault);
            Vec::new()
        });
        let fault = self.faults.finish();
        let answer = answer.filter(|answer| model.is_some_and(|model| model.answers(answer.type_)));
        Interpretation {
            reply: answer.and_then(|answer| answer.reply(!events.is_empty(), fault.as_ref())),
            events,
            fault,
        }
    }

    /// Does what the method says; gives what a device waits for.
    fn dispatch<'d>(
        &mut self,
        document: &'d str,
        model: Option<&Model>,
    ) -> Result<Option<Answer<'d>>, Fault> {
        let request = Request::read(document, "")?;
        let method = text(request.method, "/method")?;
        let method = method.ok_or_else(|| shape("/method", "expected a method"))?;
        let msg_token = text(request.msg_token, "/msgToken")?;
        let speaker = Speaker {
            device: self.origin.device,
            model,
            msg_token: msg_token.as_deref(),
        };
        let mut times = None;
        let (result, reply) = match (self.origin.type_, &*method) {
            ("property", "report") => {
                let said = self.properties(speaker, &request, request.params, "/params");
                (said, "reportReply")
            }
            ("property", "packReport") => (self.pack(speaker, &request), "packReportReply"),
            ("event", "eventPost") => (self.event(speaker, &request, ""), "eventReply"),
            ("ntp", "getNtp") => {
                times = Some(Times {
                    device_send_time: number(request.timestamp),
                    server_recv_time: self.origin.received_ms,
                });
                (Ok(()), "getNtpReply")
            }
            ("property", "getReportReply") => {
                let is_answer = number(request.code) == Some(u64::from(OK));
                if let (true, Some(data)) = (is_answer, request.data) {
                    self.properties(speaker, &request, Some(data), "/data")?;
                }
                return Ok(None);
            }
            ("property", "controlReply" | "reportInfo" | "getStatus") => return Ok(None),
            ("action", "action") => return self.action(speaker, &request, false).map(|()| None),
            ("action", "actionReply") => {
                return self.action(speaker, &request, true).map(|()| None);
            }
            (type_, _) => {
                let rule = format!("expected a method of type {type_}, found {method:?}");
                return Err(Fault::new(reason::METHOD, "/method", rule));
            }
        };
        result.unwrap_or_else(|fault| self.faults.add(fault));
        Ok(Some(Answer {
            type_: match self.origin.type_ {
                "event" => "event",
                "ntp" => "ntp",
                _ => "property",
            },
            method: reply,
            sys: request.sys(),
            msg_token,
            times,
        }))
    }

    /// Properties, as an object at `path`.
    fn properties(
        &mut self,
        speaker: Speaker<'_>,
        request: &Request<'_>,
        object: Option<&RawValue>,
        path: &str,
    ) -> Result<(), Fault> {
        let members = members(object, path)?.filter(|members| !members.0.is_empty());
        let members = members.ok_or_else(|| shape(path, "expected at least one property"))?;
        let schema = speaker.model.and_then(Model::schema);
        let unknown = self.settings.unknown_property;
        let params = good(members, schema, unknown, path, &mut self.faults);
        match params.is_empty() {
            true => Ok(()),
            false => self.say(speaker, request, What::Report(&params), path),
        }
    }

    fn pack(&mut self, speaker: Speaker<'_>, request: &Request<'_>) -> Result<(), Fault> {
        self.entries(speaker, request, "")?;
        let sub_devices = elements(request.sub_devices, "/subDevices")?;
        for (at, sub_device) in sub_devices.into_iter().enumerate() {
            let path = format!("/subDevices/{at}");
            let said = self.sub_device(speaker, sub_device, &path);
            said.unwrap_or_else(|fault| self.faults.add(fault));
        }
        Ok(())
    }

    /// A device behind the gateway device that speaks; one that it may not speak for is passed over, as on the platform.
    fn sub_device(
        &mut self,
        gateway: Speaker<'_>,
        sub_device: &RawValue,
        path: &str,
    ) -> Result<(), Fault> {
        let request = Request::read(sub_device.get(), path)?;
        let product = text(request.product_id, &format!("{path}/productID"))?;
        let name = text(request.device_name, &format!("{path}/deviceName"))?;
        let device = DeviceId::new(
            product.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default(),
        )
        .map_err(|error| Fault::new(reason::IDENTIFIER, path, error.to_string()))?;
        if !(self.knowledge.may_act_for)(&device) {
            return Ok(());
        }
        let model = (self.knowledge.model)(device.product());
        let speaker = Speaker {
            device: &device,
            model: model.as_deref(),
            ..gateway
        };
        self.entries(speaker, &request, path)
    }

    /// The properties and events of a pack report, or of a sub-device in one; a bad entry costs itself.
    fn entries(
        &mut self,
        speaker: Speaker<'_>,
        request: &Request<'_>,
        path: &str,
    ) -> Result<(), Fault> {
        let place = format!("{path}/properties");
        for (at, entry) in elements(request.properties, &place)?
            .into_iter()
            .enumerate()
        {
            let place = format!("{place}/{at}");
            let said = Request::read(entry.get(), &place).and_then(|entry| {
                self.properties(speaker, &entry, entry.params, &format!("{place}/params"))
            });
            said.unwrap_or_else(|fault| self.faults.add(fault));
        }
        let place = format!("{path}/events");
        for (at, entry) in elements(request.events, &place)?.into_iter().enumerate() {
            let place = format!("{place}/{at}");
            let said = Request::read(entry.get(), &place)
                .and_then(|entry| self.event(speaker, &entry, &place));
            said.unwrap_or_else(|fault| self.faults.add(fault));
        }
        Ok(())
    }

    /// An event: good as a whole or a fault.
    fn event(
        &mut self,
        speaker: Speaker<'_>,
        request: &Request<'_>,
        path: &str,
    ) -> Result<(), Fault> {
        let place = format!("{path}/eventID");
        let id = identifier(request.event_id, &place)?;
        let schema = speaker.model.and_then(Model::schema);
        let known = schema.and_then(|schema| schema.events.get(&*id));
        let unknown = self.settings.unknown_property;
        if schema.is_some() && known.is_none() && !keep_unknown(unknown, &place)? {
            return Ok(());
        }
        let place = format!("{path}/type");
        let type_ = text(request.type_, &place)?;
        let type_ = match &type_ {
            None => known.map_or("info", |event| event.type_),
            Some(type_) => EVENT_TYPES
                .into_iter()
                .find(|known| known == type_)
                .ok_or_else(|| {
                    let rule = format!("expected one of {}", EVENT_TYPES.join(", "));
                    Fault::new(reason::ENUM, place, rule)
                })?,
        };
        let place = format!("{path}/params");
        let members = members(request.params, &place)?.unwrap_or_default();
        let declared = known.map(|event| &event.params);
        let params = all_good(members, declared, true, unknown, &place)?;
        let what = What::Event {
            type_,
            id: &id,
            params: &params,
        };
        self.say(speaker, request, what, path)
    }

    /// A call of an action, or the answer to one: good as a whole or a fault.
    fn action(
        &mut self,
        speaker: Speaker<'_>,
        request: &Request<'_>,
        is_answer: bool,
    ) -> Result<(), Fault> {
        let id = identifier(request.action_id, "/actionID")?;
        let schema = speaker.model.and_then(Model::schema);
        let known = schema.and_then(|schema| schema.actions.get(&*id));
        let unknown = self.settings.unknown_property;
        if schema.is_some() && known.is_none() && !keep_unknown(unknown, "/actionID")? {
            return Ok(());
        }
        let code = number(request.code).filter(|_| is_answer);
        let (object, place, declared) = match is_answer {
            false => (request.params, "/params", known.map(|action| &action.input)),
            true => (request.data, "/data", known.map(|action| &action.output)),
        };
        // An answer that says that the call failed has its own data.
        let declared = declared.filter(|_| code.is_none_or(|code| code == u64::from(OK)));
        let members = members(object, place)?.unwrap_or_default();
        let params = all_good(members, declared, false, unknown, place)?;
        let msg = text(request.msg, "/msg")?;
        let what = What::Action {
            id: &id,
            is_answer,
            code,
            msg: msg.as_deref().filter(|_| is_answer),
            params: &params,
        };
        self.say(speaker, request, what, "/actionID")
    }

    fn say(
        &mut self,
        speaker: Speaker<'_>,
        request: &Request<'_>,
        what: What<'_>,
        path: &str,
    ) -> Result<(), Fault> {
        let received_ms = self.origin.received_ms;
        let plausible = SAMPLED_MIN_MS..=received_ms.saturating_add(AHEAD_MAX_MS);
        let sampled_ms = number(request.timestamp).filter(|ms| plausible.contains(ms));
        let said = Said {
            device: speaker.device,
            msg_token: speaker.msg_token,
            sampled_ms: sampled_ms.unwrap_or(received_ms),
            what,
        };
        self.publication.add(&said, path)
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
