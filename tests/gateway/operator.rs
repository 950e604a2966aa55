//! What an operator sees: the configuration checked, a server that is too old, metrics, and the mapping explained.

use std::fs;

use crate::site::{BOTH, Registered, Site};
use crate::support::{
    Connect, Credentials, Device, NatsServer, Publish, eventually, jetway, jetway_fails,
    old_nats_server,
};

const EXIT_CONFIG: i32 = 78;

/// A configuration with a fault in the lines that say so, and where each is reported.
const BAD: &str = r#"profile = "cow"             # fault
[session]
packet_bytes_max = 1            # fault, found when all is read
keep_alive_max_s = "long"       # fault
typo = 1                        # fault
[mqtt]
listen = "nowhere"              # fault
[unknown]                       # fault
url = "nats://127.0.0.1:4222"
"#;
const PLACES: [(&str, &str); 9] = [
    ("bad.toml:1: profile:", "expected `device` or `open`"),
    ("bad.toml:4: keep_alive_max_s:", "expected u16"),
    ("bad.toml:5: typo:", "expected one of `packet_bytes_max`"),
    ("bad.toml:7: listen:", "expected ADDRESS:PORT"),
    ("bad.toml:8: [unknown]", "expected one of `profile`"),
    ("environment JETWAY_DRAIN_DEADLINE_MS:", "expected u64"),
    ("environment JETWAY_MQTT_TYPO:", "expected one of `listen`"),
    (
        "[session] packet_bytes_max:",
        "expected 1024 to 268435455, found 1",
    ),
    ("[publisher] shards:", "expected 1 to 64, found 0"),
];

#[test]
fn a_bad_configuration_is_reported_whole_and_nothing_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    fs::write(&file, BAD).unwrap();
    let database = folder.path().join("devices.db");
    let database_url = format!("sqlite:{}", database.display());
    let environment = [
        ("JETWAY_DRAIN_DEADLINE_MS", "soon"),
        ("JETWAY_MQTT_TYPO", "1"),
        ("JETWAY_PUBLISHER_SHARDS", "0"),
        ("JETWAY_DATABASE_URL", &database_url),
    ];
    let path = file.display().to_string();
    for command in ["check", "run"] {
        let (code, printed) = jetway_fails(&[command, "--config", &path], &environment);
        assert_eq!(code, EXIT_CONFIG, "{printed}");
        let faults: Vec<&str> = printed.trim_start_matches("jetway: ").lines().collect();
        assert_eq!(faults.len(), PLACES.len(), "{command}: {printed}");
        for (place, expected) in PLACES {
            let fault = faults.iter().find(|fault| fault.contains(place));
            let fault = fault.unwrap_or_else(|| panic!("{command}: no {place} in {printed}"));
            assert!(fault.contains(expected), "{command}: {fault}");
        }
    }
    assert!(!database.exists(), "nothing was started");
}

#[test]
fn bad_rules_are_reported_with_their_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, "\n[[rule]]\nhandle = \"x\"\nmqtt = \"$x/{type}\"\n").unwrap();
    let path = rules.display().to_string();
    let environment = [("JETWAY_RULES_FILE", &*path)];
    let (code, printed) = jetway_fails(&["check"], &environment);
    assert_eq!(code, EXIT_CONFIG, "{printed}");
    for key in ["direction", "nats", "stream"] {
        let fault = printed
            .lines()
            .find(|line| line.contains(&format!("`{key}`")));
        let fault = fault.unwrap_or_else(|| panic!("no fault of {key}: {printed}"));
        assert!(fault.contains("rules.toml:"), "{fault}");
    }
}

#[test]
fn a_good_configuration_is_shown_as_it_will_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("good.toml");
    fs::write(&file, "[mapping]\nprotocol = \"mq\"\n").unwrap();
    let printed = jetway(&["check", "--config", &file.display().to_string()], &[]);
    assert!(printed.starts_with("configuration is valid\n"), "{printed}");
    assert!(printed.contains("device.up.mq.*.*.*"), "{printed}");
}

#[tokio::test]
async fn a_nats_server_that_is_too_old_is_named_with_what_is_needed() {
    let server = NatsServer::start_binary(old_nats_server()).await;
    let folder = tempfile::tempdir().unwrap();
    let database_url = format!("sqlite:{}", folder.path().join("devices.db").display());
    let url = server.url();
    let environment = [
        ("JETWAY_NATS_URL", &*url),
        ("JETWAY_DATABASE_URL", &database_url),
        ("JETWAY_MQTT_LISTEN", "127.0.0.1:0"),
        ("JETWAY_HTTP_LISTEN", "127.0.0.1:0"),
    ];
    let (code, printed) = jetway_fails(&["run"], &environment);
    assert_eq!(code, 1);
    for part in [&url, "2.12.8", "2.14.0"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }

    let program = old_nats_server().display().to_string();
    let state = folder.path().join("state").display().to_string();
    let dev = [
        "dev",
        "--state-dir",
        &state,
        "--mqtt-port",
        "0",
        "--nats-port",
        "0",
    ];
    let (code, printed) = jetway_fails(&dev, &[("JETWAY_NATS_SERVER", &program)]);
    assert_eq!(code, 1);
    for part in [&*program, "2.12.8", "2.14.0"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}

#[tokio::test]
async fn a_nats_server_that_is_not_there_is_named() {
    let environment = [
        ("JETWAY_NATS_URL", "nats://127.0.0.1:1"),
        ("JETWAY_NATS_CONNECT_TIMEOUT_MS", "100"),
        ("JETWAY_DATABASE_URL", "sqlite::memory:"),
    ];
    let (code, printed) = jetway_fails(&["run"], &environment);
    assert_eq!(code, 1);
    assert!(printed.contains("nats://127.0.0.1:1"), "{printed}");
}

#[tokio::test]
async fn the_names_of_metrics_do_not_change_unnoticed() {
    // G38. A renamed metric is a line in the changelog.
    let site = Site::start(&[]).await;
    let backend = site.backend().await;
    let who = site.device();
    let stranger = Credentials::new(&who.product, "nobody", "BBBBBBBB");
    for protocol in BOTH {
        // One of each family that appears with its first sample.
        let refused = Connect::new(protocol, site.gateway.mqtt(), &stranger);
        assert!(Device::connect_with(refused).await.is_err());
        let mut device = site.connect(protocol, &who).await;
        assert_eq!(device.subscribe(&who.topic("$thing/down/+")).await, 1);
        backend
            .publish(&who.subject("device.down.thing"), &[], "")
            .await;
        device.next().await;
        device.disconnect().await;
    }
    let closed = "jetway_disconnects_total{reason=\"normal\"}";
    site.counted(closed, 1.0).await;
    // Streams and durables are looked at beside all that.
    let looks = [
        "jetway_stream_stored",
        "jetway_provision_drift",
        "jetway_jobs_last_seconds",
    ];
    eventually("the first looks are over", async || {
        let (_, body) = site.gateway.get("/metrics").await;
        match looks.iter().all(|family| body.contains(family)) {
            true => Ok(()),
            false => Err(body),
        }
    })
    .await;
    // A body is written family by family: one that has the last of these may lack what came meanwhile.
    let (status, body) = site.gateway.get("/metrics").await;
    assert_eq!(status, 200);
    assert!(body.ends_with("# EOF\n"), "OpenMetrics ends so");
    let mut found: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    found.sort_unstable();
    let expected: Vec<&str> = include_str!("../golden/metrics.txt").lines().collect();
    assert_eq!(found, expected, "(left: found)\n{}", found.join("\n"));
    for device in [&*who.name, &who.product, "nobody", "127.0.0.1"] {
        assert!(
            !body.contains(device),
            "{device} of a device's input is a label"
        );
    }
}

#[tokio::test]
async fn metrics_count_what_happens() {
    let site = Site::start(&[]).await;
    let who = site.device();
    for (index, protocol) in BOTH.into_iter().enumerate() {
        let mut device = site.connect(protocol, &who).await;
        // The one before gives its place away a moment before it is not counted any more.
        eventually("one device is connected", async || {
            match site.gateway.metric("jetway_connections").await {
                1.0 => Ok(()),
                other => Err(format!("{other}")),
            }
        })
        .await;
        for payload in ["one", "three"] {
            device.publish(Publish::new(&who.reports(), payload));
            device.acked().await.unwrap();
        }
        device.disconnect().await;
        let closed = "jetway_disconnects_total{reason=\"normal\"}";
        site.counted(closed, index as f64).await;
    }
    for (name, value) in [
        ("jetway_connects_total", 2.0),
        ("jetway_uplink_publishes_total", 4.0),
        ("jetway_uplink_stream_stored_total", 4.0),
        ("jetway_uplink_stream_stored_bytes_total", 16.0),
        ("jetway_auth_accepted_total", 2.0),
        ("jetway_auth_cache_hits_total", 1.0),
        ("jetway_uplink_stream_waiting", 0.0),
    ] {
        assert_eq!(site.gateway.metric(name).await, value, "{name}");
    }
}

#[test]
fn subjects_explain_says_what_a_topic_maps_to_and_why_not() {
    let explain = |topic: &str| jetway(&["subjects", "explain", topic], &[]);
    let line = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .trim()
            .to_owned()
    };
    let who = Registered::new("P", "D.1");
    let up = explain(&who.reports());
    assert_eq!(line(&up, "subject"), "device.up.mqtt.thing.P.D%2E1");
    assert_eq!(line(&up, "live subject"), "device.up.thing.P.D%2E1");
    assert_eq!(line(&up, "stream"), "DEVICE_UP");
    assert_eq!(line(&up, "type"), "property");
    assert!(line(&up, "rule").contains("subjects/rules.toml:"), "{up}");
    let down = explain(&who.topic("$ota/down/+"));
    assert_eq!(line(&down, "subject"), "device.down.mqtt.ota.P.D%2E1");
    assert_eq!(line(&down, "stream"), "DEVICE_DOWN");
    assert!(line(&down, "type from").contains("progress"));
    let short = explain("$thing/up/P/D");
    assert_eq!(
        line(&short, "not mapped"),
        "level 5: found the end, expected {device}"
    );
    assert!(line(&explain("a/b"), "not mapped").starts_with("level 1: found \"a\""));
}
