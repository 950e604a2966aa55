//! Looks at streams and durables round by round, shows what it finds, and says which alarms fire.
//!
//! A round asks for everything one by one, each once: what is not answered stays as it was, and the round is not complete. So
//! a server that does not answer makes what is known old, not wrong.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::alarm::Present;
use super::conditions::{Conditions, Node};
use super::dead_letters::DeadLetters;
use super::measured::{Durable, Measured, Outbox, Stream};
use super::metrics::Metrics;
use super::readiness::Readiness;
use super::samples::Samples;
use super::turn::Turn;
use crate::jetstream::{ReadError, Reader};
use crate::outbox::store::Store;
use crate::telemetry;

/// How long a round may ask: that NATS is away has to be seen meanwhile.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// The one who looks.
pub(super) struct Watcher {
    pub(super) interval: Duration,
    pub(super) readiness: Readiness,
    pub(super) durables: Vec<(Reader, Durable)>,
    pub(super) streams: Vec<(Reader, Stream)>,
    pub(super) dead_letters: DeadLetters,
    /// None where nothing is ever in it.
    pub(super) outbox: Option<Store>,
    pub(super) samples: Samples,
    pub(super) conditions: Conditions,
    /// None if nobody is to be told.
    pub(super) turn: Option<Turn>,
    pub(super) metrics: Metrics,
    pub(super) measured: watch::Sender<Measured>,
    pub(super) present: watch::Sender<Present>,
}

impl Watcher {
    /// Looks until `shutdown`; then another node may tell.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.work()).await;
        if let Some(turn) = &mut self.turn {
            turn.give_up().await;
        }
    }

    async fn work(&mut self) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.round().await;
        }
    }

    async fn round(&mut self) {
        let mut obstacles = self.readiness.obstacles().await;
        self.metrics.ready.set(i64::from(obstacles.is_empty()));
        if self.readiness.is_draining() {
            obstacles.clear();
        }
        let connected = self.readiness.link.is_connected();
        if connected {
            // What is under way goes on with the next round.
            let complete = timeout(LOOK_WITHIN, self.look()).await.unwrap_or(false);
            self.show(complete);
        }
        self.look_at_outbox().await;
        let has_turn = match &mut self.turn {
            Some(turn) => turn.take().await,
            None => false,
        };
        let node = Node {
            connected,
            obstacles,
            stalled_s: self.readiness.stalled_seconds(),
            nodes_lost: self.metrics.nodes_lost.get(),
        };
        let now = Instant::now();
        let measured = self.measured.borrow().clone();
        let alarms = self.conditions.judge(now, &measured, &node);
        self.metrics
            .alarms
            .set(i64::try_from(alarms.len()).unwrap_or(i64::MAX));
        self.present.send_replace(Present {
            alarms,
            // Before all was seen once, an alarm that another node told would seem to be over.
            has_cluster: has_turn && measured.complete_at.is_some(),
        });
    }

    /// Whether everything was answered.
    async fn look(&mut self) -> bool {
        let mut complete = true;
        let mut note = |what: &str, error: &ReadError| {
            tracing::debug!(what, %error, "not measured");
            complete = false;
        };
        for (number, (reader, durable)) in self.durables.iter_mut().enumerate() {
            if let Err(error) = look_at_durable(reader, durable, number, &self.samples).await {
                note(&durable.name, &error);
            }
        }
        for (reader, stream) in &mut self.streams {
            match reader.state().await {
                Ok(state) => {
                    let oldest_ms = state.as_ref().and_then(|state| state.oldest_ms);
                    stream.oldest_age_ms = age_ms(oldest_ms);
                    stream.state = state;
                }
                Err(error) => note(&stream.name, &error),
            }
        }
        if let Err(error) = self.dead_letters.look().await {
            note("dead letters", &error);
        }
        complete
    }

    /// The database may be there when NATS is not, and the other way round; what it does not answer stays as it was.
    async fn look_at_outbox(&self) {
        let Some(store) = &self.outbox else {
            return;
        };
        match timeout(LOOK_WITHIN, store.stats()).await {
            Ok(Ok(stats)) => self.measured.send_modify(|measured| {
                measured.outbox = Some(Outbox {
                    waiting: stats.pending + stats.sending,
                    oldest: Duration::from_millis(stats.oldest_pending_ms.unwrap_or(0)),
                    dead: stats.dead,
                });
            }),
            Ok(Err(error)) => tracing::debug!(%error, "outbox not measured"),
            Err(_elapsed) => tracing::debug!("outbox not measured in time"),
        }
    }

    /// Shows what is known now.
    fn show(&self, complete: bool) {
        self.measured.send_modify(|measured| {
            measured.durables = self.durables.iter().map(|(_, row)| row.clone()).collect();
            measured.streams = self.streams.iter().map(|(_, row)| row.clone()).collect();
            measured.dead_letters = self.dead_letters.groups();
            if complete {
                measured.complete_at = Some(Instant::now());
            }
            self.metrics.show(measured);
        });
    }
}

async fn look_at_durable(
    reader: &Reader,
    durable: &mut Durable,
    number: usize,
    samples: &Samples,
) -> Result<(), ReadError> {
    let state = reader.durable(&durable.name).await?;
    let before = durable.state.as_ref();
    let is_served = state.as_ref().is_some_and(|now| {
        // Between two pulls nobody waits, but then something was delivered or acknowledged.
        let moved = before.is_some_and(|before| {
            now.delivered != before.delivered || now.ack_floor != before.ack_floor
        });
        now.waiting > 0 || moved
    });
    if is_served {
        durable.served_at = Some(Instant::now());
    }
    let oldest_ms = match &state {
        Some(state) if state.pending + state.ack_pending > 0 => {
            reader.first_behind(state.ack_floor, &state.filters).await?
        }
        _ => None,
    };
    durable.oldest_age_ms = age_ms(oldest_ms);
    let percent = state.as_ref().map_or(0, |state| state.sample_percent);
    durable.tally = samples.tally(number, percent);
    durable.state = state;
    Ok(())
}

fn age_ms(since_ms: Option<u64>) -> u64 {
    since_ms.map_or(0, |since_ms| {
        telemetry::now_unix_ms().saturating_sub(since_ms)
    })
}
