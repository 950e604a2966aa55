//! One device that publishes: a closed loop keeps a window full, an open loop sends what is due.
//!
//! In an open loop a message that finds no room goes out later, and its time counts from when it was due.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use jetway::mqtt::{Ack, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode};
use tokio::time::{sleep_until, timeout};

use super::measuring::{Span, Tally};
use crate::check::Published;
use crate::client::Client;
use crate::histogram::Sample;

/// How long the last answers may take.
const LAST_ANSWER_MAX: Duration = Duration::from_secs(60);

/// When a device publishes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// As soon as one of so many is answered.
    Closed(u16),
    /// Every so often, from then on, with at most so many unanswered.
    Open {
        interval: Duration,
        first: Instant,
        window: u16,
    },
}

impl Pace {
    /// Of device `number` of so many.
    pub(crate) fn of(
        arguments: &crate::arguments::Arguments,
        number: usize,
        devices: usize,
    ) -> Self {
        let window = arguments.window.max(1);
        let Some(rate) = arguments.rate else {
            return Self::Closed(window);
        };
        let interval = Duration::from_secs_f64(devices as f64 / rate);
        // They do not all begin at once.
        let first = Instant::now() + interval.mul_f64(number as f64 / devices as f64);
        Self::Open {
            interval,
            first,
            window,
        }
    }

    fn window(self) -> u16 {
        match self {
            Self::Closed(window) | Self::Open { window, .. } => window,
        }
    }
}

/// A device at work.
pub(crate) struct Publishing<'a> {
    pub(crate) number: usize,
    pub(crate) client: &'a mut Client,
    pub(crate) qos: QoS,
    pub(crate) pace: Pace,
    pub(crate) span: Span,
    pub(crate) tally: Tally,
}

/// What it has under way.
struct Open {
    /// For each packet identifier below the window, since when it waits.
    since: Vec<Option<Instant>>,
    free: Vec<u16>,
    due: Option<Instant>,
    sent: u64,
    acknowledged: u64,
    samples: Vec<Sample>,
}

impl Publishing<'_> {
    /// Publishes what `next` gives for each counter, from 1, until the time is over; then waits for what is open.
    pub(crate) async fn run(
        mut self,
        mut next: impl FnMut(u64) -> (String, Bytes),
    ) -> Result<(Published, Vec<Sample>)> {
        let window = self.pace.window();
        let mut open = Open {
            since: vec![None; usize::from(window)],
            free: (1..=window).rev().collect(),
            due: match self.pace {
                Pace::Closed(_) => None,
                Pace::Open { first, .. } => Some(first),
            },
            sent: 0,
            acknowledged: 0,
            samples: Vec::new(),
        };
        while Instant::now() < self.span.end {
            self.fill(&mut open, &mut next).await?;
            if self.qos == QoS::AtMostOnce && open.due.is_none() {
                tokio::task::yield_now().await;
                continue;
            }
            let wake = open.due.filter(|_| !open.free.is_empty());
            let wake = wake.map_or(self.span.end, |due| due.min(self.span.end));
            tokio::select! {
                packet = self.client.next() => self.answered(&mut open, packet?)?,
                () = sleep_until(wake.into()) => {}
            }
            self.client.flush().await?;
        }
        while open.free.len() < usize::from(window) {
            let packet = timeout(LAST_ANSWER_MAX, self.client.next()).await;
            self.answered(
                &mut open,
                packet.context("no answer to the last messages")??,
            )?;
            self.client.flush().await?;
        }
        let published = Published {
            device: self.number,
            acknowledged: open.acknowledged,
            sent: open.sent,
        };
        Ok((published, open.samples))
    }

    async fn fill(
        &mut self,
        open: &mut Open,
        next: &mut impl FnMut(u64) -> (String, Bytes),
    ) -> Result<()> {
        let now = Instant::now();
        let mut unanswered = Vec::new();
        let mut left = self.pace.window();
        while left > 0 && open.due.is_none_or(|due| due <= now) {
            let id = match self.qos {
                QoS::AtMostOnce => None,
                _ => match open.free.pop() {
                    None => break,
                    id => id,
                },
            };
            left -= 1;
            let since = open.due.unwrap_or(now);
            if let Pace::Open { interval, .. } = self.pace {
                open.due = Some(since + interval);
            }
            open.sent += 1;
            let (topic, payload) = next(open.sent);
            self.client.send(&Packet::Publish(Publish {
                dup: false,
                qos: self.qos,
                retain: false,
                topic: topic.into(),
                packet_id: id.and_then(PacketId::new),
                properties: PublishProperties::default(),
                payload,
            }))?;
            match id {
                Some(id) => {
                    let slot = open.since.get_mut(usize::from(id) - 1);
                    *slot.context("a packet identifier of the window")? = Some(since);
                }
                None => unanswered.push(since),
            }
        }
        self.client.flush().await?;
        // What is never answered is over when it is written.
        self.tally.add(unanswered.len() as u64);
        let written = Instant::now();
        let unanswered = unanswered.into_iter();
        let samples = unanswered.filter_map(|since| self.span.sample(since, written));
        open.samples.extend(samples);
        Ok(())
    }

    /// Takes a packet and all that came with it.
    fn answered(&mut self, open: &mut Open, packet: Packet) -> Result<()> {
        let now = Instant::now();
        let mut next = Some(packet);
        while let Some(packet) = next {
            match packet {
                Packet::Puback(ack) | Packet::Pubcomp(ack) => self.finish(open, &ack, now)?,
                Packet::Pubrec(ack) => {
                    ensure!(!ack.reason.is_error(), "refused: {ack:?}");
                    let release = Ack::new(ack.packet_id, ReasonCode::Success);
                    self.client.send(&Packet::Pubrel(release))?;
                }
                // What a service sends to it meanwhile.
                Packet::Publish(publish) => {
                    if let Some(id) = publish.packet_id {
                        let ack = Ack::new(id, ReasonCode::Success);
                        self.client.send(&Packet::Puback(ack))?;
                    }
                }
                packet => bail!("expected an answer to a PUBLISH, found {packet:?}"),
            }
            next = self.client.buffered()?;
        }
        Ok(())
    }

    fn finish(&self, open: &mut Open, ack: &Ack, now: Instant) -> Result<()> {
        ensure!(!ack.reason.is_error(), "refused: {ack:?}");
        let id = ack.packet_id.get();
        let slot = open.since.get_mut(usize::from(id) - 1);
        let since = slot.and_then(Option::take);
        let since = since.context("an answer for a packet identifier that is not in use")?;
        open.free.push(id);
        open.acknowledged += 1;
        self.tally.add(1);
        open.samples.extend(self.span.sample(since, now));
        Ok(())
    }
}
