//! A node that is killed in the middle of a job: another one runs it, after the lease and not before.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jetway::jobs::{Cause, Outcome, Request, Start};

use crate::databases::{LEASE, config, hang, node_with_lease, on_each};
use crate::support::eventually;

const URL: &str = "JOBS_TEST_DATABASE";

/// The other process: with a database it takes the lock and hangs; among the tests it does nothing.
#[tokio::test]
async fn as_a_node_of_its_own() {
    if let Ok(url) = std::env::var(URL) {
        let jobs = node_with_lease(&config(&url), "killed", &[hang()]).await;
        let request = Request::new("hang", "", Cause::Http);
        match jobs.start(request).await.unwrap() {
            Start::Started(started) => drop(started.finish().await),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_job_of_a_killed_node_is_another_ones_after_the_lease() {
    on_each(async |config| {
        let jobs = node_with_lease(&config, "next", &[hang()]).await;
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::as_a_node_of_its_own"])
            .env(URL, &config.url)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let lost = eventually("the other node runs it", async || {
            let runs = jobs.store.runs(Some("hang"), 1).await.unwrap();
            let running = runs.first().filter(|run| run.node == "killed");
            running.cloned().ok_or_else(|| format!("{runs:?}"))
        })
        .await;
        other.kill().unwrap();
        other.wait().unwrap();
        let killed = Instant::now();
        let keep = jobs.clone().keep(Duration::from_secs(60));
        let next = async {
            let started = eventually("this node may run it", async || {
                // It is due at once, however lately the killed one began it.
                let hourly = Cause::Schedule(Duration::from_secs(3_600));
                match jobs.start(Request::new("hang", "", hourly)).await.unwrap() {
                    Start::Started(started) => Ok(started),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
            let waited = killed.elapsed();
            assert!(waited < LEASE * 4, "{waited:?}");
            // Meanwhile its own run keeps the lock.
            let (ended, ()) = tokio::join!(started.finish(), async {
                eventually("the killed run is known to be lost", async || {
                    let run = jobs.store.run(&lost.id).await.unwrap().unwrap();
                    match run.outcome {
                        Outcome::Lost => Ok(()),
                        other => Err(format!("{other:?}")),
                    }
                })
                .await;
                jobs.stop.cancel();
            });
            assert_eq!(ended.outcome, Outcome::Killed);
        };
        tokio::join!(keep, next);
    })
    .await;
}
