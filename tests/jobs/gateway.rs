//! The jobs of a real gateway: over HTTP, from the command line, by its scheduler, by XXL-JOB.

use std::time::Duration;

use jetway::database::Pool;
use jetway::device::DeviceId;
use jetway::mapping::GpsEvent;
use jetway::message::Headers;
use jetway::net::post;
use jetway::outbox::store::{Enqueue as _, Event, Store as Outbox};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::databases::config;
use crate::site::Site;
use crate::support::{eventually, http, jetway, jetway_fails};

const PUBLISH: &str = "gpsReportOutboxPublishJob";

async fn enqueue(site: &Site) -> String {
    let pool = Pool::open(&config(&site.database_url())).await.unwrap();
    let outbox = Outbox::open(pool.clone()).await.unwrap();
    drop(outbox);
    let event_id = Uuid::now_v7();
    let kind = GpsEvent::ReportCreated;
    let mut on = pool.begin().await.unwrap();
    let event = Event {
        event_id,
        event_type: kind.name().into(),
        event_version: "1.0".into(),
        aggregate_type: "device".into(),
        aggregate_id: "P/D".into(),
        subject: kind.subject(&DeviceId::new("P", "D").unwrap()),
        payload: "{}".into(),
        headers: Headers::default(),
        trace_id: "".into(),
    };
    on.enqueue(&[event]).await.unwrap();
    on.commit().await.unwrap();
    event_id.to_string()
}

async fn is_published(site: &Site, event_id: &str) {
    let backend = site.backend().await;
    let stream = backend.stream("GPS").await;
    eventually("the event is in the stream", async || {
        let last = stream
            .get_last_raw_message_by_subject("gps.report.created.P.D")
            .await;
        let last = last.map_err(|error| error.to_string())?;
        let id = last.headers.get("Nats-Msg-Id").map(ToString::to_string);
        (id.as_deref() == Some(event_id))
            .then_some(())
            .ok_or_else(|| format!("{id:?}"))
    })
    .await;
}

fn body(answer: (u16, String), status: u16) -> Value {
    assert_eq!(answer.0, status, "{}", answer.1);
    serde_json::from_str(&answer.1).unwrap()
}

#[tokio::test]
async fn a_gateways_jobs_are_run_from_everywhere() {
    let site = Site::start(&[
        ("JETWAY_OUTBOX_RELAY_ENABLED", "false"),
        ("JETWAY_JOBS_XXL_LISTEN", "127.0.0.1:0"),
        ("JETWAY_JOBS_XXL_TOKEN", "t"),
    ])
    .await;
    by_its_scheduler(&site).await;
    over_http(&site).await;
    from_the_command_line(&site).await;
    by_xxl_job(&site).await;
}

/// What is due at the start.
async fn by_its_scheduler(site: &Site) {
    let run = eventually("the scheduler ran the job", async || {
        let runs = "/jobs/runs?name=gpsReportScheduleJob&limit=1";
        let (_, runs) = site.gateway.get(runs).await;
        let run = serde_json::from_str::<Value>(&runs).unwrap()["runs"][0].clone();
        let is_done = run["outcome"] == "done";
        is_done.then_some(run).ok_or(runs)
    })
    .await;
    assert_eq!(run["cause"], "schedule");
    assert_eq!(run["message"], "0 reports read, 0 windows closed");
}

async fn over_http(site: &Site) {
    let get = async |path: &str| site.gateway.get(path).await;
    let post = async |name: &str| {
        let path = format!("/jobs/{name}");
        http::request(site.gateway.ready.http, "POST", &path).await
    };
    let jobs = body(get("/jobs").await, 200);
    let jobs = jobs["jobs"].as_array().unwrap().iter();
    let names: Vec<&str> = jobs.map(|job| job["name"].as_str().unwrap()).collect();
    let all = ["gpsReportNotificationJob", PUBLISH, "gpsReportScheduleJob"];
    assert_eq!(names, all);
    let event_id = enqueue(site).await;
    let id = body(post(PUBLISH).await, 202)["run"]
        .as_str()
        .unwrap()
        .to_owned();
    is_published(site, &event_id).await;
    let ended = eventually("the run has ended", async || {
        let run = body(get(&format!("/jobs/runs/{id}")).await, 200);
        let is_done = run["run"]["outcome"] == "done";
        is_done
            .then_some(run.clone())
            .ok_or_else(|| run.to_string())
    })
    .await;
    let message = "1 rows published, 0 refused, 0 dead, 0 without an answer";
    assert_eq!(ended["run"]["message"], message);
    body(post("gpsreportoutboxpublishjob").await, 404);
    body(get("/jobs/runs/none").await, 404);
    body(get("/jobs/runs?all=true").await, 400);
    let done = "jetway_jobs_runs_total{job=\"gpsReportOutboxPublishJob\",outcome=\"done\"}";
    // Counted after its end is written.
    site.counted(done, 0.0).await;
}

/// On the same database and NATS.
async fn from_the_command_line(site: &Site) {
    let (database, nats) = (site.database_url(), site.nats.url());
    let environment = [
        ("JETWAY_DATABASE_URL", &*database),
        ("JETWAY_NATS_URL", &*nats),
    ];
    let event_id = enqueue(site).await;
    let printed = jetway(&["jobs", "run", PUBLISH], &environment);
    let expected = "\tcli\tdone\t1 rows published";
    assert!(printed.contains(expected), "{printed}");
    is_published(site, &event_id).await;
    let run = printed.split('\t').next().unwrap();
    assert_eq!(jetway(&["jobs", "log", run], &environment), printed);
    let listed = jetway(&["jobs", "ls"], &environment);
    assert!(listed.contains(&printed), "{listed}");
    assert!(listed.contains("gpsReportScheduleJob\t"), "{listed}");
    let (_, error) = jetway_fails(&["jobs", "run", "nothing"], &environment);
    let expected = "unknown, expected one of gpsReportNotificationJob";
    assert!(error.contains(expected), "{error}");
}

async fn by_xxl_job(site: &Site) {
    let log = site.gateway.log();
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("XXL-JOB executor"));
    let address = line.unwrap().split("address=").nth(1).unwrap();
    let address = address.split_whitespace().next().unwrap();
    let event_id = enqueue(site).await;
    let trigger = json!({ "jobId": 1, "logId": 1, "executorHandler": PUBLISH, "glueType": "BEAN" });
    let url = post::parse(&format!("http://{address}/run")).unwrap();
    let token = [("XXL-JOB-ACCESS-TOKEN", "t")];
    let limit = Duration::from_secs(10);
    let answer = post::json(&url, &token, trigger.to_string().into(), limit).await;
    assert_eq!(answer.unwrap().1, r#"{"code":200,"msg":null}"#);
    is_published(site, &event_id).await;
}
