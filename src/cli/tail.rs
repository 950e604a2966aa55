//! `jetway tail`: watch a subject without another tool.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use futures_util::StreamExt;

/// Arguments of `jetway tail`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Subject, with wildcards `*` and `>`
    #[arg(default_value = "device.up.>")]
    subject: String,
    /// NATS server
    #[arg(long, env = "JETWAY_NATS_URL", default_value = "nats://127.0.0.1:4222")]
    nats: String,
    /// Stop after so many messages
    #[arg(long)]
    count: Option<usize>,
}

/// Prints one message a line: subject, headers, payload as text.
pub(super) async fn run(args: Args) -> Result<bool> {
    let client = async_nats::connect(&args.nats)
        .await
        .with_context(|| format!("no NATS server at {}", args.nats))?;
    let messages = client.subscribe(args.subject).await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the socket has it, and a person needs longer than the server"
    )]
    client.flush().await?;
    eprintln!("watching; Ctrl-C ends");
    let mut messages = messages.take(args.count.unwrap_or(usize::MAX));
    while let Some(message) = messages.next().await {
        let mut line = message.subject.to_string();
        let headers = message.headers.unwrap_or_default();
        // The map has no order, and a person looks for a header where it was before.
        let headers: BTreeMap<String, _> = headers
            .iter()
            .map(|(name, values)| (name.to_string(), values))
            .collect();
        for (name, values) in headers {
            for value in values {
                line.push_str(&format!("  {name}: {}", value.as_str()));
            }
        }
        let payload = String::from_utf8_lossy(&message.payload);
        writeln!(std::io::stdout().lock(), "{line}\n    {payload}")?;
    }
    Ok(true)
}
