//! One run at a time, whatever asks for it; how runs end, what is kept of them, and how often the scheduler begins one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jetway::jobs::{Cause, Jobs, Outcome, Request, Run, Start, Started, scheduler};

use crate::databases::{LEASE, echo, hang, job, node, node_with_lease, on_each};
use crate::support::{eventually, lasting, within};

async fn started(jobs: &Jobs, request: Request) -> Box<Started> {
    match jobs.start(request).await.unwrap() {
        Start::Started(started) => started,
        other => panic!("expected the lock, found {other:?}"),
    }
}

fn request(name: &str, params: &str) -> Request {
    Request::new(name, params, Cause::Cli)
}

async fn kept(jobs: &Jobs, id: &str) -> Run {
    jobs.store.run(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_run_is_kept_with_its_end_and_what_it_said() {
    on_each(async |config| {
        let jobs = node(&config, "a", &[echo()]).await;
        for (params, outcome, message) in [
            ("x", Outcome::Done, "did x"),
            ("fail", Outcome::Failed, "as it was asked to"),
            ("panic", Outcome::Failed, "the job panicked"),
        ] {
            let run = started(&jobs, request("echo", params)).await;
            let id = run.id().to_owned();
            assert_eq!(kept(&jobs, &id).await.outcome, Outcome::Running);
            run.finish().await;
            let run = kept(&jobs, &id).await;
            assert_eq!((run.outcome, &*run.message), (outcome, message));
            assert_eq!(
                (&*run.name, &*run.params, &*run.cause),
                ("echo", params, "cli")
            );
            assert!(run.ended_ms >= run.started_ms && run.started_ms >= Some(run.queued_ms));
            let lines = jobs.store.lines(&id, 1, 10).await.unwrap();
            let texts: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
            assert_eq!(texts, ["first line", &*format!("given {params:?}")]);
            assert_eq!(jobs.store.lines(&id, 2, 10).await.unwrap(), lines[1..]);
        }
        let runs = jobs.store.runs(Some("echo"), 2).await.unwrap();
        let params: Vec<&str> = runs.iter().map(|run| &*run.params).collect();
        assert_eq!(params, ["panic", "fail"]);
        assert_eq!(jobs.store.runs(None, 10).await.unwrap().len(), 3);
        let error = jobs.start(request("Echo", "")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "job \"Echo\": unknown, expected one of echo"
        );

        assert_eq!(jobs.store.purge(Duration::from_secs(60)).await.unwrap(), 0);
        lasting(Duration::from_millis(5)).await;
        assert_eq!(jobs.store.purge(Duration::ZERO).await.unwrap(), 3);
        assert_eq!(jobs.store.runs(None, 10).await.unwrap(), []);
        assert_eq!(jobs.store.lines(&runs[0].id, 1, 10).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn of_nodes_that_want_a_job_at_once_one_runs_it() {
    on_each(async |config| {
        let most = Arc::new(AtomicUsize::new(0));
        let running = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let counting = || {
            let (most, running, done) = (most.clone(), running.clone(), done.clone());
            job("count", move |_| {
                let (most, running, done) = (most.clone(), running.clone(), done.clone());
                Box::pin(async move {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(String::new())
                })
            })
        };
        let nodes = [
            node(&config, "a", &[counting()]).await,
            node(&config, "b", &[counting()]).await,
            node(&config, "c", &[counting()]).await,
        ];
        let work = nodes.iter().map(async |jobs| {
            let mut won = 0;
            for _ in 0..10 {
                match jobs.start(request("count", "")).await.unwrap() {
                    Start::Started(started) => {
                        assert_eq!(started.finish().await.outcome, Outcome::Done);
                        won += 1;
                    }
                    Start::Busy { .. } => {}
                    Start::NotDue { .. } => panic!("nothing is scheduled"),
                }
            }
            won
        });
        let won: usize = futures_util::future::join_all(work).await.into_iter().sum();
        assert!(won >= 1);
        assert_eq!(done.load(Ordering::SeqCst), won);
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(nodes[0].store.runs(None, 100).await.unwrap().len(), won);
    })
    .await;
}

#[tokio::test]
async fn a_job_that_hangs_is_ended_at_its_limit_and_its_lock_is_free() {
    on_each(async |config| {
        let jobs = node_with_lease(&config, "a", &[hang()]).await;
        // Longer than the lease: it is renewed.
        let limit = LEASE * 2;
        let limited = Request {
            limit: Some(limit),
            ..request("hang", "")
        };
        let (begun, id) = (Instant::now(), limited.id.clone());
        let run = started(&jobs, limited).await;
        let other = node_with_lease(&config, "b", &[hang()]).await;
        let (ended, ()) = tokio::join!(run.finish(), async {
            lasting(LEASE + LEASE / 10).await;
            match other.start(request("hang", "")).await.unwrap() {
                Start::Busy { run } => assert_eq!(run, id),
                other => panic!("expected the lock to be kept, found {other:?}"),
            }
        });
        assert_eq!(ended.outcome, Outcome::Timeout);
        assert!(begun.elapsed() >= limit && begun.elapsed() < limit * 4);
        assert_eq!(kept(&jobs, &id).await.outcome, Outcome::Timeout);
        // And one that is killed.
        let run = started(&other, request("hang", "")).await;
        let id = run.id().to_owned();
        let (ended, killed) = tokio::join!(run.finish(), async { other.kill(&id) });
        assert!(killed && !other.kill("another"));
        assert_eq!(ended.outcome, Outcome::Killed);
        // What a node that stops had is ended in good order.
        let run = started(&jobs, request("hang", "")).await;
        jobs.stop.cancel();
        let ended = run.finish().await;
        assert_eq!(
            (ended.outcome, &*ended.message),
            (Outcome::Killed, "its node stops")
        );
        started(&other, request("hang", "")).await;
    })
    .await;
}

#[tokio::test]
async fn who_lost_the_lock_does_not_go_on() {
    on_each(async |config| {
        let (jobs, other) = (
            node_with_lease(&config, "a", &[hang()]).await,
            node_with_lease(&config, "b", &[hang()]).await,
        );
        let run = started(&jobs, request("hang", "")).await;
        let id = run.id().to_owned();
        // As if the node had stood still: nothing is renewed until the lease is over.
        lasting(LEASE + LEASE / 10).await;
        let second = started(&other, request("hang", "")).await;
        let (ended, _) = tokio::join!(within("the end of the first", run.finish()), async {
            eventually("the first is told", async || {
                match kept(&jobs, &id).await.outcome {
                    Outcome::Running => Err("it runs".to_owned()),
                    _ => Ok(()),
                }
            })
            .await;
            let id = second.id().to_owned();
            tokio::join!(second.finish(), async { assert!(other.kill(&id)) })
        });
        assert_eq!(ended.outcome, Outcome::Lost);
        assert_eq!(kept(&jobs, &id).await.outcome, Outcome::Lost);
    })
    .await;
}

#[tokio::test]
async fn the_scheduler_begins_a_run_at_once_and_then_each_interval_on_one_node() {
    const HOUR: Duration = Duration::from_secs(3_600);
    const INTERVAL: Duration = Duration::from_millis(400);
    on_each(async |config| {
        let first = node(&config, "first", &[echo()]).await;
        let nodes = [
            node(&config, "a", &[echo()]).await,
            node(&config, "b", &[echo()]).await,
        ];
        let begun = Instant::now();
        let runs = async || first.store.runs(None, 100).await.unwrap().len();
        let until = async |count: usize| {
            eventually(&format!("{count} runs"), async || match runs().await {
                kept if kept >= count => Ok(()),
                kept => Err(kept.to_string()),
            })
            .await;
        };
        // Nobody waits here for what is due only after an hour.
        tokio::join!(scheduler::run(first.clone(), "echo", HOUR), async {
            until(1).await;
            first.stop.cancel();
        });
        let scheduled = nodes
            .iter()
            .map(|jobs| scheduler::run(jobs.clone(), "echo", INTERVAL));
        tokio::join!(futures_util::future::join_all(scheduled), async {
            until(6).await;
            for jobs in &nodes {
                jobs.stop.cancel();
            }
        });
        let took = begun.elapsed();
        let count = u32::try_from(runs().await).unwrap();
        // When a run began is kept in whole milliseconds.
        let least = INTERVAL * (count - 1) - Duration::from_millis(1);
        assert!(took >= least, "{count} runs in {took:?}");
    })
    .await;
}
