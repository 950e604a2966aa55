//! The alarm rules for Prometheus: valid, each tested, and about figures that there are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setting::Setting;
use crate::support::succeed;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/prometheus")
        .join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

/// The values of a key in a YAML file of ours, which has it at the start of lines.
fn values<'t>(text: &'t str, key: &str) -> BTreeSet<&'t str> {
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    lines
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
        .collect()
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    let check = |arguments: &[&str], name| {
        succeed(Command::new("promtool").args(arguments).arg(file(name)))
    };
    let checked = check(&["check", "rules"], "jetway.rules.yml");
    assert!(checked.contains("10 rules found"), "{checked}");
    check(&["test", "rules"], "jetway.rules.test.yml");
}

#[test]
fn every_rule_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
    let (rules, tests) = (text("jetway.rules.yml"), text("jetway.rules.test.yml"));
    let alerts = values(&rules, "alert");
    assert_eq!(alerts, values(&tests, "alertname"));
    for alert in alerts {
        let mut tested = tests.split("alertname: ").skip(1);
        let about = |part: &&str| part.starts_with(alert);
        let fires = |part: &str| !part.lines().nth(1).unwrap_or_default().ends_with("[]");
        let (firing, quiet): (Vec<_>, Vec<_>) =
            tested.by_ref().filter(about).partition(|part| fires(part));
        assert!(!firing.is_empty() && quiet.len() >= 2, "{alert}");
    }
}

#[tokio::test]
async fn every_figure_that_a_rule_names_is_there() {
    let setting = Setting::start(&[]).await;
    let backend = setting.backend().await;
    backend
        .publish("dlq.downlink.P.D", &[("Jw-Reason", "expired")], "x")
        .await;
    let dead = "jetway_dlq_messages{origin=\"downlink\",reason=\"expired\"}";
    setting.shows(dead, 1.0).await;
    let (_, metrics) = setting.site.gateway.get("/metrics").await;
    let rules = text("jetway.rules.yml");
    let is_name = |char: char| char.is_ascii_lowercase() || char == '_';
    let names = rules.split(|char| !is_name(char));
    let names: BTreeSet<&str> = names.filter(|name| name.starts_with("jetway_")).collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
        let is_there = lines.any(|rest| rest.starts_with([' ', '{']));
        assert!(is_there, "{name} is not in /metrics");
    }
    // And the gateway's own judgement has the same names.
    let source = include_str!("../../src/health/conditions.rs");
    for alert in values(&rules, "alert") {
        assert!(source.contains(&format!("\"{alert}\"")), "{alert}");
    }
}
