//! The recipe for Python does what it says, as it stands in the library's page.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;

use crate::rig::{DURABLE, Rig, event};
use crate::support::{python, within};

const PAGE: &str = include_str!("../../src/consumer/README.md");

/// The code block of a language.
fn recipe(language: &str) -> &'static str {
    let (_, code) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    code.split_once("```\n").unwrap().0
}

async fn reports(rig: &Rig) -> Vec<(String, String)> {
    let select = "SELECT product, device FROM report ORDER BY rowid";
    sqlx::query_as(select).fetch_all(&rig.pool).await.unwrap()
}

#[tokio::test]
async fn the_python_recipe_keeps_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("recipe.py");
    std::fs::write(&script, recipe("python")).unwrap();
    keeps_the_rules(python(&script).into()).await;
}

async fn keeps_the_rules(mut service: Command) {
    let rig = Rig::start(&[300, 300, 300, 300, 300, 300, 300, 300]).await;
    let mut advisories = rig.advisories().await;
    let mut service = service
        .env("NATS_URL", rig.server.url())
        .env("DATABASE", rig.database())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It fails as long as its table is missing.
    rig.publish("d1", 1).await;
    rig.until("it was tried twice", |info| info.num_redelivered == 1)
        .await;
    sqlx::query("CREATE TABLE report (product TEXT, device TEXT, data TEXT)")
        .execute(&rig.pool)
        .await
        .unwrap();
    rig.until_done().await;
    assert_eq!(reports(&rig).await, [("p".to_owned(), "d1".to_owned())]);

    // The same event again, and a replayed one.
    rig.publish("d1", 1).await;
    let subject = format!("replay.{DURABLE}.application.device.p.d2.report.thing.property");
    let payload = event("2", "1.0", json!({"number": 2}));
    rig.backend.publish(&subject, &[], payload).await;
    rig.until_done().await;
    let devices: Vec<_> = reports(&rig).await.into_iter().map(|row| row.1).collect();
    assert_eq!(devices, ["d1", "d2"]);

    for (payload, reason) in [
        ("\u{1}".to_owned(), "no event: "),
        ("[]".to_owned(), "no event: "),
        (
            event("3", "9.0", json!({})),
            "no handler for event device.property.reported 9.0",
        ),
    ] {
        rig.publish_as("d3", &payload).await;
        let (kind, said) = advisories.next(&rig.backend).await;
        assert_eq!(kind, "terminated");
        assert!(said.starts_with(reason), "{said}");
    }
    sqlx::query("DROP TABLE report")
        .execute(&rig.pool)
        .await
        .unwrap();
    rig.publish("d4", 4).await;
    assert_eq!(advisories.next(&rig.backend).await.0, "max_deliver");
    rig.until_done().await;

    let pid = i32::try_from(service.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let status = within("the service to stop", service.wait()).await.unwrap();
    assert!(status.success(), "{status}");
}
