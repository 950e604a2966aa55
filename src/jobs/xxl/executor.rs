//! A lane for each XXL-JOB job: what runs, what waits behind it, and what a further trigger does to both.
//!
//! A trigger is accepted when its run is in the database. From then on it ends in some way: done here, killed here, or found
//! abandoned by another node.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::protocol::{Answer, BlockStrategy, LogPart, OfJob, OfLog, Trigger};
use crate::event;
use crate::jobs::error::Error;
use crate::jobs::run::{Cause, Ended, LogId, Outcome, PARAMS_BYTES_MAX, Request};
use crate::jobs::runner::{Jobs, Start};
use crate::tasks::OnExit;

/// Runs that wait in a lane.
const WAITING_MAX: usize = 1_000;
/// Between two tries for a lock that a run of another lane or node has.
const PAUSE: Duration = Duration::from_millis(200);
/// Lines of one answer.
const LINES: i64 = 1_000;

/// Runs what an XXL-JOB admin triggers; cheap to clone.
#[derive(Clone)]
pub struct Executor {
    pub(super) jobs: Jobs,
    /// By XXL-JOB's job.
    lanes: Arc<Mutex<BTreeMap<i64, Lane>>>,
}

#[derive(Debug, Default)]
struct Lane {
    /// On their way into the database.
    accepting: Vec<i64>,
    waiting: VecDeque<Request>,
    current: Option<(Request, CancellationToken)>,
}

impl Lane {
    fn is_busy(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty() || !self.accepting.is_empty()
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        let current = self.current.iter().map(|(request, _)| request);
        current.chain(&self.waiting)
    }

    fn has(&self, log_id: i64) -> bool {
        let is_it =
            |request: &Request| matches!(request.cause, Cause::Xxl(log) if log.id == log_id);
        self.accepting.contains(&log_id) || self.requests().any(is_it)
    }

    /// Ends what runs; gives what was waiting.
    fn clear(&mut self) -> VecDeque<Request> {
        if let Some((_, killed)) = &self.current {
            killed.cancel();
        }
        std::mem::take(&mut self.waiting)
    }
}

impl Executor {
    /// An executor of `jobs`.
    #[must_use]
    pub fn new(jobs: Jobs) -> Self {
        Self {
            jobs,
            lanes: Arc::default(),
        }
    }

    /// Whether nothing runs and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        !self.lanes().values().any(Lane::is_busy)
    }

    /// Keeps what waits from being taken for abandoned, until the node stops.
    pub async fn keep(self) {
        let mut ticks = interval(self.jobs.store.lease() / 3);
        let work = async {
            loop {
                ticks.tick().await;
                for id in self.held() {
                    if let Err(error) = self.jobs.store.keep(&id).await {
                        tracing::debug!(error = error.in_words(), "waiting run not kept");
                    }
                }
            }
        };
        self.jobs.stop.run_until_cancelled(work).await;
    }

    pub(super) async fn trigger(&self, trigger: Trigger) -> Answer {
        let request = match self.read(&trigger) {
            Ok(request) => request,
            Err(why) => return Answer::failed(why),
        };
        let (job, log_id) = (trigger.job_id, trigger.log_id);
        let strategy = BlockStrategy::named(&trigger.executor_block_strategy);
        let covered = {
            let mut lanes = self.lanes();
            let lane = lanes.entry(job).or_default();
            if lane.has(log_id) {
                // The same trigger once more: it is accepted already.
                return Answer::ok();
            }
            let covered = match strategy {
                BlockStrategy::DiscardLater if lane.is_busy() => {
                    return Answer::failed("block strategy DISCARD_LATER: the job is running");
                }
                BlockStrategy::CoverEarly => lane.clear(),
                BlockStrategy::Serial | BlockStrategy::DiscardLater => VecDeque::new(),
            };
            if lane.waiting.len() + lane.accepting.len() >= WAITING_MAX {
                return Answer::failed(format!("{WAITING_MAX} runs of the job wait already"));
            }
            lane.accepting.push(log_id);
            covered
        };
        self.kill_waiting(
            covered,
            "block strategy COVER_EARLY: a later run took its place",
        );
        let kept = self.jobs.store.enqueue(&request, &self.jobs.node).await;
        let mut lanes = self.lanes();
        let lane = lanes.entry(job).or_default();
        lane.accepting.retain(|accepting| *accepting != log_id);
        let answer = match kept {
            Ok(()) => {
                lane.waiting.push_back(request);
                Answer::ok()
            }
            Err(error) => Answer::failed(error.in_words()),
        };
        self.go_on(job, lane);
        answer
    }

    /// 200 if nothing of the job runs or waits.
    pub(super) fn idle_beat(&self, of: &OfJob) -> Answer {
        match self.lanes().get(&of.job_id).is_some_and(Lane::is_busy) {
            false => Answer::ok(),
            true => Answer::failed("the job is running or has runs that wait"),
        }
    }

    /// Ends what runs of the job and what waits.
    pub(super) fn kill(&self, of: &OfJob) -> Answer {
        let waiting = match self.lanes().get_mut(&of.job_id) {
            Some(lane) => lane.clear(),
            None => VecDeque::new(),
        };
        self.kill_waiting(waiting, "killed while it waited");
        Answer::ok()
    }

    pub(super) async fn log(&self, of: &OfLog) -> Answer {
        match self.read_log(of).await {
            Ok(part) => Answer {
                content: Some(part),
                ..Answer::ok()
            },
            Err(error) => Answer::failed(error.in_words()),
        }
    }

    async fn read_log(&self, of: &OfLog) -> Result<LogPart, Error> {
        let from = of.from_line_num.max(1);
        let store = &self.jobs.store;
        let Some(run) = store.run_of_log(of.log_id).await? else {
            return Ok(LogPart {
                from_line_num: from,
                to_line_num: 0,
                log_content: "no log of this run is kept".to_owned(),
                is_end: true,
            });
        };
        // Read after the run: one that had ended says no more.
        let lines = store.lines(&run.id, from, LINES).await?;
        let text = lines.iter().map(|line| {
            let at_ms = u64::try_from(line.at_ms).unwrap_or(0);
            format!("{} {}\n", event::iso8601(at_ms), line.text)
        });
        Ok(LogPart {
            from_line_num: from,
            to_line_num: lines.last().map_or(from - 1, |line| line.number),
            log_content: text.collect(),
            is_end: run.ended_ms.is_some(),
        })
    }

    /// The run that a trigger asks for, or why there can be none.
    fn read(&self, trigger: &Trigger) -> Result<Request, String> {
        if !matches!(&*trigger.glue_type, "" | "BEAN") {
            let found = &trigger.glue_type;
            return Err(format!("glueType: expected BEAN, found {found:?}"));
        }
        let name = &*trigger.executor_handler;
        let job = self.jobs.registry.get(name);
        job.map_err(|error| error.to_string())?;
        if trigger.executor_params.len() > PARAMS_BYTES_MAX {
            return Err(format!(
                "executorParams: expected {PARAMS_BYTES_MAX} bytes at most"
            ));
        }
        let cause = Cause::Xxl(LogId {
            id: trigger.log_id,
            ms: trigger.log_date_time,
        });
        let seconds = u64::try_from(trigger.executor_timeout).unwrap_or(0);
        Ok(Request {
            limit: (seconds > 0).then(|| Duration::from_secs(seconds)),
            ..Request::new(name, &trigger.executor_params, cause)
        })
    }

    /// Begins the lane's next run if none runs; a lane with nothing in it is gone.
    fn go_on(&self, job: i64, lane: &mut Lane) {
        if lane.current.is_some() {
            return;
        }
        let Some(next) = lane.waiting.pop_front() else {
            return;
        };
        let killed = CancellationToken::new();
        lane.current = Some((next.clone(), killed.clone()));
        let executor = self.clone();
        self.jobs.tasks.spawn("job", OnExit::Log, async move {
            executor.do_one(next, killed).await;
            let mut lanes = executor.lanes();
            if let Some(lane) = lanes.get_mut(&job) {
                lane.current = None;
                executor.go_on(job, lane);
            }
            lanes.retain(|_, lane| lane.is_busy());
        });
    }

    /// Waits for the job's lock and does the work; whatever happens, the run is ended.
    async fn do_one(&self, request: Request, killed: CancellationToken) {
        let limit = self.jobs.registry.get(&request.name).map(|job| job.limit);
        let until = Instant::now() + limit.unwrap_or_default();
        let ended = |outcome, message: &str| Ended {
            outcome,
            message: message.to_owned(),
        };
        let why = loop {
            if killed.is_cancelled() {
                break ended(Outcome::Killed, "killed while it waited");
            }
            if self.jobs.stop.is_cancelled() {
                break ended(Outcome::Killed, "its node stops");
            }
            if Instant::now() >= until {
                break ended(Outcome::Timeout, "another run has had the job all the time");
            }
            match self.jobs.start(request.clone()).await {
                Ok(Start::Started(started)) => {
                    let finish = started.finish();
                    tokio::pin!(finish);
                    tokio::select! {
                        _ = &mut finish => {}
                        () = killed.cancelled() => {
                            self.jobs.kill(&request.id);
                            finish.await;
                        }
                    }
                    return;
                }
                Ok(Start::Busy { .. } | Start::NotDue { .. }) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => break ended(Outcome::Failed, &error.in_words()),
            }
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = killed.cancelled() => {}
                () = self.jobs.stop.cancelled() => {}
            }
        };
        self.end(&request.id, &why).await;
    }

    fn kill_waiting(&self, waiting: VecDeque<Request>, why: &'static str) {
        if waiting.is_empty() {
            return;
        }
        let executor = self.clone();
        self.jobs
            .tasks
            .spawn("killed runs", OnExit::Log, async move {
                let ended = Ended {
                    outcome: Outcome::Killed,
                    message: why.to_owned(),
                };
                for request in waiting {
                    executor.end(&request.id, &ended).await;
                }
            });
    }

    /// Writes the end of a run that never began; if that cannot be done it is found abandoned after its lease.
    async fn end(&self, id: &str, ended: &Ended) {
        match self.jobs.store.end(id, ended, &[]).await {
            Ok(()) => self.jobs.ended.notify_one(),
            Err(error) => {
                tracing::warn!(
                    run = id,
                    error = error.in_words(),
                    "end of a run not written"
                );
            }
        }
    }

    fn held(&self) -> Vec<String> {
        let lanes = self.lanes();
        let requests = lanes.values().flat_map(Lane::requests);
        requests.map(|request| request.id.clone()).collect()
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<i64, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
