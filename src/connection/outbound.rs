//! To the device: what was missed first, then what its mailbox brings; and what becomes of each downlink.
//!
//! The mailbox is taken from only when nothing is left to be read back, so the session sees rising stream sequences. A
//! mailbox that overflowed has dropped messages; they are read back from where the session is.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::attachment::Attachment;
use super::driver::Driver;
use super::pending::{Fetched, Job, read, read_again};
use super::reading::{Page, Reading};
use crate::downlink::{Delivery, Lost, Outcome, Receipt};
use crate::mapping::Downlink;
use crate::message::Subject;
use crate::mqtt::{PacketId, Publish, QoS, ReasonCode, TopicFilter};
use crate::session::{Delivered, Incoming, Source};
use crate::tasks::OnExit;
use crate::telemetry;

impl Driver {
    /// Takes up what the session had before: subscriptions, what is unacknowledged, and what was missed.
    pub(super) fn resume_session(&mut self) {
        let attachment = Attachment::of(self);
        let mut lost = Vec::new();
        for filter in self.session.subscriptions() {
            // Allowed when it was made; if it is not any more, it ends.
            if let Err(problem) = attachment.attach(filter) {
                tracing::warn!(device = %self.sender.device.id, %filter, reason = problem.words, "subscription not resumed");
                lost.push(filter.clone());
            }
        }
        for filter in lost {
            self.session.withdraw(&filter);
        }
        let unfinished = self.session.unfinished();
        let released = unfinished.filter_map(|(source, is_released)| {
            let sequence = source.sequence()?;
            is_released.then_some(sequence)
        });
        let released: Vec<u64> = released.collect();
        if !released.is_empty() {
            self.outbound.pending().released = released;
        }
        let resend = self.session.to_resend();
        if !resend.is_empty() {
            self.outbound.add(&self.shared, Job::Resend(resend));
        }
        // What this node has seen stored was published before, although the feed may not have brought it yet.
        let stored = self.shared.uplink.stored_sequence();
        self.read_back(self.shared.router.position().max(stored));
    }

    /// The mailbox dropped messages, or the stream began anew: reads them back.
    pub(super) fn catch_up(&mut self) {
        let position = self.shared.router.rejoin(&self.mailbox);
        if self.session.begin_stream(self.shared.router.stream()) {
            self.outbound.forget_sequences();
        }
        self.read_back(position);
    }

    fn read_back(&mut self, up_to: u64) {
        let filters = self.session.subscriptions();
        let filters: BTreeSet<Subject> = filters
            .filter(|filter| !filter.is_shared())
            .filter_map(|filter| self.shared.mapping.subscription(filter.as_str()))
            .flatten()
            .collect();
        let after = self.session.taken();
        if filters.is_empty() || after >= up_to {
            return self.session.skip_to(up_to);
        }
        // What is this device's alone is read whole: what it did not subscribe to is to be reported. Of its sub-devices only what it
        // subscribed to.
        let own = &self.sender.device.id;
        let filters = match self.shared.mapping.has_one_receiver() {
            true => {
                let own = self.shared.mapping.downlink_subjects(own);
                let others = filters.into_iter().filter(|filter| !own.contains(filter));
                others.chain(own.iter().cloned()).collect()
            }
            false => filters.into_iter().collect(),
        };
        let bytes_max = self.shared.downlink.queue_bytes_max;
        let reading = Reading::new(&self.shared.reader, filters, after, up_to, bytes_max);
        let job = Job::Backlog(Box::new(reading));
        self.outbound.add(&self.shared, job);
    }

    pub(super) fn fetch_retained(&mut self, filters: Vec<TopicFilter>) {
        for filter in filters {
            match self.shared.mapping.retained_filters(filter.as_str()) {
                Some(keys) => self.outbound.add(&self.shared, Job::Retained(filter, keys)),
                None => self.handle_retained_found(&filter, Vec::new()),
            }
        }
    }

    pub(super) fn handle_fetched(&mut self, fetched: Fetched) {
        match fetched {
            Fetched::Resend(found) => {
                for (packet_id, downlink) in found {
                    let publish = downlink.and_then(|downlink| self.in_time(packet_id, &downlink));
                    self.session.handle_resend(packet_id, publish);
                }
            }
            Fetched::Retained(filter, found) => self.handle_retained_found(&filter, found),
            Fetched::Page(page, reading) => self.handle_page(&page, reading),
        }
        self.outbound.start(&self.shared);
    }

    fn handle_retained_found(&mut self, filter: &TopicFilter, found: Vec<Arc<Downlink>>) {
        let now = telemetry::now_unix_ms();
        let matching = found
            .iter()
            .filter(|downlink| filter.matches(&downlink.topic) && self.may_have(&downlink.topic));
        let publishes = matching.filter_map(|downlink| downlink.publish(now));
        let publishes = publishes.collect();
        let refused = self.session.handle_retained(filter, publishes);
        if refused > 0 {
            tracing::warn!(device = %self.sender.device.id, %filter, refused, "more retained messages than a session may have");
            self.shared.downlinks.count_all(Outcome::TooMany, refused);
        }
    }

    fn handle_page(&mut self, page: &Page, reading: Box<Reading>) {
        for stored in &page.overflow {
            self.lost(Lost::at(stored.sequence, Outcome::Overflow));
        }
        let is_end = page.overflow.is_empty() && page.messages.is_empty();
        if is_end {
            return self.session.skip_to(reading.up_to);
        }
        let now = telemetry::now_unix_ms();
        for stored in &page.messages {
            if self.shared.downlink.waits_until_ms(stored.time_ms) <= now {
                self.lost(Lost::at(stored.sequence, Outcome::Expired));
            } else if let Some(downlink) = read(&self.shared, stored) {
                let delivery = Delivery::new(downlink);
                self.outbound.pending().read_back.push_back(delivery);
            } else {
                self.lost(Lost::at(stored.sequence, Outcome::Unmapped));
            }
        }
        let rest = Job::Backlog(reading);
        self.outbound.pending().jobs.push_front(rest);
    }

    /// A message that was read again, as the device gets it; none if its lifetime is over, or a rule denies it. One that may be
    /// half delivered goes on all the same [MQTT-4.3.3-7].
    fn in_time(&mut self, packet_id: PacketId, downlink: &Arc<Downlink>) -> Option<Publish> {
        let half_delivered = self.session.is_half_delivered(packet_id);
        let publish = downlink
            .publish(telemetry::now_unix_ms())
            .or_else(|| half_delivered.then(|| downlink.as_publish()));
        if !half_delivered && !self.may_have(&downlink.topic) {
            self.lose(&Delivery::new(Arc::clone(downlink)), Outcome::Denied);
            return None;
        }
        if publish.is_none() {
            self.lost(Lost::read(downlink, Outcome::Expired));
        } else if downlink.receipt.is_some() {
            let delivery = Delivery::new(Arc::clone(downlink));
            let watched = &mut self.outbound.pending().watched;
            watched.insert(downlink.stream_sequence, delivery);
        }
        publish
    }

    /// Hands over what was read back, as far as there is room.
    pub(super) fn deliver_backlog(&mut self) {
        while self.takes_downlinks()
            && let Some(pending) = &mut self.outbound.pending
            && let Some(delivery) = pending.read_back.pop_front()
        {
            self.deliver(delivery, true);
            self.drain_outputs(None);
        }
        self.outbound.start(&self.shared);
    }

    /// Hands one downlink to the session.
    pub(super) fn deliver(&mut self, delivery: Delivery, read_back: bool) {
        let downlink = &delivery.downlink;
        let sequence = downlink.stream_sequence;
        let source = match (&delivery.share, read_back) {
            (Some(share), _) => Source::Shared {
                sequence,
                filter: share.filter.as_str().into(),
            },
            (None, true) => Source::Backlog(sequence),
            (None, false) => Source::Stream(sequence),
        };
        let publish = match downlink.publish(telemetry::now_unix_ms()) {
            Some(publish) if self.may_have(&downlink.topic) => publish,
            expired_or_denied => {
                let denied = expired_or_denied.map(|_| Outcome::Denied);
                self.lose(&delivery, denied.unwrap_or(Outcome::Expired));
                if delivery.share.is_none() {
                    self.session.skip_to(sequence);
                }
                return;
            }
        };
        let is_new = sequence > self.session.taken();
        let own = downlink.publisher.as_deref() == Some(&*self.connection.client_id);
        let incoming = Incoming {
            publish,
            source,
            own,
        };
        match self.session.handle_downlink(incoming) {
            Delivered::Sent(qos) => self.watch(delivery, qos),
            Delivered::NotSubscribed => self.lose(&delivery, Outcome::NotSubscribed),
            // From before the subscription, if it was not handed over before.
            Delivered::Skipped if is_new && self.shared.mapping.has_one_receiver() => {
                self.lose(&delivery, Outcome::NotSubscribed)
            }
            Delivered::Skipped => delivery.done(),
            Delivered::Missed => self.lose(&delivery, Outcome::Missed),
        }
    }

    /// A downlink is on its way to the device: keeps in mind what somebody wants to know about.
    fn watch(&mut self, delivery: Delivery, qos: QoS) {
        let sequence = delivery.downlink.stream_sequence;
        if qos == QoS::AtMostOnce {
            self.outbound.handing = Some(sequence);
        }
        if delivery.downlink.receipt.is_none() && delivery.share.is_none() {
            return;
        }
        self.outbound.pending().watched.insert(sequence, delivery);
        self.drain_outputs(None);
        // What could not be written is not watched any more.
        let Some(delivery) = self.outbound.watched(sequence) else {
            return;
        };
        self.report(delivery, Receipt::Sent);
        if qos == QoS::AtMostOnce {
            delivery.done();
            self.outbound.take_watched(sequence);
        }
    }

    fn report(&self, delivery: &Delivery, receipt: Receipt) {
        let device = &self.sender.device.id;
        self.shared
            .reports
            .report(device, &delivery.downlink, receipt);
    }

    /// A PUBLISH is written.
    pub(super) fn handle_sent(&mut self, publish: &Publish) {
        if self.handle_request_sent() {
            return;
        }
        self.shared.downlinks.count(Outcome::Sent);
        if publish.qos == QoS::AtMostOnce
            && let Some(sequence) = self.outbound.handing.take()
        {
            self.shared.finished.delivered(sequence);
        }
        if publish.qos == QoS::ExactlyOnce
            && self.outbound.pending.is_some()
            && let Some(packet_id) = publish.packet_id
            && let Some(Source::Shared { sequence, .. }) = self.session.source_of(packet_id)
            && let Some(delivery) = self.outbound.watched(*sequence)
        {
            // From here on it is this session's alone, whatever becomes of the connection [MQTT-4.8.2-4].
            delivery.done();
        }
    }

    /// A PUBLISH cannot be written to the device; the next one can.
    pub(super) fn handle_unsendable(&mut self, publish: &Publish, outcome: Outcome) {
        if self.handle_request_unsendable() {
            return;
        }
        let source = self.session.handle_undeliverable(publish.packet_id);
        let sequence = match source {
            Some(source) => source.sequence(),
            None => self.outbound.handing.take(),
        };
        self.lost(Lost {
            outcome,
            sequence,
            downlink: None,
            publish: Some(publish.clone()),
        });
    }

    /// The device is done with a downlink.
    pub(super) fn settled(&mut self, source: &Source, outcome: Result<(), ReasonCode>) {
        let Some(sequence) = source.sequence() else {
            return;
        };
        if outcome.is_err() {
            return self.lost(Lost::at(sequence, Outcome::Refused));
        }
        if let Some(delivery) = self.outbound.take_watched(sequence) {
            delivery.done();
            self.report(&delivery, Receipt::Delivered);
        }
        match self.outbound.take_released(sequence) {
            true => self.report_released(sequence),
            false => self.shared.finished.delivered(sequence),
        }
    }

    /// What was sent on an earlier connection is read for the sake of its receipt.
    fn report_released(&self, sequence: u64) {
        let (shared, device) = (Arc::clone(&self.shared), self.sender.device.id.clone());
        let report = async move {
            if let Some(downlink) = read_again(&shared, &Source::Stream(sequence)).await {
                shared
                    .reports
                    .report(&device, &downlink, Receipt::Delivered);
            }
            shared.finished.delivered(sequence);
        };
        self.shared.tasks.spawn("receipt", OnExit::Log, report);
    }

    /// The device does not get what was to be handed over.
    fn lose(&mut self, delivery: &Delivery, outcome: Outcome) {
        delivery.done();
        // Where a message is for whoever subscribes, or for another device, a session that does not get it loses nothing.
        let unwanted = matches!(
            outcome,
            Outcome::NotSubscribed | Outcome::Missed | Outcome::Denied
        );
        if unwanted && !self.is_receiver(&delivery.downlink.topic) {
            return self.shared.downlinks.count(outcome);
        }
        self.lost(Lost::read(&delivery.downlink, outcome));
    }

    fn lost(&mut self, lost: Lost) {
        let watched = lost
            .sequence
            .and_then(|sequence| self.outbound.take_watched(sequence));
        if let Some(delivery) = watched {
            delivery.done();
        }
        self.shared.finished.lost(&self.sender.device.id, lost);
    }

    /// The session ends with the connection: nobody gets any more what the device has not finished.
    pub(super) fn lose_unfinished(&mut self) {
        let mut unfinished: Vec<u64> = self
            .session
            .unfinished()
            .filter_map(|(source, _)| source.sequence())
            .chain(self.outbound.handing.take())
            .collect();
        let pending = self.outbound.pending.as_mut();
        let waiting = pending.map(|pending| std::mem::take(&mut pending.read_back));
        let waiting = waiting.into_iter().flatten();
        let waiting = waiting.chain(self.mailbox.take_messages());
        let waiting = waiting.filter(|delivery| delivery.share.is_none());
        unfinished.extend(waiting.map(|delivery| delivery.downlink.stream_sequence));
        match self.shared.mapping.has_one_receiver() {
            true => unfinished
                .into_iter()
                .for_each(|sequence| self.lost(Lost::at(sequence, Outcome::Unacknowledged))),
            false => {
                let downlinks = &self.shared.downlinks;
                downlinks.count_all(Outcome::Unacknowledged, unfinished.len());
            }
        }
    }
}
