//! A stored message to what becomes of it: whose it is, whether it is this shard's, what the thing model makes of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::models::Models;
use super::queue::{Dead, Input};
use crate::device::DeviceId;
use crate::event;
use crate::jetstream::Stored;
use crate::mapping::{EventDeath, Mapping, StoredUplink, downlink_subject};
use crate::message::{Headers, Message};
use crate::telemetry;
use crate::thing::{Fault, Interpretation, Knowledge, Origin, Reply, Settings, interpret};

/// How long a device can use an answer.
const REPLY_TTL: &str = "10s";
/// The reason of a dead letter whose events the stream refused.
const REFUSED: &str = "refused";

/// The reason of a dead letter that is not in the form in which it says it is.
const FORM: &str = "form";
/// The reason of a dead letter on which the interpretation failed.
const INTERNAL: &str = "internal";

/// Reads messages of the source stream for one shard.
pub(super) struct Reading {
    pub(super) mapping: Arc<Mapping>,
    pub(super) models: Models,
    pub(super) settings: Settings,
    pub(super) source: Arc<str>,
    pub(super) shard: u32,
    pub(super) shards: u32,
}

impl Reading {
    /// What becomes of a message. `refused`: the stream does not take its events, and why.
    pub(super) fn read(&self, created: &Arc<str>, stored: &Stored, refused: Option<&str>) -> Input {
        let uplink = self.mapping.stored_uplink(&stored.message);
        let own = uplink.filter(|uplink| self.is_own(&uplink.device));
        let mut input = Input::place(created, stored.sequence);
        if let Some(uplink) = own {
            self.interpret(&mut input, &uplink, stored, refused);
        }
        input
    }

    /// Whether a device is one of the shard; the same on every node and in every version.
    fn is_own(&self, device: &DeviceId) -> bool {
        self.shards == 1 || device.shard(self.shards) == self.shard
    }

    fn interpret(
        &self,
        input: &mut Input,
        uplink: &StoredUplink<'_>,
        stored: &Stored,
        refused: Option<&str>,
    ) {
        let received_ms = uplink.received_ms.unwrap_or(stored.time_ms);
        let traceparent = match &uplink.traceparent {
            Some(traceparent) => traceparent.to_string(),
            None => event::derived_trace(received_ms, &self.source, stored.sequence),
        };
        let origin = Origin {
            device: &uplink.device,
            type_: &uplink.kind,
            handle: uplink.handle,
            received_ms,
            stream: &self.source,
            sequence: stored.sequence,
            trace_id: traceparent.get(3..35).unwrap_or_default(),
            traceparent: &traceparent,
            downlink: false,
        };
        let Interpretation {
            mut events,
            fault,
            reply,
        } = self.interpreted(uplink, &origin);
        let mut death = fault
            .as_ref()
            .map(|fault| (fault.reason, fault.path.as_str(), fault.rule.as_str()));
        if let Some(words) = refused {
            events.clear();
            death = Some((REFUSED, "", words));
        }
        input.events = events;
        input.dead = death.map(|(reason, path, rule)| Dead {
            reason,
            message: Mapping::dead_event(
                &uplink.device,
                &stored.message,
                &EventDeath {
                    origin: "events",
                    reason,
                    path,
                    rule,
                    stream: &self.source,
                    created: &input.created,
                    sequence: stored.sequence,
                    received_ms,
                    traceparent: &traceparent,
                    now_ms: telemetry::now_unix_ms(),
                },
            ),
        });
        input.reply = reply.map(|reply| self.reply(reply, &origin));
    }

    /// What the thing model makes of it. A message that it cannot stand does not stop the ones behind it.
    fn interpreted(&self, uplink: &StoredUplink<'_>, origin: &Origin<'_>) -> Interpretation {
        let failed = |reason, rule| Interpretation {
            fault: Some(Fault::new(reason, "", rule)),
            ..Interpretation::default()
        };
        let Some(payload) = &uplink.payload else {
            return failed(FORM, "expected a jetway.v1.DeviceMessage");
        };
        let knowledge = Knowledge {
            model: &|product| self.models.get(product),
            may_act_for: &|device| uplink.sub_devices.contains(device),
        };
        let run = || interpret(payload, origin, &self.settings, &knowledge);
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_panic| failed(INTERNAL, "expected nothing that fails"))
    }

    fn reply(&self, reply: Reply, origin: &Origin<'_>) -> Message {
        let Origin {
            sequence,
            received_ms,
            ..
        } = origin;
        let id = format!("reply.{}.{sequence}.{received_ms}", self.source);
        let mut headers = Headers::with_capacity(256);
        headers.push("Nats-Msg-Id", id);
        headers.push("Nats-TTL", REPLY_TTL);
        headers.push("Jw-Type", reply.type_);
        headers.push("Jw-Qos", "1");
        headers.push("traceparent", origin.traceparent);
        Message {
            subject: downlink_subject(reply.handle, origin.device),
            headers,
            payload: reply.payload,
        }
    }
}
