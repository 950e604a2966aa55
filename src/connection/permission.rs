//! FLOW: notice of changed rules -> the rules of all products are read again -> connections are held to them at once.
//!
//! A node has all rules in memory, so that no login waits for them. A database that does not answer leaves them as they are, and is
//! asked again; a notice that was lost is made good by looking every now and then.
//!
//! Invariant: whoever takes its place in the registry reads the rules behind that, so that it either has the new ones or is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::attachment::Attachment;
use super::driver::Driver;
use crate::access::{Access, Action, Rules, RulesByProduct};
use crate::catalogue::Catalogue;
use crate::device::Device;
use crate::downlink::Delivery;
use crate::mqtt::TopicFilter;
use crate::registry::Mailbox;

/// How long until a database that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// The longest that it is waited for.
const READ_MAX: Duration = Duration::from_secs(30);

/// Keeps the rules of products as the catalogue has them, until `stop`; looks at least `every` so often.
pub async fn run(
    shared: Arc<Shared>,
    catalogue: Catalogue,
    every: Duration,
    stop: CancellationToken,
) {
    let mut wait = every;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.rules.changed() => {}
            () = sleep(wait) => {}
        }
        wait = match timeout(READ_MAX, catalogue.rules()).await {
            Ok(Ok(rules)) => {
                shared.hold_to(rules);
                every
            }
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "rules of products not read, those of before count");
                RETRY
            }
            Err(_) => RETRY,
        };
    }
}

impl Shared {
    /// The device with the rules of its product, of its sub-devices' products and of its login.
    pub(super) fn with_rules(&self, device: Device, own: Rules, client_id: &str) -> Device {
        let product = self.rules.of(device.id.product());
        let behind = self.rules.of_all(&device.sub_devices);
        Device {
            access: Access::of(product, behind, own, client_id),
            ..device
        }
    }

    /// The same with the rules that the products have now; its mailbox is told of later ones.
    pub(super) fn with_new_rules(
        &self,
        device: Device,
        client_id: &str,
        mailbox: &Mailbox<Delivery>,
    ) -> Device {
        mailbox.set_gateway(!device.sub_devices.is_empty());
        let own = device.access.as_ref().map(|access| access.own().clone());
        self.with_rules(device, own.unwrap_or_default(), client_id)
    }

    fn hold_to(&self, rules: RulesByProduct) {
        let changed = self.rules.replace(rules);
        if changed.is_empty() {
            return;
        }
        for (_, mailbox) in self.registry.all() {
            // Which products are behind a gateway device it knows itself.
            if changed.contains(mailbox.device.product()) || mailbox.is_gateway() {
                mailbox.hold_to_rules();
            }
        }
    }
}

impl Driver {
    /// The rules that the device is held to are others, or may be.
    pub(super) fn handle_rules(&mut self) {
        self.set_device(self.sender.device.clone());
    }

    /// What the device may do is said by this from now on, and by the rules that count for it now.
    pub(super) fn set_device(&mut self, device: Device) {
        let client_id = &self.connection.client_id;
        let device = (self.shared).with_new_rules(device, client_id, &self.mailbox);
        if device != self.sender.device {
            self.sender.set_device(device);
            self.end_subscriptions();
        }
    }

    /// Ends the subscriptions that the device may not have any more.
    fn end_subscriptions(&mut self) {
        let attachment = Attachment::of(self);
        let filters = self.session.subscriptions();
        let lost: Vec<TopicFilter> = filters
            .filter(|filter| attachment.authorize(filter).is_err())
            .cloned()
            .collect();
        for filter in lost {
            tracing::info!(device = %self.sender.device.id, %filter, "subscription ended, it is not allowed any more");
            attachment.detach(&filter);
            self.session.withdraw(&filter);
        }
    }

    /// Whether the device may receive on a topic that one of its subscriptions selects: that may select more than the rules allow.
    pub(super) fn may_have(&self, topic: &str) -> bool {
        let device = &self.sender.device;
        let uplink = &self.shared.uplink;
        device.access.is_none() || uplink.authorize(device, Action::Subscribe, topic).is_ok()
    }

    /// Whether a message is the device's to lose: its own, or of a sub-device that is bound to it.
    pub(super) fn is_receiver(&self, topic: &str) -> bool {
        let device = &self.sender.device;
        let mut ids = device.sub_devices.iter().chain([&device.id]);
        self.shared.mapping.has_one_receiver()
            && self.shared.mapping.address(topic).is_some_and(|address| {
                ids.any(|id| id.product() == address.product && id.name() == address.name)
            })
    }
}
