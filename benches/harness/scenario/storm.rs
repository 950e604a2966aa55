//! All devices connect at once, and again when all were connected; the time is from the beginning of a storm to a device's CONNACK.
//!
//! One device in a hundred stays connected and publishes meanwhile: what a storm costs those who are there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::measuring::{Measured, Span, Tally, connect, watch};
use super::publishing::{Pace, Publishing};
use crate::arguments::Arguments;
use crate::client::Client;
use crate::histogram::{Latency, Sample};
use crate::payload;
use crate::target::Target;

/// Of so many devices one stays.
const STAYING: usize = 100;
/// How often one that stays publishes.
const BEAT: Duration = Duration::from_millis(100);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let staying = arguments.devices.div_ceil(STAYING);
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let mut beating = JoinSet::new();
    for (number, mut client) in connect(target, arguments, 0..staying).await? {
        let topic = target.naming.up(number);
        let (qos, bytes) = (arguments.qos(), arguments.payload);
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
    let storms = storms(target, arguments, staying, span, &tally);
    let (usage, storms) = tokio::join!(watch(target, span, &tally), storms);
    let (samples, times) = storms?;
    let mut measured = Measured {
        samples,
        usage: usage?,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    let mut beats = Vec::new();
    while let Some(device) = beating.join_next().await {
        let (published, samples) = device??;
        measured.published.push(published);
        beats.extend(samples);
    }
    measured
        .figures
        .push(("storms".to_owned(), times as f64, "of all devices"));
    if let Some(latency) = Latency::of(beats.iter()) {
        let figure = |what: &str, value| (format!("PUBACK {what} of those who stay"), value, "ms");
        measured.figures.push(figure("p50", latency.p50));
        measured.figures.push(figure("p99", latency.p99));
    }
    Ok(measured)
}

/// Storm after storm until the time is over: samples of CONNACKs, and how many storms were whole.
async fn storms(
    target: &Target,
    arguments: &Arguments,
    staying: usize,
    span: Span,
    tally: &Tally,
) -> Result<(Vec<Sample>, u64)> {
    let (mut samples, mut times) = (Vec::new(), 0);
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
            samples.extend(span.sample(since.max(begun), now));
            clients.push(client);
        }
        times += 1;
    }
    Ok((samples, times))
}
