//! The XXL-JOB executor, called as an admin calls it, and an admin that keeps what it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use jetway::database::Config as Database;
use jetway::jobs::xxl::{self, Admin, Executor};
use jetway::jobs::{Config, Jobs};
use jetway::net::post;
use jetway::tasks::OnExit;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::databases::{echo, hang, node, on_each};
use crate::support::eventually;

const TOKEN: &str = "the token of both";

/// An admin: keeps what it is told, and takes it or not.
struct Recorder {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Heard {
    is_down: bool,
    /// Path, token, body.
    told: Vec<(String, String, Value)>,
}

impl Recorder {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::<Mutex<Heard>>::default();
        let router = Router::new().fallback(hear).with_state(heard.clone());
        #[expect(clippy::disallowed_methods, reason = "a test has no exit policy")]
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            heard,
            server,
        }
    }

    fn is_down(&self, is_down: bool) {
        self.heard.lock().unwrap().is_down = is_down;
    }

    fn told(&self, path: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        let told = heard.told.iter().filter(|(at, _, _)| at == path);
        told.map(|(_, token, body)| {
            assert_eq!(token, TOKEN);
            body.clone()
        })
        .collect()
    }

    /// Code and message of the result of a run, once there is one.
    async fn result(&self, log_id: i64) -> (i64, String) {
        let results = eventually(&format!("the result of {log_id}"), async || {
            let told = self.told("/xxl-job-admin/api/callback");
            let all = told.iter().flat_map(|body| body.as_array().unwrap());
            let of_it: Vec<Value> = all.filter(|one| one["logId"] == log_id).cloned().collect();
            match of_it.is_empty() {
                true => Err(format!("{told:?}")),
                false => Ok(of_it),
            }
        })
        .await;
        let [result] = results.as_slice() else {
            panic!("told more than once: {results:?}")
        };
        assert_eq!(result["logDateTim"], 1_586_629_003_729_i64 + log_id);
        let message = result["handleMsg"].as_str().unwrap();
        (result["handleCode"].as_i64().unwrap(), message.to_owned())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn hear(
    State(heard): State<Arc<Mutex<Heard>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> String {
    let mut heard = heard.lock().unwrap();
    if heard.is_down {
        return json!({ "code": 500, "msg": "not now" }).to_string();
    }
    let token = headers["XXL-JOB-ACCESS-TOKEN"].to_str().unwrap().to_owned();
    let body = serde_json::from_slice(&body).unwrap();
    heard.told.push((uri.path().to_owned(), token, body));
    json!({ "code": 200, "msg": null }).to_string()
}

/// A node with an executor.
struct Node {
    address: SocketAddr,
    jobs: Jobs,
}

impl Node {
    async fn start(database: &Database, recorder: &Recorder) -> Self {
        let jobs = node(database, "executor", &[echo(), hang()]).await;
        let tasks = jobs.tasks.clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config {
            xxl_admin: vec![
                // Nobody is there; the next one is told.
                "http://127.0.0.1:1/xxl-job-admin".to_owned(),
                format!("http://{}/xxl-job-admin/", recorder.address),
            ],
            xxl_token: TOKEN.to_owned(),
            ..Config::default()
        };
        let executor = Executor::new(jobs.clone());
        let admin = Admin::new(&config, address, executor.clone()).unwrap();
        tasks.spawn("admin", OnExit::Log, admin.run());
        tasks.spawn("kept", OnExit::Log, executor.clone().keep());
        let keep = jobs.clone().keep(Duration::from_secs(60));
        tasks.spawn("keep", OnExit::Log, keep);
        let serve = xxl::serve(executor, TOKEN.to_owned(), listener, jobs.stop.clone());
        tasks.spawn("executor", OnExit::Log, serve);
        Self { address, jobs }
    }

    async fn call(&self, path: &str, body: Value) -> Value {
        call(self.address, TOKEN, path, body.to_string()).await
    }

    /// Triggers a run; gives the code of the answer.
    async fn run(&self, job: i64, log: i64, name: &str, strategy: &str) -> i64 {
        let answer = self.call("/run", trigger(job, log, name, strategy)).await;
        answer["code"].as_i64().unwrap()
    }

    async fn stop(self) {
        self.jobs.stop.cancel();
        self.jobs.tasks.wait().await;
    }
}

fn trigger(job: i64, log: i64, name: &str, strategy: &str) -> Value {
    json!({
        "jobId": job, "executorHandler": name, "executorParams": format!("of {log}"),
        "executorBlockStrategy": strategy, "executorTimeout": 0, "logId": log,
        "logDateTime": 1_586_629_003_729_i64 + log, "glueType": "BEAN", "glueSource": "",
        "glueUpdatetime": 1_586_629_003_727_i64, "broadcastIndex": 0, "broadcastTotal": 1,
    })
}

async fn call(address: SocketAddr, token: &str, path: &str, body: String) -> Value {
    let url = post::parse(&format!("http://{address}{path}")).unwrap();
    let headers = [("XXL-JOB-ACCESS-TOKEN", token)];
    let answered = post::json(&url, &headers, body.into(), Duration::from_secs(20)).await;
    let (status, body) = answered.unwrap();
    assert_eq!(status, 200);
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn an_executor_registers_runs_tells_results_and_goes() {
    on_each(async |database| {
        let recorder = Recorder::start().await;
        let node = Node::start(&database, &recorder).await;
        let itself = json!({ "registryGroup": "EXECUTOR", "registryKey": "jetway",
            "registryValue": format!("http://{}/", node.address) });
        eventually("it is registered", async || {
            let told = recorder.told("/xxl-job-admin/api/registry");
            (told.first() == Some(&itself))
                .then_some(())
                .ok_or_else(|| format!("{told:?}"))
        })
        .await;
        assert_eq!(
            node.call("/beat", json!({})).await,
            json!({ "code": 200, "msg": null })
        );
        assert_eq!(node.run(1, 11, "echo", "SERIAL_EXECUTION").await, 200);
        assert_eq!(recorder.result(11).await, (200, "did of 11".to_owned()));

        let log = node.call(
            "/log",
            json!({ "logDateTim": 0, "logId": 11, "fromLineNum": 1 }),
        );
        let content = log.await["content"].clone();
        assert_eq!(
            (&content["fromLineNum"], &content["toLineNum"]),
            (&json!(1), &json!(2))
        );
        let text = content["logContent"].as_str().unwrap();
        let lines: Vec<&str> = text.lines().map(|line| &line[25..]).collect();
        assert_eq!(lines, ["first line", "given \"of 11\""]);
        assert_eq!(content["isEnd"], true);
        let log = node.call(
            "/log",
            json!({ "logDateTim": 0, "logId": 11, "fromLineNum": 3 }),
        );
        let rest = json!({ "fromLineNum": 3, "toLineNum": 2, "logContent": "", "isEnd": true });
        assert_eq!(log.await["content"], rest);

        // A time limit of the admin's.
        let mut limited = trigger(2, 12, "hang", "SERIAL_EXECUTION");
        limited["executorTimeout"] = json!(1);
        assert_eq!(node.call("/run", limited).await["code"], 200);
        assert_eq!(
            node.call("/idleBeat", json!({ "jobId": 2 })).await["code"],
            500
        );
        assert_eq!(
            recorder.result(12).await,
            (502, "not done within 1s".to_owned())
        );
        eventually("the job is idle", async || {
            let answer = node.call("/idleBeat", json!({ "jobId": 2 })).await;
            (answer["code"] == 200)
                .then_some(())
                .ok_or_else(|| format!("{answer}"))
        })
        .await;

        // What runs at the stop has a result, and the executor is taken from the list first.
        assert_eq!(node.run(2, 13, "hang", "SERIAL_EXECUTION").await, 200);
        node.stop().await;
        assert_eq!(recorder.told("/xxl-job-admin/api/registryRemove"), [itself]);
        assert_eq!(
            recorder.result(13).await,
            (500, "its node stops".to_owned())
        );
    })
    .await;
}

#[tokio::test]
async fn block_strategies_say_what_a_trigger_does_to_the_one_before() {
    on_each(async |database| {
        let recorder = Recorder::start().await;
        let node = Node::start(&database, &recorder).await;
        // In turn.
        for log in [1, 2, 3] {
            assert_eq!(node.run(7, log, "hang", "SERIAL_EXECUTION").await, 200);
        }
        // The same one once more is no other one.
        assert_eq!(node.run(7, 3, "hang", "SERIAL_EXECUTION").await, 200);
        assert_eq!(node.run(7, 4, "hang", "DISCARD_LATER").await, 500);
        // A killed job loses what waits as well.
        eventually("the first runs", async || running(&node, 1).await).await;
        assert_eq!(node.call("/kill", json!({ "jobId": 7 })).await["code"], 200);
        assert_eq!(recorder.result(1).await, (500, "killed".to_owned()));
        for log in [2, 3] {
            assert_eq!(
                recorder.result(log).await,
                (500, "killed while it waited".to_owned())
            );
        }
        // A later one in the place of all before it.
        for log in [5, 6] {
            assert_eq!(node.run(7, log, "hang", "SERIAL_EXECUTION").await, 200);
        }
        eventually("the first runs", async || running(&node, 5).await).await;
        assert_eq!(node.run(7, 8, "hang", "COVER_EARLY").await, 200);
        assert_eq!(recorder.result(5).await, (500, "killed".to_owned()));
        let (code, why) = recorder.result(6).await;
        assert_eq!((code, why.contains("COVER_EARLY")), (500, true), "{why}");
        eventually("the last one runs", async || running(&node, 8).await).await;
        // Other jobs of the admin with the same handler wait for its lock, and can be killed meanwhile.
        assert_eq!(node.run(9, 10, "hang", "DISCARD_LATER").await, 200);
        assert_eq!(node.call("/kill", json!({ "jobId": 9 })).await["code"], 200);
        assert_eq!(
            recorder.result(10).await,
            (500, "killed while it waited".to_owned())
        );
        node.stop().await;
    })
    .await;
}

async fn running(node: &Node, log: i64) -> Result<(), String> {
    let runs = node.jobs.store.runs(None, 1_000).await.unwrap();
    let params = format!("of {log}");
    let is_it = |run: &&jetway::jobs::Run| run.params == params;
    let run = runs.iter().find(is_it).ok_or("not there")?;
    match run.outcome {
        jetway::jobs::Outcome::Running => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_result_that_is_not_taken_is_told_after_a_restart() {
    on_each(async |database| {
        let recorder = Recorder::start().await;
        let node = Node::start(&database, &recorder).await;
        recorder.is_down(true);
        assert_eq!(node.run(1, 21, "echo", "SERIAL_EXECUTION").await, 200);
        eventually("it is done", async || {
            let runs = node.jobs.store.runs(None, 1).await.unwrap();
            runs[0].ended_ms.ok_or_else(|| format!("{runs:?}"))
        })
        .await;
        node.stop().await;
        recorder.is_down(false);
        let next = Node::start(&database, &recorder).await;
        assert_eq!(recorder.result(21).await, (200, "did of 21".to_owned()));
        next.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_no_executor_can_run_is_refused() {
    on_each(async |database| {
        let recorder = Recorder::start().await;
        let node = Node::start(&database, &recorder).await;
        let refused = async |path: &str, token: &str, body: &str, why: &str| {
            let answer = call(node.address, token, path, body.to_owned()).await;
            let message = answer["msg"].as_str().unwrap();
            assert_eq!(answer["code"], 500, "{answer}");
            assert!(message.contains(why), "{message}");
        };
        let mut script = trigger(1, 1, "echo", "SERIAL_EXECUTION");
        script["glueType"] = json!("GLUE_SHELL");
        script["glueSource"] = json!("rm -rf /");
        let unknown = trigger(1, 1, "Echo", "SERIAL_EXECUTION").to_string();
        let mut large = trigger(1, 1, "echo", "SERIAL_EXECUTION");
        large["executorParams"] = json!("x".repeat(20_000));
        for (path, token, body, why) in [
            ("/beat", "", "{}", "token"),
            ("/beat", "the token of bot", "{}", "token"),
            ("/run", "another", &*unknown, "token"),
            (
                "/run",
                TOKEN,
                &*unknown,
                "unknown, expected one of echo, hang",
            ),
            ("/run", TOKEN, &*script.to_string(), "glueType"),
            ("/run", TOKEN, &*large.to_string(), "executorParams"),
            ("/run", TOKEN, "", "request body"),
            ("/run", TOKEN, r#"{"jobId":1}"#, "logId"),
            ("/kill", TOKEN, "[", "request body"),
            ("/nothing", TOKEN, "{}", "unknown path"),
        ] {
            refused(path, token, body, why).await;
        }
        assert_eq!(node.jobs.store.runs(None, 10).await.unwrap(), []);
        let log = node.call(
            "/log",
            json!({ "logDateTim": 0, "logId": 404, "fromLineNum": 1 }),
        );
        assert_eq!(log.await["content"]["isEnd"], true);
        node.stop().await;
    })
    .await;
}
