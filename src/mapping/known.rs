//! The headers of a downlink that mean something to the gateway, found in one pass.
//!
//! There are many such names and a message has few of them, so looking for each would read its headers many times over.
//! Values are as they stand in the message: who reads one decodes and checks it. Of a name that repeats the first counts.

use super::header;
use crate::message::Headers;

#[derive(Default)]
pub(super) struct Known<'m> {
    pub(super) client: Option<&'m str>,
    pub(super) content_type: Option<&'m str>,
    pub(super) correlation: Option<&'m str>,
    pub(super) expires: Option<&'m str>,
    pub(super) id: Option<&'m str>,
    pub(super) kind: Option<&'m str>,
    pub(super) last_sequence: Option<&'m str>,
    pub(super) msg_id: Option<&'m str>,
    pub(super) order: Option<&'m str>,
    pub(super) payload_format: Option<&'m str>,
    pub(super) qos: Option<&'m str>,
    pub(super) receipt: Option<&'m str>,
    pub(super) response_topic: Option<&'m str>,
    pub(super) retain: Option<&'m str>,
    pub(super) sequence: Option<&'m str>,
    pub(super) stored_at: Option<&'m str>,
    pub(super) stored_subject: Option<&'m str>,
    pub(super) topic: Option<&'m str>,
    pub(super) traceparent: Option<&'m str>,
    pub(super) ttl: Option<&'m str>,
    /// User properties: names without what stands before them, and values, in the order of the message.
    pub(super) user: Vec<(&'m str, &'m str)>,
}

impl<'m> Known<'m> {
    pub(super) fn of(headers: &'m Headers) -> Self {
        let mut known = Self::default();
        for (name, value) in headers.iter() {
            let place = match name {
                header::CLIENT => &mut known.client,
                header::CONTENT_TYPE => &mut known.content_type,
                header::CORRELATION => &mut known.correlation,
                header::EXPIRES => &mut known.expires,
                header::ID => &mut known.id,
                header::TYPE => &mut known.kind,
                header::LAST_SEQUENCE => &mut known.last_sequence,
                header::MSG_ID => &mut known.msg_id,
                header::ORDER => &mut known.order,
                header::PAYLOAD_FORMAT => &mut known.payload_format,
                header::QOS => &mut known.qos,
                header::RECEIPT => &mut known.receipt,
                header::RESPONSE_TOPIC => &mut known.response_topic,
                header::RETAIN => &mut known.retain,
                header::SEQUENCE => &mut known.sequence,
                header::STORED_AT => &mut known.stored_at,
                header::STORED_SUBJECT => &mut known.stored_subject,
                header::TOPIC => &mut known.topic,
                header::TRACEPARENT => &mut known.traceparent,
                header::TTL => &mut known.ttl,
                _ => {
                    let user = name.strip_prefix(header::USER);
                    known.user.extend(user.map(|name| (name, value)));
                    continue;
                }
            };
            place.get_or_insert(value);
        }
        known
    }
}
