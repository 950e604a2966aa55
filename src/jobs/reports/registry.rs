//! The jobs about reports, each made of its configuration.

use std::sync::Arc;
use std::time::Duration;

use super::notification::Notification;
use super::watch::Rules;
use super::windows::Windows;
use super::{NOTIFICATION, PUBLISH, PUBLISH_ABOUT, SCHEDULE};
use crate::jobs::config::Config;
use crate::jobs::error::Error;
use crate::jobs::job::{Job, Registry};
use crate::jobs::store::Store;
use crate::outbox::Relay;
use crate::outbox::publisher::Publisher;
use crate::outbox::store::Wake;

/// All three; `relay` publishes, and is woken by the other two.
#[must_use]
pub fn registry<P: Publisher>(config: &Config, store: &Store, relay: Relay<P>) -> Registry {
    let mut registry = history(config, store, &relay.wake);
    let relay = Arc::new(relay);
    registry.add(Job {
        name: PUBLISH,
        about: PUBLISH_ABOUT,
        limit: config.run_limit(),
        work: Arc::new(move |_| {
            let relay = Arc::clone(&relay);
            Box::pin(async move {
                let passed = relay.pass().await;
                let pass = passed.map_err(|error| Error::Failed(error.to_string()))?;
                Ok(format!(
                    "{} rows published, {} refused, {} dead, {} without an answer",
                    pass.published, pass.refused, pass.dead, pass.unanswered
                ))
            })
        }),
    });
    registry
}

/// The two that read history; what they write into the outbox wakes `wake`.
#[must_use]
pub fn history(config: &Config, store: &Store, wake: &Wake) -> Registry {
    let mut registry = Registry::default();
    let windows = Arc::new(Windows {
        store: store.clone(),
        wake: wake.clone(),
        window_ms: ms(config.window_s),
        grace_ms: ms(config.grace_s),
    });
    registry.add(Job {
        name: SCHEDULE,
        about: "closes windows of GPS reports, a summary for each device",
        limit: config.run_limit(),
        work: Arc::new(move |context| {
            let windows = Arc::clone(&windows);
            Box::pin(async move { windows.run(&context).await })
        }),
    });
    let notification = Arc::new(Notification {
        store: store.clone(),
        wake: wake.clone(),
        rules: Rules::new(config),
    });
    registry.add(Job {
        name: NOTIFICATION,
        about: "tells of devices that are too fast, stand still, or cross a fence",
        limit: config.run_limit(),
        work: Arc::new(move |context| {
            let notification = Arc::clone(&notification);
            Box::pin(async move { notification.run(&context).await })
        }),
    });
    registry
}

fn ms(seconds: u64) -> i64 {
    i64::try_from(Duration::from_secs(seconds).as_millis()).unwrap_or(i64::MAX)
}
