//! What is late, what moves the latest position, and what sampling leaves out.

use super::*;
use crate::gps::queue::Created;
use crate::message::Message;
use crate::position::{Sampling, System};

fn input(sequence: u64, points: &[(u64, Flags)]) -> Input {
    let device = DeviceId::new("P", "d").unwrap();
    let report = |(index, (at_ms, flags)): (u32, &(u64, Flags))| Report {
        device: device.clone(),
        index,
        latitude: 45.0,
        longitude: 13.0,
        system: System::Wgs84,
        altitude_m: None,
        speed_mps: None,
        course_deg: None,
        satellites: None,
        hdop: None,
        accuracy_m: None,
        device_ms: Some(*at_ms),
        received_ms: 1_000_000,
        flags: *flags,
    };
    Input {
        created: Created {
            text: "c".into(),
            ns: 7,
        },
        sequence,
        found: Some(Found {
            message: Message {
                subject: "s".into(),
                headers: Default::default(),
                payload: Default::default(),
            },
            device: device.clone(),
            received_ms: 1_000_000,
            traceparent: String::new(),
            reports: (0..).zip(points).map(report).collect(),
            death: None,
        }),
    }
}

#[test]
fn a_point_is_late_by_what_came_before_it_and_only_a_newer_valid_fix_is_the_latest() {
    let inputs = [
        input(
            1,
            &[(100, Flags::NONE), (50, Flags::NONE), (50, Flags::NONE)],
        ),
        input(
            2,
            &[
                (300, Flags::NO_FIX),
                (200, Flags::NONE),
                (900, Flags::TIME_IN_FUTURE),
            ],
        ),
        input(3, &[(150, Flags::NO_FIX), (200, Flags::NONE)]),
    ];
    let mut known = Known::default();
    known.latest.insert(DeviceId::new("P", "d").unwrap(), 90);
    let derived = derive(&inputs, &mut known, "S", None);
    let late: Vec<bool> = derived.rows.iter().map(|row| row.late).collect();
    assert_eq!(late, [false, true, true, false, false, false, true, false]);
    assert_eq!((derived.late, derived.no_fix), (3, 2));
    let newest: Vec<_> = derived
        .newest
        .values()
        .map(|row| (row.sequence, row.point))
        .collect();
    assert_eq!(newest, [(2, 1)]);
    // Of an implausible time it is when it was received that counts.
    assert_eq!(derived.rows[5].at_ms, 1_000_000);
    assert_eq!(derived.rows[5].device_ms, Some(900));
    let events: Vec<_> = derived.events.iter().map(|event| event.event_id).collect();
    let rows: Vec<_> = derived.rows.iter().map(|row| row.event_id).collect();
    assert_eq!(events, rows);
    // Who begins again makes the same.
    let mut again = Known::default();
    again.latest.insert(DeviceId::new("P", "d").unwrap(), 90);
    assert_eq!(derive(&inputs, &mut again, "S", None).rows, derived.rows);
}

#[test]
fn what_sampling_leaves_out_still_moves_the_latest_position() {
    let inputs = [input(
        1,
        &[
            (100, Flags::NONE),
            (200, Flags::NONE),
            (1_100, Flags::NONE),
            (1_200, Flags::NONE),
        ],
    )];
    let watching = Watching {
        sampling: Some(Sampling {
            interval_ms: 1_000,
            distance_m: 0.0,
        }),
        ..Watching::default()
    };
    let derived = derive(&inputs, &mut Known::default(), "S", Some(&watching));
    let kept: Vec<_> = derived.rows.iter().map(|row| row.at_ms).collect();
    assert_eq!((kept, derived.sampled_out), (vec![100, 1_100], 2));
    assert_eq!(derived.events.len(), 2);
    let newest: Vec<_> = derived.newest.values().map(|row| row.at_ms).collect();
    assert_eq!(newest, [1_200]);
    assert_eq!(derived.moved.len(), 1);
}
