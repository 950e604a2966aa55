//! The one way of a PUBLISH into its stream: acl → mapping → publisher.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Error;
use super::routes::Routes;
use super::span::Span;
use crate::auth::acl::{self, Action};
use crate::device::{Address, Device, DeviceId, Direction};
use crate::jetstream::{Permit, Publisher, Receipts, Refusal};
use crate::mapping;
use crate::mapping::{Holder, Mapping, Receipt};
use crate::message::{Message, Subject};
use crate::mqtt::{PacketId, Publish, ReasonCode, UserProperties};
use crate::session::Problem;
use crate::telemetry;
use crate::telemetry::otlp::Spans;

/// Who publishes, and over which connection.
#[derive(Debug)]
pub struct Sender {
    /// The authenticated device.
    pub device: Device,
    /// `P.D`: decides the publisher shard, so that the device's messages stay in order.
    pub tokens: Arc<str>,
    /// The connection id; message ids are made from it.
    pub connection_id: Box<str>,
    /// Continues into every message's trace id.
    pub trace: u64,
    /// What became of the messages, in order.
    pub receipts: Arc<Receipts>,
    /// Messages given an identity so far.
    prepared: u64,
    /// Of the topics that it used.
    routes: Routes,
    /// Where an identity is written; kept for the next one.
    text: String,
    /// Messages handed to the stream so far.
    pub accepted: u64,
    /// Of messages on their way to the stream, in order, with their numbers; none unless they are sampled.
    pub(super) spans: Option<Box<Begun>>,
}

/// Spans that have begun, each with its message's number.
#[derive(Debug, Default)]
pub(super) struct Begun(VecDeque<(u64, Span)>);

impl Sender {
    /// The sender of a connection that begins; `run` is the node's, 16 hexadecimal digits.
    #[must_use]
    pub fn new(
        device: Device,
        tokens: &Arc<str>,
        connection_id: &str,
        run: &str,
        receipts: Arc<Receipts>,
    ) -> Self {
        let number = connection_id.rsplit('.').next().unwrap_or_default();
        let number: u64 = number.parse().unwrap_or_default();
        Self {
            device,
            tokens: Arc::clone(tokens),
            connection_id: connection_id.into(),
            trace: u64::from_str_radix(run, 16).unwrap_or(0) ^ number.rotate_left(32),
            receipts,
            prepared: 0,
            routes: Routes::default(),
            text: String::new(),
            accepted: 0,
            spans: None,
        }
    }
}

impl Sender {
    /// The same device from now on acts for other sub-devices, or is held to other rules.
    pub fn set_device(&mut self, device: Device) {
        self.device = device;
        self.routes = Routes::default();
    }
}

/// A message that may be stored: authorised and mapped.
#[derive(Debug)]
pub struct Prepared {
    /// What its topic's retained message becomes; to be written before the message itself.
    pub retained: Option<Message>,
    message: Message,
    live: Option<Subject>,
    span: Option<Span>,
}

impl From<mapping::Uplink> for Prepared {
    fn from(uplink: mapping::Uplink) -> Self {
        Self {
            retained: uplink.retained,
            message: uplink.message,
            live: uplink.live,
            span: None,
        }
    }
}

impl Prepared {
    /// The message as it will be stored.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }
}

/// What one message may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Levels of its topic, or of a topic filter.
    pub topic_levels_max: usize,
    /// User properties.
    pub user_properties_max: usize,
}

impl Limits {
    fn check_topic(&self, topic: &str, reason: ReasonCode) -> Result<(), Error> {
        match topic.split('/').nth(self.topic_levels_max) {
            None => Ok(()),
            Some(_) => Err(Error::Limit(Problem {
                reason,
                words: "the topic has too many levels",
            })),
        }
    }

    fn check_properties(&self, user: &UserProperties) -> Result<(), Error> {
        match user.iter().nth(self.user_properties_max) {
            None => Ok(()),
            Some(_) => Err(Error::Limit(Problem {
                reason: ReasonCode::QuotaExceeded,
                words: "there are too many user properties",
            })),
        }
    }
}

/// The uplink of one node; cheap to clone.
#[derive(Clone)]
pub struct Uplink {
    mapping: Arc<Mapping>,
    publisher: Publisher,
    spans: Spans,
    limits: Limits,
}

impl Uplink {
    /// An uplink into the stream of `publisher`, whose messages leave their spans with `spans`.
    #[must_use]
    pub fn new(mapping: Arc<Mapping>, publisher: Publisher, spans: Spans, limits: Limits) -> Self {
        Self {
            mapping,
            publisher,
            spans,
            limits,
        }
    }

    /// Whether much waits for the stream.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.publisher.is_pressed()
    }

    /// Room for a payload, if there is some now.
    #[must_use]
    pub fn try_permit(&self, payload_bytes: usize) -> Option<Permit> {
        self.publisher.try_permit(payload_bytes)
    }

    /// Room for a payload, once there is some.
    pub async fn permit(self, payload_bytes: usize) -> Permit {
        self.publisher.permit(payload_bytes).await
    }

    /// Whether the device may publish to a topic or subscribe to a filter.
    ///
    /// # Errors
    /// [`Error::NotAuthorized`], [`Error::Limit`].
    pub fn authorize(&self, device: &Device, action: Action, topic: &str) -> Result<(), Error> {
        let invalid = match action {
            Action::Publish => ReasonCode::TopicNameInvalid,
            Action::Subscribe => ReasonCode::TopicFilterInvalid,
        };
        self.limits.check_topic(topic, invalid)?;
        let address = self.mapping.address(topic);
        acl::authorize(device, action, address.as_ref()).map_err(Error::NotAuthorized)
    }

    /// Authorises and maps a message. Its identity is `message_id`, or made of the connection's counter.
    ///
    /// # Errors
    /// The message is not the device's to send, or no rule gives it a subject.
    pub fn prepare(
        &self,
        sender: &mut Sender,
        publish: &Publish,
        message_id: Option<Box<str>>,
    ) -> Result<Prepared, Error> {
        let number = sender.prepared + 1;
        let at = match sender.routes.find(&publish.topic) {
            Some(at) => at,
            None => {
                self.authorize(&sender.device, Action::Publish, &publish.topic)?;
                let address = self.mapping.address(&publish.topic);
                let address = address.ok_or(Error::NotAuthorized(acl::Denied::Unmapped))?;
                // Also of a message that cannot be mapped: its dead letter has it.
                sender.prepared = number;
                let identity = identity(&sender.device, &address)?;
                sender.routes.keep(self.mapping.route(&identity, &address)?)
            }
        };
        sender.prepared = number;
        self.limits.check_properties(&publish.properties.user)?;
        let route = sender.routes.get(at);
        let route = route.ok_or(Error::NotAuthorized(acl::Denied::Unmapped))?;
        let traceparent = Traceparent::new(sender.trace, number, &self.spans);
        let id = message_id.as_deref();
        let id = id.unwrap_or_else(|| counted(&mut sender.text, &sender.connection_id, number));
        let receipt = Receipt {
            id,
            received_ms: telemetry::now_unix_ms(),
            traceparent: traceparent.as_str(),
        };
        let mut uplink = route.uplink(publish, &receipt)?;
        if !sender.device.sub_devices.is_empty() {
            uplink.speak_for(&sender.device.sub_devices, &publish.payload);
        }
        let span = Span::of(&self.spans, &uplink.message, receipt.traceparent);
        Ok(Prepared {
            span,
            ..uplink.into()
        })
    }

    /// What becomes of a message that [`Self::prepare`] could not map; none if it was not the device's to send.
    #[must_use]
    pub fn dead(sender: &Sender, publish: &Publish, error: &Error) -> Option<Message> {
        let Error::Unmapped(error) = error else {
            return None;
        };
        let id = format!("{}.{}", sender.connection_id, sender.prepared);
        let now_ms = telemetry::now_unix_ms();
        let dead = Mapping::dead_uplink(&sender.device.id, publish, error, &id, now_ms);
        Some(dead)
    }

    /// The same of a QoS 2 message that waits for its PUBREL; `session` names the session that it is of.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub fn hold(
        &self,
        sender: &mut Sender,
        publish: &Publish,
        packet_id: PacketId,
        session: &str,
    ) -> Result<Prepared, Error> {
        let prepared = self.prepare(sender, publish, None)?;
        let holder = Holder {
            tokens: &sender.tokens,
            session,
        };
        Ok(Prepared {
            retained: None,
            message: holder.hold(prepared.message, packet_id)?,
            live: None,
            span: prepared.span,
        })
    }

    /// Hands a message to the stream; `sender.receipts` tells when it is stored.
    pub fn publish(&self, sender: &mut Sender, prepared: Prepared, permit: Permit) {
        if let Some(span) = prepared.span {
            let Begun(spans) = &mut **sender.spans.get_or_insert_default();
            spans.push_back((sender.accepted, span));
        }
        sender.accepted += 1;
        self.publisher.publish(
            &sender.tokens,
            prepared.message,
            prepared.live,
            permit,
            Some(&sender.receipts),
        );
    }

    /// Ends the spans of the sender's first `finished` messages, as far as they have not ended; `refusal` is why the last one of
    /// them was not stored.
    pub fn finished(&self, sender: &mut Sender, finished: u64, refusal: Option<&Refusal>) {
        let Some(Begun(spans)) = sender.spans.as_deref_mut() else {
            return;
        };
        let end = telemetry::now();
        while let Some((number, span)) = spans.pop_front_if(|(number, _)| *number < finished) {
            let refusal = refusal.filter(|_| number + 1 == finished);
            span.end(&self.spans, &sender.device.id, end, refusal);
        }
        // An idle device keeps no buffer.
        sender.spans.take_if(|spans| spans.0.is_empty());
    }

    /// A sequence of the delivery stream that is known to be used: what is stored later has a higher one. 0 where uplinks
    /// go to another stream, whose sequences say nothing.
    #[must_use]
    pub fn stored_sequence(&self) -> u64 {
        match self.mapping.has_one_receiver() {
            true => 0,
            false => self.publisher.stored_sequence(),
        }
    }
}

/// The authorised identity that the address names: the device's own, that of a bound sub-device, or one that a rule adds. In
/// the open profile an address names nobody.
fn identity(device: &Device, address: &Address<'_>) -> Result<DeviceId, Error> {
    let named = std::iter::once(&device.id)
        .chain(device.sub_devices.iter())
        .find(|id| {
            address.direction == Direction::Both
                || (id.product() == address.product && id.name() == address.name)
        });
    let is_added = || device.access.is_some() && address.product == device.id.product();
    match named {
        Some(id) => Ok(id.clone()),
        None if is_added() => DeviceId::new(address.product, address.name)
            .map_err(|_name| Error::NotAuthorized(acl::Denied::OtherDevice)),
        None => Err(Error::NotAuthorized(acl::Denied::OtherDevice)),
    }
}

/// The identity of a connection's message: `<connection>.<number>`.
fn counted<'t>(text: &'t mut String, connection: &str, number: u64) -> &'t str {
    text.clear();
    text.push_str(connection);
    text.push('.');
    text.push_str(itoa::Buffer::new().format(number));
    text
}

/// A W3C trace context that is unique to the message and needs no random number each time.
struct Traceparent([u8; Self::BYTES]);

impl Traceparent {
    const BYTES: usize = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".len();

    fn new(connection: u64, message: u64, spans: &Spans) -> Self {
        let span = (connection ^ message).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let trace_id = (u128::from(connection) << 64) | u128::from(message);
        let mut text = [b'-'; Self::BYTES];
        let mut places = text.iter_mut();
        let mut write = |bytes: &[u8]| {
            for (nibble, place) in nibbles(bytes).zip(&mut places) {
                *place = nibble;
            }
            places.next()
        };
        write(&[0]);
        write(&trace_id.to_be_bytes());
        write(&span.to_be_bytes());
        write(&[u8::from(spans.samples(trace_id))]);
        Self(text)
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits and hyphens")
    }
}

/// Bytes as lower-case hexadecimal digits.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
    (bytes.iter()).flat_map(move |byte| [digit(byte >> 4), digit(byte & 0xF)])
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
