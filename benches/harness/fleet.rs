//! What a vehicle says: reports with its position along a recorded track, its speed and its state, and events.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

/// Every so many messages one is an event.
const EVENT_EVERY: u64 = 50;

/// Latitude and longitude in degrees, altitude in metres, as they were written.
pub(crate) type Track = Arc<[[String; 3]]>;

/// The points of a file with lines `time,latitude,longitude,altitude` under a heading; a circle without a file.
pub(crate) fn track(file: Option<&Path>) -> Result<Track> {
    let Some(file) = file else {
        return Ok(circle());
    };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut points = Vec::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let mut fields = line.split(',').skip(1).map(str::to_owned);
        let point = fields.next().zip(fields.next()).zip(fields.next());
        let ((latitude, longitude), altitude) =
            point.with_context(|| format!("{}:{number}: expected four fields", file.display()))?;
        points.push([latitude, longitude, altitude]);
    }
    ensure!(!points.is_empty(), "{}: no point", file.display());
    Ok(points.into())
}

fn circle() -> Track {
    let point = |number: i32| {
        let angle = f64::from(number).to_radians();
        let (latitude, longitude) = (45.0 + 0.05 * angle.sin(), 13.0 + 0.05 * angle.cos());
        [
            format!("{latitude:.7}"),
            format!("{longitude:.7}"),
            "12.5".to_owned(),
        ]
    };
    (0..360).map(point).collect()
}

/// One vehicle, somewhere on the track.
pub(crate) struct Vehicle {
    track: Track,
    at: usize,
}

impl Vehicle {
    /// Vehicles begin at different places.
    pub(crate) fn new(number: usize, track: Track) -> Self {
        let at = number.wrapping_mul(7919) % track.len().max(1);
        Self { track, at }
    }

    /// Message number `counter`: whether it is an event, and its JSON.
    pub(crate) fn next(&mut self, counter: u64) -> (bool, Bytes) {
        let mut text = String::with_capacity(256);
        let is_event = counter.is_multiple_of(EVENT_EVERY);
        let written = if is_event {
            write!(
                text,
                r#"{{"method":"eventPost","msgToken":"{counter}","eventID":"door","type":"info","params":{{"open":1}}}}"#
            )
        } else {
            self.at = (self.at + 1) % self.track.len().max(1);
            let [latitude, longitude, altitude] =
                self.track.get(self.at).map_or(["0", "0", "0"], |point| {
                    [&*point[0], &*point[1], &*point[2]]
                });
            let (speed, battery) = (20 + counter % 60, 100 - counter % 100);
            write!(
                text,
                r#"{{"method":"report","msgToken":"{counter}","params":{{"GPS_Ext":{{"longitude":{longitude},"latitude":{latitude},"altitude":{altitude},"gps_speed":{speed}}},"battery":{battery}}}}}"#
            )
        };
        written.expect("a text in memory grows");
        (is_event, text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vehicle_speaks_json_and_says_which_message_it_is() {
        let mut vehicle = Vehicle::new(3, track(None).unwrap());
        let mut events = 0;
        for counter in 1..=100 {
            let (is_event, body) = vehicle.next(counter);
            events += u32::from(is_event);
            let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(read["msgToken"], counter.to_string());
            assert_eq!(crate::payload::counter(&body), Some(counter));
        }
        assert_eq!(events, 2);
    }
}
