//! Every case of `malformed.json` against the gateway, each on a connection of its own.

use std::collections::{HashMap, HashSet};

use crate::case::Case;
use crate::neighbour::Neighbour;
use crate::own;
use crate::support::{DemoDevice, DevOptions, Gateway, Protocol, from_hex};
use crate::unharmed;

/// Cases that do not end as the specification asks first: how they end, which must be tolerable, and why.
///
/// Every other case must end as specified. A row that is not needed any more is a fault.
const OTHERWISE: &[(&str, &str, &str)] = &[
    (
        "M4-013",
        "connack:01",
        "like a client of an unknown version, it is told so",
    ),
    ("M4-014", "connack:01", "as before"),
    (
        "M4-072",
        "close",
        "PUBREL belongs to QoS 2, which is not offered",
    ),
    (
        "M5-004",
        "connack:01",
        "of an unknown version, 3.1.1 demands this answer where 5 only allows its own",
    ),
    (
        "M5-055",
        "disconnect:82",
        "PUBREL belongs to QoS 2, which is announced as not available",
    ),
];

/// The controls are right in all but that the device may not have the filter, which costs it nothing else.
const CONTROL: &str = "suback_fail";

/// Holds an outcome to its case.
fn judge(case: &Case, outcome: &str) -> Result<(), String> {
    let otherwise = OTHERWISE.iter().find(|(id, ..)| *id == case.id);
    match otherwise {
        Some(_) if case.is_as_specified(outcome) => {
            Err("listed as otherwise, without need".to_owned())
        }
        Some((_, expected, _)) if outcome == *expected && case.is_tolerable(outcome) => Ok(()),
        Some((_, expected, _)) => Err(format!("expected {expected}, as listed")),
        None if case.echo.is_some() && outcome == CONTROL => Ok(()),
        None if case.is_as_specified(outcome) => Ok(()),
        None => Err(format!("expected what {case:?} says")),
    }
}

/// A control: the last packet was right, and is in the stream as it was sent.
async fn check_stored_unchanged(case: &Case, device: &DemoDevice, neighbour: &Neighbour) {
    let DemoDevice { product, name, .. } = device;
    let subject = format!("device.up.mqtt.thing.{product}.{name}");
    let stored = neighbour.backend().messages("DEVICE_UP", &subject).await;
    let stored = stored.last().unwrap();
    let packets = case.packets(device);
    let topic = own::topic(packets.last().unwrap());
    assert_eq!(stored.header("Jw-Topic"), topic, "{}", case.id);
    assert_eq!(stored.text(), "ok", "{}", case.id);
    let mut user: HashMap<String, Vec<String>> = HashMap::new();
    for (header, values) in stored.headers.iter() {
        if let Some(name) = header.to_string().strip_prefix("Jw-User-") {
            let values = values.iter().map(ToString::to_string);
            user.insert(name.to_owned(), values.collect());
        }
    }
    let expected: HashMap<String, Vec<String>> = match case.protocol() {
        Protocol::V311 => HashMap::new(),
        Protocol::V5 => HashMap::from([
            ("a".to_owned(), vec!["2".to_owned()]),
            ("b".to_owned(), vec!["1".to_owned(), "3".to_owned()]),
        ]),
    };
    assert_eq!(user, expected, "{}", case.id);
}

#[tokio::test]
async fn a_malformed_packet_ends_its_connection_and_nothing_else() {
    // [MQTT-3.1.2-2], [MQTT-3.1.4-1], [MQTT-4.8.0-1]
    let mut gateway = Gateway::dev(DevOptions::default()).await;
    let healthy = gateway.ready.device.clone().unwrap();
    let mut neighbour = Neighbour::connect(gateway.mqtt(), &gateway.ready.nats, &healthy).await;
    let device = gateway.add_devices("malformed", 1).remove(0);

    let cases = Case::all();
    for (id, ..) in OTHERWISE {
        assert!(cases.iter().any(|case| case.id == *id), "{id}: gone");
    }
    let (mut faults, mut controls) = (Vec::new(), 0);
    for case in &cases {
        let outcome = case.run(gateway.mqtt(), &device).await;
        println!("{} {} [{}]: {outcome}", case.id, case.title, case.clause);
        if let Err(fault) = judge(case, &outcome) {
            faults.push(format!("{} {}: {outcome}; {fault}", case.id, case.title));
        }
        assert!(gateway.is_alive(), "the gateway died of {}", case.id);
        neighbour.check(&case.id).await;
        if case.echo.is_some() {
            controls += 1;
            check_stored_unchanged(case, &device, &neighbour).await;
        }
        neighbour.check_stored(controls, &case.id).await;
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert_eq!(controls, 2);
    check_refusals(&gateway, &cases).await;
    neighbour.check_stored(controls, "all cases").await;
    check_not_delivered(&cases, &neighbour).await;
    unharmed(&mut gateway);
    neighbour.leave().await;
}

/// No payload that nobody may get is in a stream that a service reads.
async fn check_not_delivered(cases: &[Case], neighbour: &Neighbour) {
    let payloads = cases
        .iter()
        .filter_map(|case| case.must_not_deliver.as_deref());
    let payloads: HashSet<Vec<u8>> = payloads.map(from_hex).collect();
    assert!(!payloads.is_empty());
    for stream in ["DEVICE_UP", "APPLICATION", "DLQ"] {
        for stored in neighbour.backend().messages(stream, ">").await {
            assert!(!payloads.contains(&*stored.payload), "{stream}: {stored:?}");
        }
    }
}

/// No malformed CONNECT came as far as the login, so none was refused for want of credentials.
async fn check_refusals(gateway: &Gateway, cases: &[Case]) {
    let mut refused = 0.0;
    for reason in ["malformed", "unsupported", "socket_closed"] {
        let series = format!("jetway_connects_rejected_total{{reason=\"{reason}\"}}");
        refused += gateway.metric(&series).await;
    }
    let unconnected = cases.iter().filter(|case| !case.is_connected());
    assert_eq!(refused, unconnected.count() as f64);
    let denied = "jetway_connects_rejected_total{reason=\"not_authorized\"}";
    assert_eq!(gateway.metric(denied).await, 0.0);
}
