//! Where what is about one device may be stored, as subject filters: for looking for a message on its whole way.

use super::subject::device_tokens;
use crate::device::DeviceId;

/// The subject filters of one device, by stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFilters {
    /// What it sent, in both forms of the subject.
    pub uplinks: [String; 2],
    /// What applications were told.
    pub events: [String; 2],
    /// What became a dead letter: its own messages, and those of any durable.
    pub dead_letters: [String; 4],
    /// What of its uplinks was replayed for a durable.
    pub uplink_replays: [String; 2],
    /// What of its events was.
    pub event_replays: [String; 2],
    /// What waits for it.
    pub downlinks: [String; 1],
}

impl DeviceFilters {
    /// Those of a device.
    #[must_use]
    pub fn new(device: &DeviceId) -> Self {
        let device = device_tokens(device);
        let uplinks = [
            format!("device.up.*.*.{device}"),
            format!("device.up.*.{device}"),
        ];
        let events = [
            format!("application.device.{device}.>"),
            format!("application.v2.device.{device}.>"),
        ];
        let replay = |filter: &String| format!("replay.*.{filter}");
        Self {
            uplink_replays: uplinks.each_ref().map(replay),
            event_replays: events.each_ref().map(replay),
            uplinks,
            events,
            dead_letters: [
                format!("dlq.events.{device}"),
                format!("dlq.gps.{device}"),
                format!("dlq.downlink.{device}"),
                "dlq.durable.>".to_owned(),
            ],
            downlinks: [format!("device.down.*.*.{device}")],
        }
    }
}

/// The filter of the places that the event workers have come to, a subject a shard.
pub const EVENT_CURSORS: &str = "application.cursor.*";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::events_cursor;
    use crate::message::covers;

    #[test]
    fn filters_hold_one_device_and_encode_its_names() {
        let device = DeviceId::new("P.1", "D>").unwrap();
        let filters = DeviceFilters::new(&device);
        assert_eq!(filters.uplinks[0], "device.up.*.*.P%2E1.D%3E");
        assert!(covers(
            &filters.events[0],
            "application.device.P%2E1.D%3E.report.thing.property"
        ));
        assert!(!covers(
            &filters.events[0],
            "application.device.P%2E1.D.report.thing.property"
        ));
        assert!(covers(EVENT_CURSORS, &events_cursor(7)));
    }
}
