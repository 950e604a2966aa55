//! A service asks devices, `device.rpc.…`, and each answers on its topic; the time is from the request to the answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_nats::HeaderMap;
use jetway::mqtt::{Packet, Publish, PublishProperties, QoS};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::measuring::{Measured, Span, Tally, connect, watch};
use crate::arguments::Arguments;
use crate::client::Client;
use crate::histogram::Sample;
use crate::target::Target;

/// Requests that wait at once.
const INFLIGHT_MAX: usize = 256;
/// How long one may take.
const TIMEOUT_MS: &str = "5000";

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let client = target.nats().await?;
    let client = client.context("requests need a NATS server")?;
    ensure!(
        target.naming.call_subject(0).is_some(),
        "requests to devices exist in Jetway's device profile only"
    );
    let (ready, mut subscribed) = mpsc::channel::<()>(1);
    let mut devices = JoinSet::new();
    for (number, client) in connect(target, arguments, 0..arguments.devices).await? {
        let (down, up) = (target.naming.down(number), target.naming.up(number));
        devices.spawn(answer(client, down, up, ready.clone()));
    }
    drop(ready);
    while subscribed.recv().await.is_some() {}
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let mut asking = JoinSet::new();
    let tasks = INFLIGHT_MAX.min(arguments.devices);
    for task in 0..tasks {
        let numbers = (task..arguments.devices).step_by(tasks);
        let subjects: Option<Vec<String>> = numbers
            .map(|number| target.naming.call_subject(number))
            .collect();
        let rate = arguments.rate;
        let asker = Asker {
            client: client.clone(),
            subjects: subjects.context("a subject for each device")?,
            interval: rate.map(|rate| Duration::from_secs_f64(tasks as f64 / rate)),
            span,
            tally: tally.clone(),
        };
        asking.spawn(asker.run());
    }
    let usage = watch(target, span, &tally).await?;
    let mut measured = Measured {
        usage,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    while let Some(samples) = asking.join_next().await {
        measured.samples.extend(samples??);
    }
    devices.shutdown().await;
    Ok(measured)
}

/// Asks its devices in turn, one request at a time.
struct Asker {
    client: async_nats::Client,
    subjects: Vec<String>,
    interval: Option<Duration>,
    span: Span,
    tally: Tally,
}

impl Asker {
    async fn run(self) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        let mut due = Instant::now();
        for (number, subject) in (1_u64..).zip(self.subjects.iter().cycle()) {
            match self.interval {
                Some(interval) => {
                    due += interval;
                    sleep_until(due.into()).await;
                }
                None => due = Instant::now(),
            }
            if Instant::now() >= self.span.end {
                break;
            }
            let mut headers = HeaderMap::new();
            headers.append("Jw-Timeout-Ms", TIMEOUT_MS);
            let body =
                format!(r#"{{"method":"control","msgToken":"{number}","params":{{"power":1}}}}"#);
            let asking = self
                .client
                .request_with_headers(subject.clone(), headers, body.into());
            let answer = asking.await?;
            let headers = answer.headers.as_ref();
            let error = headers.and_then(|headers| headers.get("Jw-Error"));
            ensure!(error.is_none(), "{subject}: {error:?}");
            samples.extend(self.span.sample(due, Instant::now()));
            self.tally.add(1);
        }
        Ok(samples)
    }
}

/// A device that answers what it is asked, as the thing model has it.
async fn answer(
    mut client: Client,
    down: String,
    up: String,
    ready: mpsc::Sender<()>,
) -> Result<()> {
    client.subscribe(&down, QoS::AtMostOnce).await?;
    drop(ready);
    loop {
        let mut next = Some(client.next().await?);
        while let Some(packet) = next {
            let Packet::Publish(asked) = packet else {
                bail!("expected PUBLISH, found {packet:?}");
            };
            let asked: serde_json::Value = serde_json::from_slice(&asked.payload)?;
            let token = asked.get("msgToken").context("a msgToken")?;
            let body = format!(r#"{{"method":"controlReply","msgToken":{token},"code":200}}"#);
            client.send(&Packet::Publish(Publish {
                dup: false,
                qos: QoS::AtMostOnce,
                retain: false,
                topic: up.as_str().into(),
                packet_id: None,
                properties: PublishProperties::default(),
                payload: body.into(),
            }))?;
            next = client.buffered()?;
        }
        client.flush().await?;
    }
}
