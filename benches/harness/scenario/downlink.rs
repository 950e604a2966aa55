//! A service sends to all devices in turn; the time is from when the message was due to its arrival at the device.
//!
//! Through JetStream where the target has that (Jetway: stored before the service is answered), else by core NATS, else by a
//! client of the server itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use jetway::mqtt::{Ack, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::measuring::{Measured, Span, Tally, connect, watch};
use crate::arguments::Arguments;
use crate::client::{Client, Login};
use crate::histogram::Sample;
use crate::payload;
use crate::target::{Naming, Target};

/// Without a rate: so many in all may be on their way.
const INFLIGHT_MAX: usize = 1_024;
const LAST_MESSAGE_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let clients = connect(target, arguments, 0..arguments.devices).await?;
    let epoch = Instant::now();
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let room = Arc::new(Semaphore::new(INFLIGHT_MAX));
    let (ready, mut subscribed) = mpsc::channel(arguments.devices);
    let mut devices = JoinSet::new();
    for (number, client) in clients {
        let receiving = Receiving {
            client,
            filter: target.naming.down(number),
            epoch,
            span,
            tally: tally.clone(),
            room: Arc::clone(&room),
        };
        devices.spawn(receiving.run(arguments.qos(), ready.clone()));
    }
    drop(ready);
    while subscribed.recv().await.is_some() {}
    let sending = send(target, arguments, epoch, span, &room);
    let (usage, sent) = tokio::join!(watch(target, span, &tally), sending);
    let sent = sent?;
    let mut measured = Measured {
        usage: usage?,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    let mut arrived = 0;
    while let Some(device) = devices.join_next().await {
        let (count, samples) = device??;
        arrived += count;
        measured.samples.extend(samples);
    }
    let figures = [("sent", sent as f64), ("arrived", arrived as f64)];
    measured.figures = figures
        .map(|(what, figure)| (what.to_owned(), figure, "messages"))
        .into();
    if arguments.qos() != QoS::AtMostOnce && arrived < sent {
        bail!("{sent} messages were sent, {arrived} arrived");
    }
    Ok(measured)
}

/// A device that takes what comes.
struct Receiving {
    client: Client,
    filter: String,
    epoch: Instant,
    span: Span,
    tally: Tally,
    room: Arc<Semaphore>,
}

impl Receiving {
    async fn run(mut self, qos: QoS, ready: mpsc::Sender<()>) -> Result<(u64, Vec<Sample>)> {
        self.client
            .subscribe(&self.filter, qos.min(QoS::AtLeastOnce))
            .await?;
        drop(ready);
        let (mut count, mut samples) = (0, Vec::new());
        let last = self.span.end + LAST_MESSAGE_MAX;
        while let Ok(packet) = timeout_at(last, self.client.next()).await {
            let now = Instant::now();
            let mut next = Some(packet?);
            while let Some(packet) = next {
                let Packet::Publish(publish) = packet else {
                    bail!("expected PUBLISH, found {packet:?}");
                };
                if let Some(id) = publish.packet_id {
                    self.client
                        .send(&Packet::Puback(Ack::new(id, ReasonCode::Success)))?;
                }
                let due = payload::counter(&publish.payload).context("a payload of ours")?;
                let due = self.epoch + Duration::from_micros(due);
                samples.extend(self.span.sample(due, now));
                count += 1;
                self.tally.add(1);
                self.room.add_permits(1);
                next = self.client.buffered()?;
            }
            self.client.flush().await?;
        }
        Ok((count, samples))
    }
}

async fn timeout_at<F: Future>(
    at: Instant,
    future: F,
) -> Result<F::Output, tokio::time::error::Elapsed> {
    timeout(at.saturating_duration_since(Instant::now()), future).await
}

/// How the service reaches devices.
enum Way {
    JetStream(async_nats::jetstream::Context),
    Core(async_nats::Client),
    Mqtt(Client),
}

impl Way {
    async fn of(target: &Target) -> Result<Self> {
        let Some(client) = target.nats().await? else {
            let login = Login {
                client_id: "bench-service".to_owned(),
                proof: None,
            };
            return Ok(Self::Mqtt(Client::connect(target.server()?, &login).await?));
        };
        Ok(match &target.naming {
            Naming::Open { prefix: "" } => Self::Core(client),
            _ => Self::JetStream(async_nats::jetstream::new(client)),
        })
    }
}

/// Sends until the time is over; how many were sent.
#[expect(
    clippy::disallowed_methods,
    reason = "none is left behind in the client; who receives them counts"
)]
async fn send(
    target: &Target,
    arguments: &Arguments,
    epoch: Instant,
    span: Span,
    room: &Semaphore,
) -> Result<u64> {
    let mut way = Way::of(target).await?;
    let interval = arguments
        .rate
        .map(|rate| Duration::from_secs_f64(1.0 / rate));
    let (mut due, mut sent) = (Instant::now(), 0);
    while Instant::now() < span.end {
        match interval {
            Some(interval) => {
                due += interval;
                sleep_until(due.into()).await;
            }
            None => {
                let permit = timeout_at(span.end, room.acquire()).await;
                let Ok(permit) = permit else {
                    break;
                };
                permit?.forget();
                due = Instant::now();
            }
        }
        let number = usize::try_from(sent).unwrap_or(0) % arguments.devices;
        let stamp = u64::try_from((due - epoch).as_micros())?;
        let body = payload::numbered(stamp.max(1), arguments.payload);
        one(&mut way, target, number, body, arguments.qos()).await?;
        sent += 1;
    }
    match &way {
        Way::JetStream(context) => context.client().flush().await?,
        Way::Core(client) => client.flush().await?,
        Way::Mqtt(_) => {}
    }
    Ok(sent)
}

async fn one(way: &mut Way, target: &Target, number: usize, body: Bytes, qos: QoS) -> Result<()> {
    let subject = target.naming.down_subject(number).context("a subject")?;
    match way {
        Way::JetStream(context) => {
            let mut headers = async_nats::HeaderMap::new();
            headers.append("Jw-Type", "property");
            // Its answer is waited for elsewhere: by the check that all arrive.
            drop(context.publish_with_headers(subject, headers, body).await?);
        }
        Way::Core(client) => client.publish(subject, body).await?,
        Way::Mqtt(client) => {
            client.send(&Packet::Publish(Publish {
                dup: false,
                qos: qos.min(QoS::AtLeastOnce),
                retain: false,
                topic: target.naming.down(number).into(),
                packet_id: (qos != QoS::AtMostOnce)
                    .then_some(PacketId::new(1))
                    .flatten(),
                properties: PublishProperties::default(),
                payload: body,
            }))?;
            client.flush().await?;
            if qos != QoS::AtMostOnce {
                let Packet::Puback(_) = client.next().await? else {
                    bail!("expected PUBACK");
                };
            }
        }
    }
    Ok(())
}
