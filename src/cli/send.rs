//! `jetway send`: a stored downlink, as a backend service would send it.

use anyhow::{Context, Result};
use async_nats::HeaderMap;

use crate::device::DeviceId;
use crate::mapping::downlink_subject;

/// Arguments of `jetway send`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Product id
    product: String,
    /// Device name
    name: String,
    /// The bytes to send, for example `{"method":"control","params":{"power":1}}`
    payload: String,
    /// Handle: thing, ota, shadow, gateway, config, log, ext, rpc
    #[arg(long, default_value = "thing")]
    handle: String,
    /// Type level of the topic; without it the payload's method decides, else the handle's default
    #[arg(long = "type")]
    kind: Option<String>,
    /// Quality of service to the device: 0 or 1
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=1))]
    qos: Option<u8>,
    /// NATS server
    #[arg(long, env = "JETWAY_NATS_URL", default_value = "nats://127.0.0.1:4222")]
    nats: String,
}

/// Publishes on the form of the subject that does not name the protocol, and prints where the stream stored it.
pub(super) async fn run(args: Args) -> Result<bool> {
    let device = DeviceId::new(&args.product, &args.name)?;
    let subject = downlink_subject(&args.handle, &device);
    let mut headers = HeaderMap::new();
    if let Some(kind) = &args.kind {
        headers.append(
            "Jw-Type",
            kind.parse::<async_nats::HeaderValue>().context("--type")?,
        );
    }
    if let Some(qos) = args.qos {
        headers.append("Jw-Qos", qos.to_string().as_str());
    }
    let client = async_nats::connect(&args.nats)
        .await
        .with_context(|| format!("no NATS server at {}", args.nats))?;
    let stored = async_nats::jetstream::new(client)
        .publish_with_headers(subject.to_string(), headers, args.payload.into())
        .await?
        .await
        .with_context(|| {
            format!("no stream stored {subject}; expected a handle of the contract")
        })?;
    println!(
        "{subject} stored as {} of {}",
        stored.sequence, stored.stream
    );
    Ok(true)
}
