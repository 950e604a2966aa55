//! SUBSCRIBE and UNSUBSCRIBE.
//!
//! Invariants: SUBACK grants exactly what is delivered (G09), and leaves only after the subscriptions are saved, if the
//! session is stored. Retained messages follow it. Each filter of the session is attached once.

use bytestring::ByteString;

use super::{Output, Problem, Session};
use crate::mqtt::{
    Packet, QoS, ReasonCode, Suback, Subscribe, Subscription, TopicFilter, Unsuback, Unsubscribe,
    UserProperties, Version,
};

impl Session {
    /// Answers [`Output::Authorize`]. `attach` says for each filter that the session itself has nothing against whether the
    /// device may have it, and from which stream sequence on it gets what the filter selects, or why not.
    ///
    /// A filter that the session has already is attached again: [`Output::Detach`] makes up for that.
    pub fn handle_authorized(
        &mut self,
        subscribe: Subscribe,
        mut attach: impl FnMut(&TopicFilter) -> Result<u64, Problem>,
    ) {
        let mut words = Vec::new();
        let mut reasons = Vec::with_capacity(subscribe.filters.len());
        let mut retained = Vec::new();
        let mut changed = false;
        let is_first = self.subscriptions.since().is_none();
        for asked in subscribe.filters {
            let limit = self.config.subscriptions_max;
            let granted = self.check_shared(&asked).and_then(|()| {
                let identifier = subscribe.identifier;
                self.subscriptions
                    .subscribe(&asked, identifier, limit, &mut attach)
            });
            reasons.push(match granted {
                Ok(granted) => {
                    changed |= granted.changed;
                    if !granted.is_new {
                        self.push(Output::Detach(asked.filter.clone()));
                    }
                    let wanted = wants_retained(&asked, granted.is_new);
                    if wanted && !retained.contains(&asked.filter) {
                        retained.push(asked.filter);
                    }
                    granted_code(granted.qos)
                }
                Err(problem) => {
                    if !words.contains(&problem.words) {
                        words.push(problem.words);
                    }
                    self.suback_code(problem.reason)
                }
            });
        }
        if is_first && let Some(since) = self.subscriptions.since() {
            self.skip_to(since);
            self.downlink.count_from(since);
        }
        // [MQTT-3.8.4-1], [MQTT-3.8.4-6]
        let suback = Packet::Suback(Suback {
            packet_id: subscribe.packet_id,
            reasons,
            reason_string: self.reason_string(&words.join("; ")),
            user: UserProperties::default(),
        });
        self.hold_if(changed, Output::Send(suback));
        if !retained.is_empty() {
            self.fetching += retained.len();
            self.follow(Output::FetchRetained(retained));
        }
    }

    fn check_shared(&self, asked: &Subscription) -> Result<(), Problem> {
        if asked.filter.is_shared() && !self.config.shared_subscriptions {
            return Err(Problem {
                reason: ReasonCode::SharedSubscriptionsNotSupported,
                words: "shared subscriptions are not available",
            });
        }
        Ok(())
    }

    /// Why something was refused, unless the device does not want to know or nothing was. // [MQTT-3.1.2-29]
    pub(super) fn reason_string(&self, words: &str) -> Option<ByteString> {
        (self.problem_information && !words.is_empty()).then(|| words.into())
    }

    /// 3.1.1 has one failure code, 0x80.
    fn suback_code(&self, reason: ReasonCode) -> ReasonCode {
        match self.version {
            Version::V3_1_1 => ReasonCode::UnspecifiedError,
            Version::V5 => reason,
        }
    }

    pub(super) fn handle_unsubscribe(&mut self, unsubscribe: Unsubscribe) {
        let mut reasons = Vec::with_capacity(unsubscribe.filters.len());
        for filter in unsubscribe.filters {
            reasons.push(match self.subscriptions.remove(&filter) {
                true => {
                    self.push(Output::Detach(filter));
                    ReasonCode::Success
                }
                false => ReasonCode::NoSubscriptionExisted,
            });
        }
        let changed = reasons.contains(&ReasonCode::Success);
        // [MQTT-3.10.4-4], [MQTT-3.10.4-5]
        let unsuback = Packet::Unsuback(Unsuback {
            packet_id: unsubscribe.packet_id,
            reasons,
            reason_string: None,
            user: UserProperties::default(),
        });
        self.hold_if(changed, Output::Send(unsuback));
    }

    /// Whether the next packet may be read: a device that goes on subscribing while the store is slow is held back.
    #[must_use]
    pub fn may_read(&self) -> bool {
        const WAITING_MAX: usize = 16;
        let waits = |output: &Output| {
            matches!(
                output,
                Output::Send(Packet::Suback(_) | Packet::Unsuback(_))
            )
        };
        self.fetching <= self.config.subscriptions_max && self.gate.count(waits) < WAITING_MAX
    }

    /// Ends a subscription that the device may not have any more; whoever attached it detaches it.
    pub fn withdraw(&mut self, filter: &TopicFilter) {
        if self.subscriptions.remove(filter) {
            self.dirty = true;
            self.save_progress();
        }
    }

    /// What the session subscribes to, in order: a restored session is attached to these.
    pub fn subscriptions(&self) -> impl Iterator<Item = &TopicFilter> {
        self.subscriptions.filters()
    }
}

/// [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]; a share gets none.
fn wants_retained(asked: &Subscription, is_new: bool) -> bool {
    let handling = match asked.retain_handling {
        0 => true,
        1 => is_new,
        _ => false,
    };
    handling && !asked.filter.is_shared()
}

fn granted_code(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
    }
}
