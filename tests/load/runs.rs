//! Each scenario against Jetway, and each target that needs nothing but nats-server.

use std::process::Command;

use serde_json::Value;

use crate::support::{nats_server_binary, succeed};

/// Runs it to its end: the JSON that it wrote.
async fn bench(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway-bench"));
    command.args(line.split(' ')).arg("--json").arg(&file);
    command.args(["--warm-up", "0"]);
    if !line.contains("--seconds") {
        command.args(["--seconds", "1"]);
    }
    command.env("JETWAY_NATS_SERVER", nats_server_binary().await);
    tokio::task::spawn_blocking(move || succeed(&mut command))
        .await
        .unwrap();
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The only report of a run, which has answers and CPU times of these processes.
fn report(result: &Value, processes: &[&str]) -> Value {
    let [report] = result["reports"].as_array().unwrap().as_slice() else {
        panic!("expected one report, found {result}");
    };
    assert!(report["answers"].as_u64().unwrap() > 0, "{report}");
    assert!(report["latency"]["p99"].as_f64().unwrap() > 0.0, "{report}");
    let names = report["processes"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|process| process["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [processes, &["this client"]].concat());
    report.clone()
}

fn assert_stored(report: &Value) {
    let stored = &report["stored"];
    assert!(stored["acknowledged"].as_u64().unwrap() > 0, "{report}");
    for fault in ["missing", "repeated", "disordered", "foreign"] {
        assert_eq!(stored[fault], 0, "{report}");
    }
}

const JETWAY: [&str; 2] = ["gateway", "nats-server"];

#[tokio::test(flavor = "multi_thread")]
async fn devices_publish_with_each_version_and_quality_and_over_tls() {
    for options in [
        "--mqtt-version 3.1.1",
        "--mqtt-version 5 --rate 200",
        "--qos 2",
        "--qos 2 --target jetway-open",
        "--tls",
        "--target jetway-stored",
    ] {
        let result = bench(&format!("fan-in --devices 10 --window 4 {options}")).await;
        assert_stored(&report(&result, &JETWAY));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_is_counted_as_it_is_stored() {
    let result = bench("fan-in --devices 4 --window 4 --rate 100 --qos 0").await;
    let stored = &report(&result, &JETWAY)["stored"];
    assert_eq!(stored["acknowledged"], 0, "{result}");
    assert!(stored["found"].as_u64().unwrap() > 0, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_reach_devices_and_ask_them() {
    let result = bench("downlink --devices 10 --rate 200").await;
    report(&result, &JETWAY);
    let result = bench("rpc --devices 10 --rate 100").await;
    report(&result, &JETWAY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_reports_and_a_storm_connects() {
    for scenario in ["fleet --rate 100", "storm"] {
        let result = bench(&format!("{scenario} --devices 40")).await;
        assert_stored(&report(&result, &JETWAY));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_have_a_size() {
    let result = bench("idle --devices 40").await;
    let figures = result["reports"][0]["figures"].as_array().unwrap();
    let of_gateway = figures.iter().filter(|figure| {
        let what = figure["what"].as_str().unwrap();
        what.starts_with("gateway, memory")
    });
    assert_eq!(of_gateway.count(), 4, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jetstream_itself_and_its_own_mqtt_are_measured_too() {
    for target in ["nats-mqtt", "raw", "raw-ids", "raw-batch"] {
        let result = bench(&format!("fan-in --devices 10 --window 4 --target {target}")).await;
        assert_stored(&report(&result, &["nats-server"]));
    }
    let result = bench("fan-in --devices 10 --rate 100 --target raw --replicas 3").await;
    let servers = ["nats-server-1", "nats-server-2", "nats-server-3"];
    assert_stored(&report(&result, &servers));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stores_nothing_is_measured_and_not_compared_with_a_stream() {
    let result = bench("fan-in --devices 10 --window 4 --tls --target mosquitto").await;
    let report = report(&result, &["mosquitto"]);
    assert!(report["stored"].is_null(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jetway_is_held_to_is_said_with_a_page_of_plots() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let line = "held --seconds 2 --rounds 1 --devices 10 --target jetway-stored --target raw";
    let result = bench(&format!("{line} --html {}", page.display())).await;
    // Each as fast as it goes and at half of that, and the stream itself at the rate of the gateway's half.
    assert_eq!(result["reports"].as_array().unwrap().len(), 5);
    let asked = result["requirements"].as_array().unwrap();
    assert_eq!(asked.len(), 3, "{result}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("</html>") && page.contains("<svg"), "{page}");
}

#[test]
fn a_fleet_can_be_calculated() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetway-bench"));
    let table = succeed(command.args(["model", "--devices", "1000000", "--per-minute", "6"]));
    let rate = table.lines().find(|line| line.starts_with("messages/s"));
    assert_eq!(rate.unwrap().split_whitespace().last(), Some("100000"));
}
