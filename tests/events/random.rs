//! Faults at random under load: at the end every stored message has its events once, in order, and nothing else is a dead letter.
//!
//! `JETWAY_SOAK_SECONDS` makes it last, `JETWAY_SEED` repeats the choices of a run.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use futures_util::future::join_all;
use jetway::tasks::{OnExit, Tasks};
use tokio_util::sync::CancellationToken;

use crate::site::{Event, Site};
use crate::support::{Backend, Gateway, Random, lasting, soak, within};

/// How long it lasts if nobody says otherwise.
const LASTS: Duration = Duration::from_secs(15);
/// Who publishes at the same time, and how many devices each has.
const PUBLISHERS: u64 = 3;
const DEVICES: u64 = 5;
/// How many messages are published before their answers are waited for.
const AT_ONCE: u64 = 40;
/// Between them: the streams would otherwise take more than workers without optimisation can read.
const PAUSE: Duration = Duration::from_millis(60);
/// One of so many is no JSON.
const BAD_ONE_OF: u64 = 50;

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
        for answer in join_all(publishes).await.into_iter().flatten() {
            drop(tokio::time::timeout(Duration::from_secs(2), answer.into_future()).await);
        }
    }
}

/// Two workers, one of them often away.
struct Crowd {
    workers: Vec<Option<Gateway>>,
}

impl Crowd {
    async fn fault(&mut self, site: &mut Site, random: &mut Random) {
        let which = usize::try_from(random.below(2)).unwrap();
        match random.below(5) {
            0 => {
                site.nats.kill9().await;
                lasting(Duration::from_millis(random.below(1_000))).await;
                site.nats.restart().await;
            }
            1 => {
                if let Some(worker) = &self.workers[which] {
                    worker.pause().await;
                    lasting(Duration::from_millis(random.below(5_000))).await;
                    worker.resume();
                }
            }
            _ => match self.workers[which].take() {
                Some(mut worker) => worker.kill9().await,
                None => self.workers[which] = Some(site.worker().await),
            },
        }
        lasting(Duration::from_millis(random.below(1_500))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_every_stored_message_has_its_events_once_and_in_order() {
    let mut random = Random::new("events");
    let mut site = Site::start().await;
    let mut crowd = Crowd {
        workers: vec![Some(site.worker().await), None],
    };
    let stop = CancellationToken::new();
    let tasks = Tasks::new(stop.clone());
    for publisher in 0..PUBLISHERS {
        let backend = Backend::connect(&site.nats.url()).await;
        let load = load(backend, publisher, random.fork(), stop.clone());
        tasks.spawn("load", OnExit::Log, load);
    }
    let (started, lasts) = (Instant::now(), soak().unwrap_or(LASTS));
    let mut faults = 0;
    while started.elapsed() < lasts {
        crowd.fault(&mut site, &mut random).await;
        faults += 1;
    }
    stop.cancel();
    within("the load to end", tasks.wait()).await;
    if crowd.workers.iter().all(Option::is_none) {
        crowd.workers[0] = Some(site.worker().await);
    }
    site.wait_until_passed().await;
    let count = assert_exactly_once(&site).await;
    println!("{faults} faults, {count} events of {:?}", started.elapsed());
}

/// Compares what is in the streams; gives the number of events.
async fn assert_exactly_once(site: &Site) -> usize {
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
