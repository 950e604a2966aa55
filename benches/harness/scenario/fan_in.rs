//! All devices publish to their own topics.

use anyhow::Result;
use tokio::task::JoinSet;

use super::measuring::{Measured, Span, Tally, connect, watch};
use super::publishing::{Pace, Publishing};
use crate::arguments::Arguments;
use crate::payload;
use crate::target::Target;

pub(crate) async fn run(target: &Target, arguments: &Arguments) -> Result<Measured> {
    let clients = connect(target, arguments, 0..arguments.devices).await?;
    let (span, tally) = (Span::after_warm_up(arguments), Tally::default());
    let mut devices = JoinSet::new();
    for (number, mut client) in clients {
        let topic = target.naming.up(number);
        let pace = Pace::of(arguments, number, arguments.devices);
        let (qos, bytes, tally) = (arguments.qos(), arguments.payload, tally.clone());
        devices.spawn(async move {
            let publishing = Publishing {
                number,
                client: &mut client,
                qos,
                pace,
                span,
                tally,
            };
            let next = |counter| (topic.clone(), payload::numbered(counter, bytes));
            publishing.run(next).await
        });
    }
    let usage = watch(target, span, &tally).await?;
    let mut measured = Measured {
        usage,
        elapsed: span.end - span.begin,
        ..Measured::default()
    };
    while let Some(device) = devices.join_next().await {
        let (published, samples) = device??;
        measured.published.push(published);
        measured.samples.extend(samples);
    }
    Ok(measured)
}
