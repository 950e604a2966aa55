//! Every case of `malformed.json` against the gateway, each on a connection of its own.

use std::collections::{HashMap, HashSet};

use crate::case::Case;
use crate::neighbour::Neighbour;
use crate::own;
use crate::support::{Credentials, DemoDevice, DevOptions, Device, Gateway, Protocol, from_hex};
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
        "M5-004",
        "connack:01",
        "of an unknown version, 3.1.1 demands this answer where 5 only allows its own",
    ),
    (
        "M5-055",
        "pubcomp:00",
        "a device that sends PUBREL again after a crash has done nothing wrong",
    ),
];

/// Of a device, the controls are right in all but that it may not have the filter, which costs it nothing else.
const CONTROL: &str = "suback_fail";
/// In the open profile they get what they publish.
const CONTROL_OPEN: &str = "suback_ok echo";

/// Holds an outcome to its case; `control` is that of a control.
fn judge(case: &Case, outcome: &str, control: &str) -> Result<(), String> {
    let otherwise = OTHERWISE.iter().find(|(id, ..)| *id == case.id);
    match otherwise {
        Some(_) if case.is_as_specified(outcome) => {
            Err("listed as otherwise, without need".to_owned())
        }
        Some((_, expected, _)) if outcome == *expected && case.is_tolerable(outcome) => Ok(()),
        Some((_, expected, _)) => Err(format!("expected {expected}, as listed")),
        None if case.echo.is_some() && outcome == control => Ok(()),
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
    let packets = case.packets_of(device);
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
    // The same device sends each of them over a connection of its own.
    let often = ("JETWAY_PROTECTION_FLAPPING", "{ connects_max = 0 }");
    let mut gateway = Gateway::dev(DevOptions {
        environment: vec![(often.0.to_owned(), often.1.to_owned())],
        ..DevOptions::default()
    })
    .await;
    let healthy = gateway.ready.device.clone().unwrap();
    let mut neighbour = Neighbour::connect(gateway.mqtt(), &gateway.ready.nats, &healthy).await;
    let device = gateway.add_devices("malformed", 1).remove(0);

    let cases = Case::all();
    let (mut faults, mut controls) = (Vec::new(), 0);
    for case in &cases {
        let packets = case.packets_of(&device);
        let outcome = case
            .run(gateway.mqtt(), &device.credentials, &packets)
            .await;
        faults.extend(told(case, &outcome, CONTROL));
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
    check_not_delivered(&cases, &neighbour, &["DEVICE_UP", "APPLICATION", "DLQ"]).await;
    unharmed(&mut gateway);
    neighbour.leave().await;
}

#[tokio::test]
async fn so_it_is_where_every_client_may_have_every_topic() {
    let mut gateway = Gateway::dev(DevOptions {
        arguments: ["--profile", "open"].map(str::to_owned).into(),
        ..DevOptions::default()
    })
    .await;
    let mut neighbour = Neighbour::connect_open(gateway.mqtt(), &gateway.ready.nats).await;
    // Nobody misses anything, whoever sent it.
    let listener = Credentials::anybody("listener");
    let mut listener = Device::connect(Protocol::V311, gateway.mqtt(), &listener).await;
    assert_eq!(listener.subscribe("#").await, 1);

    let cases = Case::all();
    let (mut faults, mut controls) = (Vec::new(), 0);
    for case in &cases {
        let who = Credentials::anybody(&case.id);
        let outcome = case.run(gateway.mqtt(), &who, &case.packets()).await;
        faults.extend(told(case, &outcome, CONTROL_OPEN));
        assert!(gateway.is_alive(), "the gateway died of {}", case.id);
        if case.echo.is_some() {
            controls += 1;
            assert_eq!(listener.next().await.text(), "ok", "{}", case.id);
        }
        neighbour.check(&case.id).await;
        for _ in ["from the neighbour", "to the neighbour"] {
            let topic = listener.next().await.topic;
            assert!(topic.starts_with("neighbour/"), "{}: {topic}", case.id);
        }
        neighbour.check_stored(controls, &case.id).await;
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert_eq!(controls, 2);
    check_refusals(&gateway, &cases).await;
    check_not_delivered(&cases, &neighbour, &["MQTT", "APPLICATION", "DLQ"]).await;
    unharmed(&mut gateway);
    neighbour.leave().await;
}

#[test]
fn every_row_has_its_case() {
    let cases = Case::all();
    for (id, ..) in OTHERWISE {
        assert!(cases.iter().any(|case| case.id == *id), "{id}: gone");
    }
}

/// Says how a case ended; the fault, if that is one.
fn told(case: &Case, outcome: &str, control: &str) -> Option<String> {
    let Case {
        id, title, clause, ..
    } = case;
    println!("{id} {title} [{clause}]: {outcome}");
    let fault = judge(case, outcome, control).err()?;
    Some(format!("{id} {title}: {outcome}; {fault}"))
}

/// No payload that nobody may get is in a stream that a service reads.
async fn check_not_delivered(cases: &[Case], neighbour: &Neighbour, streams: &[&str]) {
    let payloads = cases
        .iter()
        .filter_map(|case| case.must_not_deliver.as_deref());
    let payloads: HashSet<Vec<u8>> = payloads.map(from_hex).collect();
    assert!(!payloads.is_empty());
    for stream in streams {
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
