//! Many devices that report at the same time, and what must have become of that in the end.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishAckFuture;
use futures_util::future::join_all;
use jetway::tasks::{OnExit, Tasks};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::site::{Event, Site};
use crate::support::{Backend, Random, lasting, within};

/// Who publishes at the same time, and how many devices each has.
const PUBLISHERS: u64 = 3;
const DEVICES: u64 = 5;
/// How many messages are published before their answers are waited for.
const AT_ONCE: u64 = 40;
/// How long their answers are waited for: some are lost with a server.
const ANSWERS_MAX: Duration = Duration::from_secs(2);
/// Between them: the streams would otherwise take more than workers without optimisation can read.
const PAUSE: Duration = Duration::from_millis(60);
/// One of so many is no JSON.
const BAD_ONE_OF: u64 = 50;

/// Devices that report.
pub(crate) struct Load {
    stop: CancellationToken,
    tasks: Tasks,
}

impl Load {
    pub(crate) async fn start(site: &Site, random: &mut Random) -> Self {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(stop.clone());
        for publisher in 0..PUBLISHERS {
            let backend = site.another_backend().await;
            let load = load(backend, publisher, random.fork(), stop.clone());
            tasks.spawn("load", OnExit::Log, load);
        }
        Self { stop, tasks }
    }

    /// Returns when nothing more is published.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        within("the load to end", self.tasks.wait()).await;
    }
}

/// Publishes until `stop`, through whatever happens; what is stored is seen in the stream.
async fn load(backend: Backend, publisher: u64, mut random: Random, stop: CancellationToken) {
    let mut number = 0_u64;
    while !stop.is_cancelled() {
        lasting(PAUSE).await;
        let publishes = (0..AT_ONCE).map(|_| {
            number += 1;
            let device = publisher * DEVICES + random.below(DEVICES);
            let payload = match random.below(BAD_ONE_OF) {
                0 => "{".to_owned(),
                _ => format!(r#"{{"method":"report","params":{{"n":{number}}}}}"#),
            };
            let mut headers = HeaderMap::new();
            headers.insert("Jw-Type", "property");
            headers.insert("Jw-Ts", (1_754_000_000_000 + number).to_string());
            let subject = format!("device.up.mqtt.thing.P%2E1.d{device}");
            backend
                .jetstream
                .publish_with_headers(subject, headers, payload.into())
        });
        let answers = join_all(publishes).await.into_iter().flatten();
        let answers = join_all(answers.map(PublishAckFuture::into_future));
        drop(timeout(ANSWERS_MAX, answers).await);
    }
}

/// Compares what is in the streams; gives the number of events.
pub(crate) async fn assert_exactly_once(site: &Site) -> usize {
    let uplinks = site.backend.messages("DEVICE_UP", ">").await;
    let is_bad = |payload: &[u8]| payload == b"{";
    let good = uplinks.iter().filter(|uplink| !is_bad(&uplink.payload));
    let expected: HashSet<String> = good
        .map(|uplink| format!("DEVICE_UP:{}", uplink.sequence))
        .collect();
    let events = site.events().await;
    let mut seen = HashMap::new();
    for event in &events {
        *seen.entry(event.source.clone()).or_insert(0) += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times > 1).collect();
    assert!(
        twice.is_empty(),
        "{} of {} twice: {twice:?}",
        twice.len(),
        events.len()
    );
    let missing: Vec<_> = expected
        .iter()
        .filter(|source| !seen.contains_key(*source))
        .collect();
    assert!(
        missing.is_empty(),
        "{} of {} missing: {missing:?}",
        missing.len(),
        expected.len()
    );
    assert_eq!(events.len(), expected.len());
    assert_in_order(&events);
    let mut bad: Vec<_> = uplinks
        .iter()
        .filter(|uplink| is_bad(&uplink.payload))
        .map(|uplink| uplink.sequence)
        .collect();
    let dead = site.dead_letters().await;
    let mut dead: Vec<u64> = dead
        .iter()
        .map(|dead| dead.header("Jw-Sequence").parse().unwrap())
        .collect();
    bad.sort_unstable();
    dead.sort_unstable();
    assert_eq!(dead, bad);
    events.len()
}

fn assert_in_order(events: &[Event]) {
    let mut last = HashMap::new();
    for event in events {
        let sequence: u64 = event.source.rsplit(':').next().unwrap().parse().unwrap();
        let before = last.insert(event.device(), sequence).unwrap_or(0);
        assert!(
            before < sequence,
            "{}: {before} before {sequence}",
            event.device()
        );
    }
}
