//! A fleet: each device reports its position along a track and its state, posts an event now and then, and some come and go.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::measuring::{Measured, Span, Tally, connect, watch};
use super::publishing::{Pace, Publishing};
use crate::arguments::Arguments;
use crate::client::Client;
use crate::fleet::Vehicle;
use crate::histogram::{Latency, Sample};
use crate::target::Target;

/// Beside the vehicles that stay, one in so many reconnects all the time.
const RESTLESS: usize = 20;
const RECONNECT: Duration = Duration::from_secs(5);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let restless = arguments.devices / RESTLESS;
    let staying = arguments.devices - restless;
    let clients = connect(target, arguments, 0..staying).await?;
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let track = crate::fleet::track(arguments.track.as_deref())?;
    let mut vehicles = JoinSet::new();
    for (number, mut client) in clients {
        let (up, event) = (target.naming.up(number), target.naming.event(number));
        let pace = Pace::of(arguments, number, staying);
        let (qos, tally) = (arguments.qos(), tally.clone());
        let mut vehicle = Vehicle::new(number, track.clone());
        vehicles.spawn(async move {
            let publishing = Publishing {
                number,
                client: &mut client,
                qos,
                pace,
                span,
                tally,
            };
            let next = |counter| -> (String, Bytes) {
                let (is_event, body) = vehicle.next(counter);
                let topic = if is_event { &event } else { &up };
                (topic.clone(), body)
            };
            publishing.run(next).await
        });
    }
    let mut reconnecting = JoinSet::new();
    for number in staying..arguments.devices {
        let (server, login) = (target.server()?.clone(), target.login(number)?);
        let first = Instant::now() + RECONNECT.mul_f64((number - staying) as f64 / restless as f64);
        reconnecting.spawn(async move {
            let (mut due, mut samples) = (first, Vec::<Sample>::new());
            while due < span.end {
                sleep_until(due.into()).await;
                let client = Client::connect(&server, &login).await?;
                samples.extend(span.sample(due, Instant::now()));
                drop(client);
                due += RECONNECT;
            }
            anyhow::Ok(samples)
        });
    }
    let usage = watch(target, span, &tally).await?;
    let mut measured = Measured {
        usage,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    while let Some(vehicle) = vehicles.join_next().await {
        let (published, samples) = vehicle??;
        measured.published.push(published);
        measured.samples.extend(samples);
    }
    let mut connects = Vec::new();
    while let Some(samples) = reconnecting.join_next().await {
        connects.extend(samples??);
    }
    if let Some(latency) = Latency::of(connects.iter()) {
        let figure = (
            "CONNACK p99 of those who reconnect".to_owned(),
            latency.p99,
            "ms",
        );
        measured.figures.push(figure);
    }
    Ok(measured)
}
