//! All devices connect at once, and again when all were connected; the time is from the beginning of a storm to a device's CONNACK.
//!
//! One device in a hundred stays connected and publishes meanwhile: what a storm costs those who are there. They have a thread of
//! their own, so that they wait for the server and not for the client's own storm. Whoever is refused ends the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use async_nats::jetstream::consumer::pull;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::measuring::{Measured, Span, Tally, watch};
use super::publishing::{Pace, Publishing};
use crate::arguments::Arguments;
use crate::check::Published;
use crate::client::{Client, Login, Server};
use crate::histogram::{Latency, Sample};
use crate::payload;
use crate::process::peak_bytes;
use crate::target::{Naming, Target};

/// Of so many devices one stays.
const STAYING: usize = 100;
/// How often one that stays publishes.
const BEAT: Duration = Duration::from_millis(100);
/// How long the last events may take, and how often they are looked for.
const EVENTS_WITHIN: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let staying = arguments.devices.div_ceil(STAYING);
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let beats = Beats {
        server: target.server()?.clone(),
        devices: (0..staying)
            .map(|number| Ok((target.login(number)?, target.naming.up(number))))
            .collect::<Result<_>>()?,
        arguments: arguments.clone(),
        span,
    };
    let (connected, are_connected) = oneshot::channel();
    let beats = spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(beats.run(connected))
    });
    // Without an answer, why is what they end with.
    let storms = match are_connected.await {
        Ok(()) => {
            let storms = storms(target, arguments, staying, span, &tally);
            Some(tokio::join!(watch(target, span, &tally), storms))
        }
        Err(_) => None,
    };
    let beats = beats.await??;
    let (usage, storms) = storms.context("those who stay are not connected")?;
    let Storms {
        samples,
        times,
        ended,
    } = storms?;
    let mut measured = Measured {
        samples,
        usage: usage?,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    let connects = staying + times.len() * (arguments.devices - staying);
    if let Some(late) = events(target, connects, ended).await? {
        let what = "status events complete, after the last CONNACK".to_owned();
        measured.figures.push((what, late, "ms"));
    }
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    for (what, time) in [
        ("first storm: all connected after", times.first()),
        ("worst storm: all connected after", times.iter().max()),
    ] {
        measured
            .figures
            .push((what.to_owned(), time.map_or(0.0, ms), "ms"));
    }
    measured
        .figures
        .push(("storms".to_owned(), times.len() as f64, "of all devices"));
    let mut late = Vec::new();
    for (published, samples) in beats {
        measured.published.push(published);
        late.extend(samples);
    }
    measured.figures.extend(answers(&late));
    for (name, pid) in &target.watched {
        let peak = peak_bytes(*pid)? / f64::from(1 << 20);
        let what = format!("{name}, most memory");
        measured.figures.push((what, peak, "MiB"));
    }
    Ok(measured)
}

/// What those who stay waited for their answers.
fn answers(samples: &[Sample]) -> Vec<(String, f64, &'static str)> {
    let Some(latency) = Latency::of(samples.iter()) else {
        return Vec::new();
    };
    let figure = |what: &str, value| (format!("PUBACK {what} of those who stay"), value, "ms");
    vec![
        figure("p50", latency.p50),
        figure("p99", latency.p99),
        figure("max", latency.max),
    ]
}

/// Those who stay: who they are and where they publish.
struct Beats {
    server: Server,
    devices: Vec<(Login, String)>,
    arguments: Arguments,
    span: Span,
}

impl Beats {
    /// Connects all, says so, and publishes until the time is over.
    async fn run(self, connected: oneshot::Sender<()>) -> Result<Vec<(Published, Vec<Sample>)>> {
        let mut clients = Vec::new();
        for (login, topic) in &self.devices {
            clients.push((Client::connect(&self.server, login).await?, topic.clone()));
        }
        ensure!(connected.send(()).is_ok(), "nobody waits for the storm");
        let mut beating = JoinSet::new();
        for (number, (mut client, topic)) in clients.into_iter().enumerate() {
            let (qos, bytes) = (self.arguments.qos(), self.arguments.payload);
            let span = self.span;
            beating.spawn(async move {
                let publishing = Publishing {
                    number,
                    client: &mut client,
                    qos,
                    pace: Pace::Open {
                        interval: BEAT,
                        first: Instant::now(),
                        window: 16,
                    },
                    span,
                    tally: Tally::default(),
                };
                publishing
                    .run(|counter| (topic.clone(), payload::numbered(counter, bytes)))
                    .await
            });
        }
        beating.join_all().await.into_iter().collect()
    }
}

/// What storms were.
struct Storms {
    /// Of CONNACKs.
    samples: Vec<Sample>,
    /// Of each storm, from its beginning to its last CONNACK.
    times: Vec<Duration>,
    /// The last CONNACK of all.
    ended: Instant,
}

/// Storm after storm until the time is over.
async fn storms(
    target: &Target,
    arguments: &Arguments,
    staying: usize,
    span: Span,
    tally: &Tally,
) -> Result<Storms> {
    let mut storms = Storms {
        samples: Vec::new(),
        times: Vec::new(),
        ended: Instant::now(),
    };
    let server = target.server()?;
    while Instant::now() < span.end {
        let begun = Instant::now();
        let room = Arc::new(Semaphore::new(arguments.connects.max(1)));
        let mut connecting = JoinSet::new();
        for number in staying..arguments.devices {
            let (server, login) = (server.clone(), target.login(number)?);
            let (room, tally) = (Arc::clone(&room), tally.clone());
            connecting.spawn(async move {
                let permit = room.acquire_owned().await?;
                let since = Instant::now();
                let client = Client::connect(&server, &login).await?;
                drop(permit);
                tally.add(1);
                anyhow::Ok((client, since, Instant::now()))
            });
        }
        let mut clients = Vec::with_capacity(arguments.devices);
        while let Some(connected) = connecting.join_next().await {
            let (client, since, now) = connected??;
            storms.samples.extend(span.sample(since.max(begun), now));
            storms.ended = storms.ended.max(now);
            clients.push(client);
        }
        storms.times.push(storms.ended - begun);
    }
    Ok(storms)
}

/// How many milliseconds after `since` the stream for applications has a `connected` event of each connect; none for a target that
/// has no events.
async fn events(target: &Target, connects: usize, since: Instant) -> Result<Option<f64>> {
    if !matches!(target.naming, Naming::Device(_)) {
        return Ok(None);
    }
    let Some(client) = target.nats().await? else {
        return Ok(None);
    };
    let stream = jetstream::new(client).get_stream("APPLICATION").await?;
    loop {
        let consumer = stream.create_consumer(pull::Config {
            filter_subject: "application.device.*.*.status.connected".to_owned(),
            inactive_threshold: LOOK_INTERVAL,
            ..pull::Config::default()
        });
        let found = consumer.await?.cached_info().num_pending;
        let after = since.elapsed();
        if found >= connects as u64 {
            ensure!(
                found == connects as u64,
                "{found} connected events of {connects} connects"
            );
            return Ok(Some(after.as_secs_f64() * 1e3));
        }
        ensure!(
            after < EVENTS_WITHIN,
            "{found} connected events of {connects} connects after {after:?}"
        );
        sleep(LOOK_INTERVAL).await;
    }
}
