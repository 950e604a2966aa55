//! What services ask the device, or a sub-device that is bound to it: a PUBLISH with QoS 0 each, and the uplink that answers it.

use super::driver::Driver;
use crate::device::Device;
use crate::message::Message;
use crate::mqtt::{Publish, Version};
use crate::rpc::{Ask, Refusal};

/// The requests under way to one device.
#[derive(Default)]
pub(super) struct Asking(Option<Box<Requests>>);

#[derive(Default)]
struct Requests {
    waiting: Vec<Ask>,
    /// Handed to the session, and not written yet.
    sending: Option<Ask>,
}

impl Asking {
    /// Forgets those that nobody waits for any more, and how many are left; an idle device keeps no buffer.
    fn under_way(&mut self) -> usize {
        if let Some(requests) = &mut self.0 {
            requests.waiting.retain(|ask| !ask.is_over());
        }
        self.0
            .take_if(|requests| requests.waiting.is_empty() && requests.sending.is_none());
        self.0.as_ref().map_or(0, |requests| requests.waiting.len())
    }

    fn take_sending(&mut self) -> Option<Ask> {
        self.0.as_mut()?.sending.take()
    }
}

impl Driver {
    /// Sends what services ask.
    pub(super) fn handle_asks(&mut self) {
        for ask in self.shared.asks.take(&self.sender.tokens) {
            let has_room = self.asking.under_way() < self.shared.asks.device_max();
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
        if !is_receiver(&self.sender.device, &ask) {
            return ask.refuse(Refusal::Offline);
        }
        // So that the next PUBLISH that is written is this one.
        self.drain_outputs(None);
        let version = match self.connection.version == Version::V5.as_str() {
            true => Version::V5,
            false => Version::V3_1_1,
        };
        let mut publishes = ask.call.publishes(version).into_iter();
        let is_sent = publishes
            .any(|publish| self.may_have(&publish.topic) && self.session.handle_request(publish));
        if !is_sent {
            return ask.refuse(Refusal::NotSubscribed);
        }
        self.asking.0.get_or_insert_default().sending = Some(ask);
        self.drain_outputs(None);
    }

    /// A PUBLISH is written: whether it was a request.
    pub(super) fn handle_request_sent(&mut self) -> bool {
        let sent = self.asking.take_sending();
        let is_request = sent.is_some();
        if let Some(requests) = &mut self.asking.0 {
            requests.waiting.extend(sent);
        }
        is_request
    }

    /// A PUBLISH cannot be written: whether it was a request.
    pub(super) fn handle_request_unsendable(&mut self) -> bool {
        let sent = self.asking.take_sending();
        let is_request = sent.is_some();
        if let Some(ask) = sent {
            ask.refuse(Refusal::TooLarge);
        }
        is_request
    }

    /// The device acts for other sub-devices now: those that it lost answer nothing any more.
    pub(super) fn withdraw_asks(&mut self) {
        let device = &self.sender.device;
        let Some(requests) = &mut self.asking.0 else {
            return;
        };
        let lost = requests
            .waiting
            .extract_if(.., |ask| !is_receiver(device, ask));
        lost.for_each(|ask| ask.refuse(Refusal::Offline));
        self.asking.under_way();
    }

    /// Gives an uplink, as it is stored, to who waits for it.
    pub(super) fn answer(&mut self, publish: &Publish, message: &Message) {
        if self.asking.0.is_none() {
            return;
        }
        let Some(address) = self.shared.mapping.address(&publish.topic) else {
            return;
        };
        if let Some(Requests { waiting, .. }) = self.asking.0.as_deref_mut()
            && let Some(place) =
                (waiting.iter()).position(|ask| ask.is_answered_by(&address, publish))
        {
            waiting.swap_remove(place).answer(message.clone());
        }
        self.asking.under_way();
    }
}

/// Whether the device is asked, or one that it acts for.
fn is_receiver(device: &Device, ask: &Ask) -> bool {
    ask.call.device == device.id || device.sub_devices.contains(&ask.call.device)
}
