//! An event on its way into the outbox.

use bytes::Bytes;
use uuid::Uuid;

use crate::message::{Headers, Subject};

/// An event, as it is written beside what it tells about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its identity for all brokers and consumers; one that is in the outbox already is not written again.
    pub event_id: Uuid,
    /// `domain.resource.verb`, such as `gps.report.created`.
    pub event_type: Box<str>,
    /// Such as `1.0`.
    pub event_version: Box<str>,
    /// What it is about, such as `device`; with the id the unit of order.
    pub aggregate_type: Box<str>,
    /// Which one, such as `<productID>/<deviceName>`.
    pub aggregate_id: Box<str>,
    /// The subject, stream key or routing key that it is published on.
    pub subject: Subject,
    /// The body, as it is published.
    pub payload: Bytes,
    /// Headers beside those that the publisher sets itself (`Nats-Msg-Id`, `traceparent`).
    pub headers: Headers,
    /// 32 hex digits, or empty.
    pub trace_id: Box<str>,
}
