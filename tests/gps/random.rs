//! Workers, NATS and databases that die at random under load: in the end every report is there once, in order, with its event.
//!
//! `JETWAY_SOAK_SECONDS` makes it last, `JETWAY_SEED` repeats the choices of a run.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishAckFuture;
use futures_util::future::join_all;
use jetway::tasks::{OnExit, Tasks};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::databases::{KINDS, Kind};
use crate::site::{Sent, Site};
use crate::support::{Backend, Gateway, Random, lasting, soak, within};

/// How long each database has its faults if nobody says otherwise.
const LASTS: Duration = Duration::from_secs(5);
const PUBLISHERS: u64 = 2;
const DEVICES: u64 = 5;
/// How many messages are published before their answers are waited for: some answers are lost with a server.
const AT_ONCE: u64 = 25;
const ANSWERS_MAX: Duration = Duration::from_secs(2);
/// Between them: workers without optimisation would otherwise not come to the end.
const PAUSE: Duration = Duration::from_millis(60);
/// One of so many is beyond the pole.
const BAD_ONE_OF: u64 = 50;

/// Publishes until `stop`, through whatever happens; what is stored is seen in the stream.
async fn load(backend: Backend, publisher: u64, mut random: Random, stop: CancellationToken) {
    let mut number = 0_u32;
    while !stop.is_cancelled() {
        lasting(PAUSE).await;
        let publishes = (0..AT_ONCE).map(|_| {
            number += 1;
            let device = publisher * DEVICES + random.below(DEVICES);
            let latitude = match random.below(BAD_ONE_OF) {
                0 => 90.5,
                _ => f64::from(number) / 1e6 + 1.0,
            };
            let sent = Sent {
                at_ms: 1_600_000_000_000 + i64::from(number),
                latitude,
                longitude: 13.714_209_962_6,
            };
            let mut headers = HeaderMap::new();
            headers.insert("Jw-Type", "property");
            headers.insert("Jw-Ts", (1_754_000_000_000 + u64::from(number)).to_string());
            let subject = format!("device.up.mqtt.thing.P.d{device}");
            let payload = sent.payload().into();
            backend
                .jetstream
                .publish_with_headers(subject, headers, payload)
        });
        let answers = join_all(publishes).await.into_iter().flatten();
        let answers = join_all(answers.map(PublishAckFuture::into_future));
        drop(timeout(ANSWERS_MAX, answers).await);
    }
}

/// Two workers, one of them often away.
struct Crowd(Vec<Option<Gateway>>);

impl Crowd {
    async fn fault(&mut self, site: &mut Site, random: &mut Random) {
        let which = usize::try_from(random.below(2)).unwrap();
        match random.below(6) {
            0 => {
                site.nats.kill9().await;
                lasting(Duration::from_millis(random.below(1_000))).await;
                site.nats.restart().await;
            }
            1 => {
                if let Some(worker) = &self.0[which] {
                    worker.pause().await;
                    lasting(Duration::from_millis(random.below(3_000))).await;
                    worker.resume();
                }
            }
            // Every connection of the workers is cut, wherever they are.
            2 => match site.database.kind {
                Kind::Sqlite => {}
                Kind::Postgres => {
                    let cut = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity \
                         WHERE datname = current_database() AND pid <> pg_backend_pid()";
                    // Also of this test's own pool.
                    drop(site.database.try_number(cut).await);
                }
                Kind::MariaDb => site.database.kill_others().await,
            },
            _ => match self.0[which].take() {
                Some(mut worker) => worker.kill9().await,
                None => self.0[which] = Some(site.worker().await),
            },
        }
        lasting(Duration::from_millis(random.below(800))).await;
    }
}

async fn whatever_dies(kind: Kind, random: &mut Random) {
    let mut site = Site::start(kind).await;
    site.roles = r#"["gps", "outbox"]"#;
    let mut crowd = Crowd(vec![Some(site.worker().await), None]);
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
        crowd.fault(&mut site, random).await;
        faults += 1;
    }
    stop.cancel();
    within("the load to end", tasks.wait()).await;
    if crowd.0.iter().all(Option::is_none) {
        crowd.0[0] = Some(site.worker().await);
    }
    site.wait_until_passed().await;
    let reports = site.assert_exactly_once().await;
    site.assert_published(&reports).await;
    let count = reports.len();
    println!(
        "{kind:?}: {faults} faults, {count} reports in {:?}",
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_dies_every_report_is_there_once_and_in_order() {
    let mut random = Random::new("gps");
    for kind in KINDS {
        whatever_dies(kind, &mut random).await;
    }
}
