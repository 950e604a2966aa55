//! The loop of one replica: pull what there is room for, hand it to handlers, answer the server.
//!
//! Invariants: a message is acknowledged only when its handling is committed, now or before; every message that came is
//! answered once, or comes again by itself; after the stop nothing is begun but what would have no other try.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::handlers::Handlers;
use super::handling::{Bench, Ended};
use super::inflight::Inflight;
use super::ladder::Ladder;
use super::origin::{Origin, Source};
use super::{Config, Handle, Inbox, Metrics, Outcome};
use crate::delivery::{Answer, Delivered, Next, Redelivery};
use crate::message::Subject;
use crate::tasks::{OnExit, Tasks};
use crate::telemetry::otlp::Spans;

/// Between two tries of what the server refused.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks for what the inbox may forget.
const PURGE_INTERVAL: Duration = Duration::from_hours(1);

/// A service's consumer of one durable, one replica of perhaps many.
pub struct Consumer {
    origin: Origin,
    config: Config,
    handlers: Handlers,
    inbox: Inbox,
    metrics: Metrics,
    spans: Spans,
}

impl Consumer {
    /// A consumer without handlers yet, of a durable of this broker; `&Link` is JetStream.
    #[must_use]
    pub fn new(origin: impl Into<Origin>, config: Config, inbox: Inbox) -> Self {
        Self {
            origin: origin.into(),
            config,
            handlers: Handlers::default(),
            inbox,
            metrics: Metrics::default(),
            spans: Spans::default(),
        }
    }

    /// Handles events of this name and exactly this version so; the last one said counts. An event that nothing is said about
    /// is a dead letter.
    #[must_use]
    pub fn on(mut self, name: &str, version: &str, handle: impl Handle) -> Self {
        self.handlers.add(name, version, handle);
        self
    }

    /// Leaves a span of each handling with `spans`; [`otlp::start`](crate::telemetry::otlp::start) makes them.
    #[must_use]
    pub fn spans(mut self, spans: Spans) -> Self {
        self.spans = spans;
        self
    }

    /// Its figures, to be registered.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Consumes until `shutdown`, through outages of the broker, of the database and of the durable itself. Then it finishes what
    /// runs, gives the rest back and returns.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            origin,
            config,
            handlers,
            inbox,
            metrics,
            spans,
        } = self;
        let bench = Arc::new(Bench {
            config,
            handlers,
            inbox,
            metrics,
            spans,
            stopping: shutdown.clone(),
            abandoned: CancellationToken::new(),
        });
        let tasks = Tasks::new(shutdown);
        tasks.spawn("consumer inbox", OnExit::Log, forget(Arc::clone(&bench)));
        while let Some((source, redelivery)) = bind(&origin, &bench).await {
            let replica = Replica::new(source, redelivery, &bench, &tasks);
            if replica.serve().await == End::Stopped {
                break;
            }
            tracing::warn!(durable = &*bench.config.durable, "the durable is gone");
        }
        tasks.wait().await;
    }
}

/// The durable, once it is there; nothing if the service stops first.
async fn bind(origin: &Origin, bench: &Bench) -> Option<(Source, Redelivery)> {
    let Config {
        stream, durable, ..
    } = &bench.config;
    let bound = async {
        loop {
            match origin.bind(stream, durable).await {
                Ok(bound) => return bound,
                Err(error) => tracing::warn!(%durable, %error, "the durable is not there yet"),
            }
            sleep(PAUSE).await;
        }
    };
    bench.stopping.run_until_cancelled(bound).await
}

/// Lets the inbox forget what is old, now and then.
async fn forget(bench: Arc<Bench>) {
    let Config {
        durable,
        inbox_retention,
        ..
    } = &bench.config;
    let purging = async {
        loop {
            match bench.inbox.purge(durable, *inbox_retention).await {
                Ok(events) => tracing::debug!(%durable, events, "the inbox forgot old events"),
                Err(error) => tracing::warn!(%durable, %error, "the inbox is not purged"),
            }
            sleep(PURGE_INTERVAL).await;
        }
    };
    let _never: Option<()> = bench.stopping.run_until_cancelled(purging).await;
}

/// Why a loop ended, with nothing in its hands.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Stopped,
    /// The durable is not there any more.
    Gone,
}

struct Replica<'a> {
    source: Source,
    ladder: Ladder,
    bench: &'a Arc<Bench>,
    tasks: &'a Tasks,
    inflight: Inflight,
    running: usize,
    ended: mpsc::Sender<(u64, Ended)>,
    endings: mpsc::Receiver<(u64, Ended)>,
    progress: Interval,
    /// No pull before.
    pause_until: Option<Instant>,
    gone: bool,
    /// To be given to other replicas.
    returned: Vec<Subject>,
    /// When what runs is abandoned; set once the service stops.
    drain_until: Option<Instant>,
}

impl<'a> Replica<'a> {
    fn new(
        source: Source,
        redelivery: Redelivery,
        bench: &'a Arc<Bench>,
        tasks: &'a Tasks,
    ) -> Self {
        let config = &bench.config;
        let (ended, endings) = mpsc::channel(config.inflight_max.max(1));
        let ladder = Ladder::new(redelivery);
        let mut progress = interval(ladder.progress_interval());
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            source,
            ladder,
            bench,
            tasks,
            inflight: Inflight::new(&config.durable, config.order),
            running: 0,
            ended,
            endings,
            progress,
            pause_until: None,
            gone: false,
            returned: Vec::new(),
            drain_until: None,
        }
    }

    async fn serve(mut self) -> End {
        loop {
            self.begin().await;
            self.pull().await;
            self.give_back().await;
            if self.inflight.len() == 0 && !self.source.is_pulling() {
                if self.drain_until.is_some() {
                    self.flush().await;
                    return End::Stopped;
                }
                if self.gone {
                    return End::Gone;
                }
            }
            let stopping = self.drain_until.is_some();
            tokio::select! {
                next = self.source.next(), if !self.gone => self.came(next),
                Some((sequence, ended)) = self.endings.recv() => {
                    self.running -= 1;
                    self.settle(sequence, ended).await;
                }
                _ = self.progress.tick() => self.tell_progress().await,
                () = sleep_until(self.pause_until.unwrap_or_else(Instant::now)), if self.pause_until.is_some() => {
                    self.pause_until = None;
                }
                () = self.bench.stopping.cancelled(), if !stopping => {
                    self.drain_until = Some(Instant::now() + self.bench.config.drain_max);
                }
                () = sleep_until(self.drain_until.unwrap_or_else(Instant::now)), if stopping && !self.bench.abandoned.is_cancelled() => {
                    self.bench.abandoned.cancel();
                }
            }
        }
    }

    fn came(&mut self, next: Next) {
        match next {
            Next::Message(delivered) => self.inflight.take(delivered),
            Next::Ended => {}
            Next::Refused(reason) => {
                tracing::warn!(
                    durable = &*self.bench.config.durable,
                    reason,
                    "pull refused"
                );
                self.pause_until = Some(Instant::now() + PAUSE);
            }
            Next::Gone => self.gone = true,
        }
    }

    /// Starts what may run now. While the service stops, what has another try is given back in its turn, so that nobody
    /// handles it before what is in front of it.
    async fn begin(&mut self) {
        while self.running < self.bench.config.concurrency.max(1)
            && let Some(delivered) = self.inflight.next()
        {
            if self.drain_until.is_some() && !self.ladder.is_last(delivered.attempt) {
                self.settle(delivered.sequence, Ended::Abandoned).await;
            } else {
                self.spawn(delivered);
            }
        }
    }

    fn spawn(&mut self, delivered: Delivered) {
        self.running += 1;
        let (sequence, ended) = (delivered.sequence, self.ended.clone());
        let bench = Arc::clone(self.bench);
        self.tasks
            .spawn("consumer handler", OnExit::Log, async move {
                let end = bench.handle(delivered).await;
                // The loop waits for it, and has room for all that run.
                drop(ended.send((sequence, end)).await);
            });
    }

    /// Asks for more once half of the room is free: a pull for each message would be slow.
    async fn pull(&mut self) {
        let inflight_max = self.bench.config.inflight_max.max(1);
        let room = inflight_max.saturating_sub(self.inflight.len());
        let wanted = !self.gone && self.drain_until.is_none() && self.pause_until.is_none();
        if wanted && !self.source.is_pulling() && room * 2 >= inflight_max {
            self.source.pull(room).await;
        }
    }

    /// Answers the server for a message whose handling ended.
    async fn settle(&mut self, sequence: u64, ended: Ended) {
        let Some(held) = self.inflight.finish(sequence) else {
            return;
        };
        let (outcome, answer) = match ended {
            Ended::Handled => (Outcome::Handled, Answer::Ack),
            Ended::Duplicate => (Outcome::Duplicate, Answer::Ack),
            Ended::Abandoned => {
                self.bench.metrics.add(Outcome::Returned);
                return self.returned.push(held.reply);
            }
            Ended::Poison(reason) => (Outcome::Dead, Answer::Terminate(reason)),
            Ended::Failed(error) => {
                let outcome = match self.ladder.is_last(held.attempt) {
                    true => Outcome::Dead,
                    false => Outcome::Failed,
                };
                (outcome, self.ladder.answer(held.attempt, &error))
            }
        };
        self.bench.metrics.add(outcome);
        self.source.answer(held.reply, answer).await;
    }

    /// While our last pull lasts it would come back to us, and be a try less.
    async fn give_back(&mut self) {
        if !self.source.is_pulling() {
            for reply in self.returned.drain(..) {
                self.source.answer(reply, Answer::Nak).await;
            }
        }
    }

    /// Without a connection nothing is told, so that what is to be sent does not pile up.
    async fn tell_progress(&self) {
        if self.source.is_connected() {
            for reply in self.inflight.replies().chain(&self.returned) {
                self.source.answer(reply.clone(), Answer::Progress).await;
            }
        }
    }

    /// What did not leave in time is as a lost answer: its message comes again.
    async fn flush(&self) {
        if !self.source.flush().await {
            tracing::warn!(
                durable = &*self.bench.config.durable,
                "the last answers did not leave"
            );
        }
    }
}
