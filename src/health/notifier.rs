//! Tells one receiver: waits for news, lets further news join, posts, tries again. One task for each receiver.
//!
//! It keeps what it told, not what it has to tell, so it holds nobody up and nothing grows while its receiver is away.

use std::time::Duration;

use hyper::Uri;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::alarm::{News, Present, Told};
use super::config::Config;
use super::metrics::{Metrics, NotificationLabel};
use super::receiver::{Form, Sender};
use super::turn::Memory;
use crate::net::post;
use crate::telemetry;

const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// One receiver, and what it knows.
pub(super) struct Notifier {
    pub(super) form: Form,
    pub(super) uri: Uri,
    pub(super) config: Config,
    pub(super) sender: Sender,
    pub(super) memory: Memory,
    pub(super) metrics: Metrics,
    pub(super) present: watch::Receiver<Present>,
    pub(super) told: Told,
    /// Whether what was told for all nodes is known.
    pub(super) has_memory: bool,
}

impl Notifier {
    /// Tells until `shutdown`.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.tell() => {}
        }
    }

    async fn tell(&mut self) {
        let between = Duration::from_secs(60) / self.per_minute();
        let mut retry = RETRY_MIN;
        loop {
            if !self.await_news().await {
                return;
            }
            sleep(Duration::from_millis(self.config.group_wait_ms)).await;
            let news = self.news().await;
            if news.is_empty() {
                continue;
            }
            match self.post(&news).await {
                Ok(()) => {
                    self.told.tell(&news, Instant::now());
                    self.remember(&news).await;
                    retry = RETRY_MIN;
                    sleep(between).await;
                }
                Err(reason) => {
                    let receiver = self.form.as_str();
                    tracing::warn!(receiver, reason, "alarms not told, tried again");
                    sleep(retry.max(between)).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    fn per_minute(&self) -> u32 {
        u32::try_from(self.config.notifications_per_minute_max.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns when there is something to tell; false when nobody measures any more.
    async fn await_news(&mut self) -> bool {
        /// What was told is told again after hours, so this is exact enough.
        const LOOK: Duration = Duration::from_secs(10);
        loop {
            if !self.news().await.is_empty() {
                return true;
            }
            if let Ok(Err(_closed)) = timeout(LOOK, self.present.changed()).await {
                return false;
            }
        }
    }

    /// What there is to tell now.
    async fn news(&mut self) -> News {
        let mut present = self.present.borrow_and_update().clone();
        if !present.has_cluster {
            self.has_memory = false;
        } else if !self.has_memory {
            match self.memory.read().await {
                Ok(told) => {
                    self.told.take_over(told, Instant::now());
                    self.has_memory = true;
                }
                Err(error) => {
                    tracing::debug!(%error, "what was told is not known yet");
                    present.has_cluster = false;
                }
            }
        }
        let repeat = Duration::from_secs(self.config.repeat_s);
        let repeat = Some(repeat).filter(|repeat| !repeat.is_zero());
        self.told.news(&present, Instant::now(), repeat)
    }

    async fn post(&self, news: &News) -> Result<(), String> {
        let body = self.form.body(&self.sender, news, telemetry::now_unix_ms());
        let limit = Duration::from_millis(self.config.timeout_ms);
        let (outcome, told) = match post::json(&self.uri, &[], body, limit).await {
            Err(error) => ("unanswered", Err(error.to_string())),
            Ok((status, answer)) => match self.form.accepted(status, &answer) {
                Ok(()) => ("sent", Ok(())),
                Err(reason) => ("refused", Err(reason)),
            },
        };
        let label = NotificationLabel {
            receiver: self.form.as_str(),
            outcome,
        };
        self.metrics.notifications.get_or_create(&label).inc();
        told
    }

    /// For the node that tells next; without it that one tells again.
    async fn remember(&self, news: &News) {
        if news.has_cluster()
            && let Err(error) = self.memory.write(&self.told.cluster()).await
        {
            tracing::warn!(%error, "what was told is not kept");
        }
    }
}
