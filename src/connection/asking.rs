//! What services ask the device: a PUBLISH with QoS 0 each, and the uplink that answers it.

use super::driver::Driver;
use crate::message::Message;
use crate::mqtt::{Publish, Version};
use crate::rpc::{Ask, Refusal};

/// The requests under way to one device.
#[derive(Default)]
pub(super) struct Asking {
    waiting: Vec<Ask>,
    /// Handed to the session, and not written yet.
    sending: Option<Box<Ask>>,
}

impl Driver {
    /// Sends what services ask.
    pub(super) fn handle_asks(&mut self) {
        self.asking.waiting.retain(|ask| !ask.is_over());
        for ask in self.shared.asks.take(&self.sender.tokens) {
            let has_room = self.asking.waiting.len() < self.shared.asks.device_max();
            match (
                self.draining || self.closing.is_some(),
                has_room && self.may_send(),
            ) {
                (true, _) => ask.refuse(Refusal::Offline),
                (false, false) => ask.refuse(Refusal::Busy),
                (false, true) => self.ask(ask),
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        // So that the next PUBLISH that is written is this one.
        self.drain_outputs(None);
        let version = match self.connection.version == Version::V5.as_str() {
            true => Version::V5,
            false => Version::V3_1_1,
        };
        let mut publishes = ask.call.publishes(version).into_iter();
        let is_sent = publishes.any(|publish| self.session.handle_request(publish));
        if !is_sent {
            return ask.refuse(Refusal::NotSubscribed);
        }
        self.asking.sending = Some(Box::new(ask));
        self.drain_outputs(None);
    }

    /// A PUBLISH is written: whether it was a request.
    pub(super) fn handle_request_sent(&mut self) -> bool {
        let sent = self.asking.sending.take();
        let is_request = sent.is_some();
        self.asking.waiting.extend(sent.map(|ask| *ask));
        is_request
    }

    /// A PUBLISH cannot be written: whether it was a request.
    pub(super) fn handle_request_unsendable(&mut self) -> bool {
        let sent = self.asking.sending.take();
        let is_request = sent.is_some();
        if let Some(ask) = sent {
            ask.refuse(Refusal::TooLarge);
        }
        is_request
    }

    /// Gives an uplink, as it is stored, to who waits for it.
    pub(super) fn answer(&mut self, publish: &Publish, message: &Message) {
        if self.asking.waiting.is_empty() {
            return;
        }
        let Some(address) = self.shared.mapping.address(&publish.topic) else {
            return;
        };
        let mut waiting = self.asking.waiting.iter();
        if let Some(place) = waiting.position(|ask| ask.is_answered_by(&address, publish)) {
            let ask = self.asking.waiting.swap_remove(place);
            ask.answer(message.clone());
        }
        if self.asking.waiting.is_empty() {
            self.asking.waiting = Vec::new(); // An idle device keeps no buffer.
        }
    }
}
