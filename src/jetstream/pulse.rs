//! Notices a connection that stands but does not carry: what this node sends itself does not come back.
//!
//! The client's own pings notice one that brings nothing at all; while heartbeats of consumers come in, it does not ask.

use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Link;
use crate::telemetry;

/// Between two beats, and how long each may take.
const INTERVAL: Duration = Duration::from_secs(3);
/// So many in a row do not come back: 9 s, as with the client's pings.
const MISSED_MAX: u32 = 3;

/// Replaces the connection whenever it does not carry, until `shutdown`.
pub async fn run(link: Link, shutdown: CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = beat(&link) => {}
    }
}

/// Ends when the client is closed.
async fn beat(link: &Link) {
    // One of ours, because what begins with _INBOX is for answers, and may be for others to send alone.
    let inbox = format!("_jw.pulse.{:016x}", telemetry::random_u64());
    let Ok(mut beats) = link.client.subscribe(inbox.clone()).await else {
        return;
    };
    let mut missed = 0;
    for number in 0_u64.. {
        let came = timeout(INTERVAL, come_back(link, &inbox, &mut beats, number));
        missed = match came.await.is_ok() || !link.is_connected() {
            true => 0,
            false => missed + 1,
        };
        if missed == MISSED_MAX {
            tracing::warn!("NATS connection carries nothing, it is made anew");
            missed = 0;
            if link.client.force_reconnect().await.is_err() {
                return;
            }
        }
        if missed == 0 {
            sleep(INTERVAL).await;
        }
    }
}

/// Returns when this beat came back.
async fn come_back(link: &Link, inbox: &str, beats: &mut Subscriber, number: u64) {
    let text = number.to_string();
    let sent = link.client.publish(inbox.to_owned(), text.clone().into());
    drop(sent.await);
    while let Some(beat) = beats.next().await {
        if *beat.payload == *text.as_bytes() {
            return;
        }
    }
}
