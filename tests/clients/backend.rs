//! The README's backend service in Rust, as it is there.

use async_nats::jetstream::{self, consumer::pull};
use futures_util::StreamExt as _;

/// Answers every report of every device with a command.
pub(crate) async fn serve(nats_url: &str) -> Result<(), async_nats::Error> {
    let jetstream = jetstream::new(async_nats::connect(nats_url).await?);
    // A durable consumer: reports wait for this service while it is away, until it acknowledges them.
    let durable = pull::Config {
        durable_name: Some("reports".into()),
        filter_subject: "device.up.mqtt.thing.>".into(),
        ..Default::default()
    };
    let stream = jetstream.get_stream("DEVICE_UP").await?;
    let reports = stream.get_or_create_consumer("reports", durable).await?;
    let mut reports = reports.messages().await?;
    while let Some(report) = reports.next().await {
        let report = report?;
        println!(
            "{} {}",
            report.subject,
            String::from_utf8_lossy(&report.payload)
        );
        // A command back to the same device. The second await is for the PubAck, which means that it is stored.
        let device = report.subject.trim_start_matches("device.up.mqtt.thing.");
        let command = r#"{"method":"control","msgToken":"1","params":{"power":1}}"#;
        let subject = format!("device.down.thing.{device}");
        jetstream.publish(subject, command.into()).await?.await?;
        report.ack().await?;
    }
    Ok(())
}
