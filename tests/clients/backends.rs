//! The README's backend services: each answers a report with a command, and misses none while it is away.

use std::path::Path;

use async_nats::jetstream::consumer::{Info, pull};

use crate::backend;
use crate::support::{
    Backend, DemoDevice, DevOptions, Device, Gateway, Protocol, eventually, python,
};

/// A device that reports and expects the services' answers.
struct Reporter {
    device: Device,
    up: String,
    down: String,
}

impl Reporter {
    async fn connect(gateway: &Gateway) -> Self {
        let DemoDevice {
            product,
            name,
            credentials,
            ..
        } = gateway.ready.device.clone().unwrap();
        let mut device = Device::connect(Protocol::V5, gateway.mqtt(), &credentials).await;
        let down = format!("$thing/down/property/{product}/{name}");
        assert_eq!(device.subscribe(&down).await, 1);
        let up = format!("$thing/up/property/{product}/{name}");
        Self { device, up, down }
    }

    async fn report(&mut self) {
        assert_eq!(self.device.publish_acked(&self.up, "21.5").await, 0);
    }

    async fn expect_command(&mut self) {
        let command = self.device.next().await;
        assert_eq!(command.topic, self.down);
        assert!(command.text().contains("\"method\":\"control\""));
    }
}

/// Waits until the services' durable is as `condition` says.
async fn wait_for(backend: &Backend, what: &str, condition: impl Fn(&Info) -> bool) {
    let stream = backend.stream("DEVICE_UP").await;
    eventually(what, async || {
        let consumer = stream.get_consumer::<pull::Config>("reports").await;
        let info = consumer.unwrap().cached_info().clone();
        match condition(&info) {
            true => Ok(()),
            false => Err(format!("{info:?}")),
        }
    })
    .await;
}

async fn all_acknowledged(backend: &Backend) {
    let none_left = |info: &Info| info.num_pending == 0 && info.num_ack_pending == 0;
    wait_for(backend, "every report is acknowledged", none_left).await;
}

/// What is sent to a service that just died is sent again, but only after the durable's ack wait.
async fn is_away(backend: &Backend) {
    wait_for(backend, "the service is away", |info| info.num_waiting == 0).await;
}

#[tokio::test]
async fn the_rust_service_answers_and_misses_nothing() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    let mut reporter = Reporter::connect(&gateway).await;
    for _round in ["from the start", "after it was away"] {
        reporter.report().await;
        tokio::select! {
            ended = backend::serve(&gateway.ready.nats) => panic!("the service ended: {ended:?}"),
            () = async {
                reporter.expect_command().await;
                all_acknowledged(&backend).await;
            } => {}
        }
        is_away(&backend).await;
    }
}

#[tokio::test]
async fn the_python_service_answers_and_misses_nothing() {
    let gateway = Gateway::dev(DevOptions::default()).await;
    let backend = Backend::connect(&gateway.ready.nats).await;
    let mut reporter = Reporter::connect(&gateway).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/backend.py");
    for _round in ["from the start", "after it was away"] {
        reporter.report().await;
        let service = tokio::process::Command::from(python(&script))
            .env("NATS_URL", &gateway.ready.nats)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        reporter.expect_command().await;
        all_acknowledged(&backend).await;
        drop(service);
        is_away(&backend).await;
    }
}
