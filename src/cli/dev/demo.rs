//! The simulated devices of `jetway dev --demo N`: each drives a recorded track, reports where it is, and obeys `control`.

use std::net::SocketAddr;
use std::time::Duration;

use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::seed::Seed;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;

/// Recorded GPS tracks: time, latitude, longitude, altitude in metres.
const TRACKS: [&str; 2] = [
    include_str!("tracks/drive.csv"),
    include_str!("tracks/hike.csv"),
];
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Starts all devices; they end with `stop`.
pub(super) fn start(fleet: &[Seed], gateway: SocketAddr, stop: &CancellationToken) -> Tasks {
    let tasks = Tasks::new(stop.clone());
    for (number, seed) in fleet.iter().enumerate() {
        let mut options = MqttOptions::new(
            &seed.credentials.client_id,
            gateway.ip().to_string(),
            gateway.port(),
        );
        options.set_credentials(&seed.credentials.username, &seed.credentials.password);
        let topics = Topics {
            up: format!("$thing/up/property/{}/{}", seed.product, seed.name),
            down: format!("$thing/down/property/{}/{}", seed.product, seed.name),
        };
        let stop = stop.clone();
        tasks.spawn("demo device", OnExit::Log, async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = drive(options, topics, number) => {}
            }
        });
    }
    tasks
}

struct Topics {
    up: String,
    down: String,
}

/// One device's life: connect, report a point a second, answer commands, connect again after a loss.
async fn drive(options: MqttOptions, topics: Topics, number: usize) {
    let (client, mut events) = AsyncClient::new(options, 16);
    let mut ticks = tokio::time::interval(REPORT_EVERY);
    let mut track = track(number);
    let mut power = 0;
    loop {
        tokio::select! {
            event = events.poll() => match event {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    drop(client.try_subscribe(&topics.down, QoS::AtLeastOnce));
                }
                Ok(Event::Incoming(Packet::Publish(command))) => {
                    power = obey(&client, &topics, &command.payload, power);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "demo device reconnects");
                    tokio::time::sleep(REPORT_EVERY).await;
                }
            },
            _ = ticks.tick() => {
                let point = track.next().unwrap_or_default();
                let report = json!({
                    "method": "report",
                    "msgToken": format!("{number}-{}", telemetry::now_unix_ms()),
                    "timestamp": telemetry::now_unix_ms(),
                    "params": { "power": power, "position": point },
                });
                // A full window means that the gateway is away: the next second has a newer position.
                drop(client.try_publish(&topics.up, QoS::AtLeastOnce, false, report.to_string()));
            }
        }
    }
}

/// Answers `control`; gives the power state afterwards.
fn obey(client: &AsyncClient, topics: &Topics, payload: &[u8], power: i64) -> i64 {
    let Ok(command) = serde_json::from_slice::<Value>(payload) else {
        return power;
    };
    if command.get("method").and_then(Value::as_str) != Some("control") {
        return power;
    }
    let asked = command.pointer("/params/power").and_then(Value::as_i64);
    let reply = json!({
        "method": "controlReply", "msgToken": command.get("msgToken"), "code": 200,
    });
    drop(client.try_publish(&topics.up, QoS::AtLeastOnce, false, reply.to_string()));
    asked.unwrap_or(power)
}

/// The points of a device's track, for ever; devices on the same track are spread along it.
fn track(number: usize) -> impl Iterator<Item = Value> {
    let text = TRACKS
        .get(number % TRACKS.len())
        .copied()
        .unwrap_or_default();
    let points: Vec<Value> = text.lines().skip(1).filter_map(point).collect();
    let start = number * 37 % points.len().max(1);
    points.into_iter().cycle().skip(start)
}

fn point(line: &str) -> Option<Value> {
    let mut columns = line.split(',').skip(1).map(str::parse::<f64>);
    Some(json!({
        "latitude": columns.next()?.ok()?,
        "longitude": columns.next()?.ok()?,
        "altitude": columns.next()?.ok()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_point_is_read_and_the_track_goes_on_for_ever() {
        for (number, text) in TRACKS.iter().enumerate() {
            let points = text.lines().count() - 1;
            assert_eq!(text.lines().skip(1).filter_map(point).count(), points);
            assert!(track(number).nth(points * 2).is_some());
        }
    }
}
