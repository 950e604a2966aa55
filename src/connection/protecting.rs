//! The driver's side of [`protection`](crate::protection): messages above a quota wait, and what is refused is remembered.
//!
//! A PUBLISH above the device's quota, of whatever QoS, is held as one without room is: nothing behind it is handled, PINGREQs are
//! answered, and reading stops when the room for looking ahead is full. QoS 0 that fills that room is shed (G27).

use std::time::Instant;

use super::driver::Driver;
use crate::mqtt::{Packet, ReasonCode};
use crate::protection::Reason;
use crate::session::CloseReason;

impl Driver {
    /// Counts a PUBLISH, unless it has to wait.
    pub(super) fn is_within_quota(&mut self, bytes: usize) -> bool {
        let Some(allowance) = &mut self.allowance else {
            return true;
        };
        match allowance.take(bytes, Instant::now()) {
            Ok(()) => true,
            Err(reason) => {
                self.note(reason, "");
                false
            }
        }
    }

    /// Until when what is held waits because the device sent too much.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.allowance.as_ref()?.held_until()
    }

    /// What was held because the device sent too much may go, once it is time.
    pub(super) fn release_held(&mut self, now: Instant) {
        if let Some(allowance) = &mut self.allowance
            && allowance.release(now)
        {
            self.resume();
        }
    }

    /// Remembers what the device was refused.
    pub(super) fn note(&self, reason: Reason, detail: &str) {
        let device = &self.sender.device.id;
        self.shared
            .protection
            .refusals
            .note(device, reason, 1, detail);
    }

    /// Counts QoS 0 messages that were dropped for want of room.
    pub(super) fn count_shed(&self, messages: u64) {
        if messages > 0 {
            self.shared.metrics.shed.inc_by(messages);
            let (refusals, device) = (&self.shared.protection.refusals, &self.sender.device.id);
            refusals.note(device, Reason::Shed, messages, "");
        }
    }

    /// Topic filters that were refused stand in the SUBACK alone.
    pub(super) fn note_refused(&self, packet: &Packet) {
        if let Packet::Suback(suback) = packet {
            let refused = suback.reasons.iter().filter(|reason| reason.is_error());
            refused.for_each(|reason| self.note(Reason::Subscription, &reason.to_string()));
        }
    }

    /// Remembers an end that the device brought about.
    pub(super) fn note_end(&self, reason: CloseReason) {
        match reason {
            CloseReason::Protocol(code) | CloseReason::Authentication(code) => {
                self.note_closed(reason, Some(code));
            }
            CloseReason::WriteTimeout | CloseReason::KeepAliveTimeout => {
                self.note_closed(reason, None);
            }
            CloseReason::Normal
            | CloseReason::NormalWithWill
            | CloseReason::SocketClosed
            | CloseReason::TakenOver
            | CloseReason::NotStored
            | CloseReason::ServerShuttingDown
            | CloseReason::NodeLost
            | CloseReason::Revoked
            | CloseReason::GatewayLost => {}
        }
    }

    fn note_closed(&self, reason: CloseReason, code: Option<ReasonCode>) {
        let detail = match code {
            Some(code) => format!("{}: {code}", reason.as_str()),
            None => reason.as_str().to_owned(),
        };
        self.note(Reason::Closed, &detail);
    }
}
