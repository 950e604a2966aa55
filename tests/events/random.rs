//! Faults at random under load: at the end every stored message has its events once, in order, and nothing else is a dead letter.
//!
//! `JETWAY_SOAK_SECONDS` makes it last, `JETWAY_SEED` repeats the choices of a run.

use std::time::{Duration, Instant};

use crate::load::{Load, assert_exactly_once};
use crate::site::Site;
use crate::support::{Gateway, Random, lasting, soak};

/// How long it lasts if nobody says otherwise.
const LASTS: Duration = Duration::from_secs(15);

/// Two workers, one of them often away.
struct Crowd {
    workers: Vec<Option<Gateway>>,
}

impl Crowd {
    async fn fault(&mut self, site: &mut Site, random: &mut Random) {
        let which = usize::try_from(random.below(2)).unwrap();
        match random.below(5) {
            0 => {
                site.nats().kill9().await;
                lasting(Duration::from_millis(random.below(1_000))).await;
                site.nats().restart().await;
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
    let load = Load::start(&site, &mut random).await;
    let (started, lasts) = (Instant::now(), soak().unwrap_or(LASTS));
    let mut faults = 0;
    while started.elapsed() < lasts {
        crowd.fault(&mut site, &mut random).await;
        faults += 1;
    }
    load.stop().await;
    if crowd.workers.iter().all(Option::is_none) {
        crowd.workers[0] = Some(site.worker().await);
    }
    site.wait_until_passed().await;
    let count = assert_exactly_once(&site).await;
    println!("{faults} faults, {count} events of {:?}", started.elapsed());
}
