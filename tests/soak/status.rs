//! The status events of all clients: in order, and the last one true.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::support::{Backend, Stored, eventually};

/// What a status event says.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "printed where an event is wrong")]
struct Status {
    sequence: u64,
    connection_id: String,
    epoch: u64,
    is_connected: bool,
    reason: String,
}

/// How long the last events may take; the verdict tells what is wrong then.
const EVENTS_MAX: Duration = Duration::from_secs(20);

/// G28: what is wrong with the events; `reality`: which clients are connected now.
pub(crate) async fn judge(backend: &Backend, reality: &[bool]) -> Vec<(usize, String)> {
    let deadline = Instant::now() + EVENTS_MAX;
    let wait = async || {
        let events = read(backend).await;
        let faults = last_is_true(&events, reality);
        match faults.is_empty() || Instant::now() > deadline {
            true => Ok((events, faults)),
            false => Err(format!("{faults:?}")),
        }
    };
    let (events, mut faults) = eventually("the last events are stored", wait).await;
    for (client, events) in &events {
        for pair in events.windows(2) {
            let [before, after] = pair else { continue };
            let is_in_order = match before.epoch == after.epoch {
                true => before.is_connected && !after.is_connected,
                false => before.epoch < after.epoch && after.is_connected,
            };
            if !is_in_order {
                faults.push((*client, format!("{after:?} behind {before:?}")));
            }
        }
    }
    faults
}

async fn read(backend: &Backend) -> BTreeMap<usize, Vec<Status>> {
    let mut by_client: BTreeMap<usize, Vec<Status>> = BTreeMap::new();
    for stored in backend.messages("DEVICE_STATUS", ">").await {
        let (client, status) = parse(&stored);
        by_client.entry(client).or_default().push(status);
    }
    by_client
}

fn parse(stored: &Stored) -> (usize, Status) {
    let event: serde_json::Value = serde_json::from_slice(&stored.payload).unwrap();
    let data = &event["data"];
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let status = Status {
        sequence: stored.sequence,
        connection_id: text("connection_id"),
        epoch: data["epoch"].as_u64().unwrap(),
        is_connected: event["event_name"] == "device.connection.opened",
        reason: text("reason"),
    };
    let client = text("client_id");
    let index = client.trim_start_matches("soak-").parse().unwrap();
    (index, status)
}

fn last_is_true(events: &BTreeMap<usize, Vec<Status>>, reality: &[bool]) -> Vec<(usize, String)> {
    let wrong = |(client, is_connected): (usize, &bool)| {
        let last = events.get(&client).and_then(|events| events.last());
        let is_true = last.is_some_and(|last| last.is_connected == *is_connected);
        (!is_true).then(|| {
            (
                client,
                format!("connected: {is_connected}, last event {last:?}"),
            )
        })
    };
    reality.iter().enumerate().filter_map(wrong).collect()
}
