//! Step 4: MQTT topic to NATS subject, payload to message form, and back.
//!
//! Pure: no connection, no clock, no logging; time is an argument. The rules are data (`subjects/`), read once into a
//! [`Mapping`]; nothing else in the gateway builds or reads a topic or a subject of ours.
//! Invariants: a topic has at most one rule; a subject gives back exactly one device; a device can set none of our headers.

mod application;
mod call;
mod capture;
mod check;
mod content;
mod dead;
mod downlink;
mod durables;
mod envelope;
mod error;
mod explain;
mod fallen;
mod gps;
mod header;
mod held;
mod known;
mod levels;
mod pattern;
mod percent;
mod replay;
mod retained;
mod route;
mod rule;
mod rules;
mod settings;
mod source;
mod spoken_for;
mod stored_uplink;
mod streams;
mod subject;
mod template;
mod traces;
mod uplink;

pub use application::Report;
pub use call::Call;
pub use dead::{Death, EventDeath};
pub use downlink::{Downlink, Expiry};
pub use durables::Durable;
pub use envelope::{CONTENT_TYPE, DeviceMessage, UserProperty};
pub use error::Error;
pub use explain::Explanation;
pub use fallen::{Fallen, Original};
pub use gps::GpsEvent;
pub use held::Holder;
pub use replay::{Letter, Unreplayable};
pub use route::Route;
pub use rules::{Delivery, Mapping};
pub use settings::{Form, Profile, Settings, Tree};
pub use source::Fault;
pub(crate) use source::{Entry, Source as RulesFile};
pub use stored_uplink::StoredUplink;
pub use streams::Stream;
pub use subject::{
    Presence, SUBJECT_BYTES_MAX, downlink_subject, events_cursor, is_for_services, product_token,
};
pub use traces::{DeviceFilters, EVENT_CURSORS};
pub use uplink::{Receipt, Uplink};
