//! Status events as a consumer reads them, held to everything that is promised of each of them (G28).

use std::collections::HashSet;

use jetway::telemetry::now_unix_ms;
use serde::Deserialize;

use crate::site::Registered;
use crate::support::{Backend, Stored, eventually};

/// The envelope, with everything in it and nothing else.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Event {
    pub(crate) event_id: String,
    pub(crate) event_name: String,
    pub(crate) event_version: String,
    pub(crate) event_time: String,
    pub(crate) producer: String,
    pub(crate) trace_id: String,
    pub(crate) data: Data,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    pub(crate) product_id: String,
    pub(crate) device_name: String,
    pub(crate) client_id: String,
    pub(crate) connection_id: String,
    pub(crate) epoch: u64,
    pub(crate) node: String,
    pub(crate) protocol: String,
    pub(crate) protocol_version: String,
    pub(crate) peer_address: String,
    pub(crate) connected_at: String,
    pub(crate) disconnected_at: Option<String>,
    pub(crate) reason: Option<String>,
}

impl Event {
    /// `connected`, or the reason why not.
    pub(crate) fn what(&self) -> &str {
        self.data.reason.as_deref().unwrap_or("connected")
    }
}

/// Waits for so many status events of a device, checks them, and returns all.
pub(crate) async fn events(backend: &Backend, who: &Registered, count: usize) -> Vec<Event> {
    let filter = who.subject("application.device") + ".status.*";
    let stored = backend.wait_for("APPLICATION", &filter, count).await;
    let events: Vec<Event> = stored.iter().map(|message| event(who, message)).collect();
    // The same events, in the same order, for the platform. Its subjects hold all devices.
    let ids: Vec<&str> = events.iter().map(|event| &*event.event_id).collect();
    let same = eventually("DEVICE_STATUS holds the same events", async || {
        let all = backend
            .messages("DEVICE_STATUS", "device.up.status.*")
            .await;
        let same = all.into_iter();
        let same = same.filter(|message| ids.contains(&message.header("Nats-Msg-Id")));
        let same: Vec<Stored> = same.collect();
        match same.len() == ids.len() {
            true => Ok(same),
            false => Err(format!("{} of {}", same.len(), ids.len())),
        }
    })
    .await;
    for (device, application) in same.iter().zip(&stored) {
        assert_eq!(device.payload, application.payload);
        let presence = application.subject.rsplit('.').next().unwrap();
        assert_eq!(device.subject, format!("device.up.status.{presence}"));
    }
    assert_consistent(&events);
    events
}

fn event(who: &Registered, message: &Stored) -> Event {
    let event: Event = serde_json::from_slice(&message.payload)
        .unwrap_or_else(|error| panic!("{error}: {}", message.text()));
    assert_eq!(message.header("Nats-Msg-Id"), event.event_id);
    assert_eq!(message.header("Content-Type"), "application/json");
    assert_eq!((&*event.event_version, &*event.producer), ("1.0", "jetway"));
    assert_eq!(event.trace_id.len(), 32);
    let data = &event.data;
    assert_eq!(
        (&data.product_id, &data.device_name),
        (&who.product, &who.name)
    );
    assert_eq!(data.client_id, who.credentials.client_id);
    assert_eq!(data.protocol, "mqtt");
    assert!(["3.1.1", "5.0"].contains(&&*data.protocol_version));
    assert!(data.connection_id.starts_with(&data.node));
    data.peer_address.parse::<std::net::SocketAddr>().unwrap();
    let connected = message.subject.ends_with(".connected");
    let name = match connected {
        true => "device.connection.opened",
        false => "device.connection.closed",
    };
    assert_eq!(event.event_name, name);
    assert_eq!(data.reason.is_none(), connected);
    assert_eq!(data.disconnected_at.is_none(), connected);
    for time in [&event.event_time, &data.connected_at]
        .into_iter()
        .chain(&data.disconnected_at)
    {
        assert!(unix_ms(time).abs_diff(now_unix_ms()) < 120_000, "{time}");
    }
    event
}

fn unix_ms(text: &str) -> u64 {
    let format = &time::format_description::well_known::Rfc3339;
    let time = time::OffsetDateTime::parse(text, format).unwrap();
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap()
}

/// Connected, disconnected, connected, …: one connection at a time, each with an id of its own and a later epoch.
fn assert_consistent(events: &[Event]) {
    let mut ids = HashSet::new();
    for event in events {
        assert!(
            ids.insert(&event.event_id),
            "an event is repeated: {event:?}"
        );
    }
    for (number, event) in events.iter().enumerate() {
        let opens = number % 2 == 0;
        assert_eq!(
            event.data.reason.is_none(),
            opens,
            "{number} of {events:#?}"
        );
        let Some(before) = number.checked_sub(1).map(|before| &events[before].data) else {
            continue;
        };
        let same = before.connection_id == event.data.connection_id;
        assert_eq!(same, !opens, "{number} of {events:#?}");
        match opens {
            true => assert!(event.data.epoch > before.epoch),
            false => assert_eq!(event.data.epoch, before.epoch),
        }
    }
}
