//! Certificates are read again on SIGHUP, and when their files have changed (G20).
//!
//! Files may be written one after the other, so a certificate that does not fit its key yet is reported, kept out of use,
//! and read again at the next change.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::tls::Tls;

/// Keeps the certificates of all listeners up to date.
pub struct Renewal {
    certificates: Vec<Arc<Tls>>,
    hangup: Signal,
    interval: Interval,
    renewed: Counter,
    failed: Counter,
}

impl Renewal {
    /// Takes SIGHUP over from now on, and looks at the files every `interval`.
    ///
    /// # Errors
    /// The system's, which has no more room for signal handlers.
    pub fn new(certificates: Vec<Arc<Tls>>, every: Duration) -> io::Result<Self> {
        let mut interval = interval(every);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            certificates,
            hangup: signal(SignalKind::hangup())?,
            interval,
            renewed: Counter::default(),
            failed: Counter::default(),
        })
    }

    /// Publishes the figures.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "tls_renewals",
            "Times a listener's certificate files were read again and put to use",
            self.renewed.clone(),
        );
        registry.register(
            "tls_renewals_failed",
            "Times a listener's certificate files could not be used, so that the old certificate stayed",
            self.failed.clone(),
        );
        registry.register_collector(Box::new(Expiry(self.certificates.clone())));
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let all = tokio::select! {
                () = shutdown.cancelled() => return,
                _ = self.hangup.recv() => true,
                _ = self.interval.tick() => false,
            };
            for tls in &self.certificates {
                self.renew(tls, all).await;
            }
        }
    }

    async fn renew(&self, tls: &Arc<Tls>, always: bool) {
        let renewed = Arc::clone(tls);
        // Files may be on a slow disk, and this thread has connections to serve.
        let outcome = tokio::task::spawn_blocking(move || {
            (always || renewed.has_changed()).then(|| renewed.reload())
        })
        .await;
        match outcome {
            Ok(None) => {}
            Ok(Some(Ok(()))) => {
                self.renewed.inc();
                let expiry_s = tls.expiry_s();
                tracing::info!(listener = tls.listener, expiry_s, "certificate renewed");
            }
            Ok(Some(Err(faults))) => {
                self.failed.inc();
                let faults = faults.join("; ");
                tracing::error!(
                    listener = tls.listener,
                    faults,
                    "certificate not renewed, the old one stays in use"
                );
            }
            Err(error) => {
                self.failed.inc();
                tracing::error!(listener = tls.listener, %error, "certificate not renewed, the old one stays in use");
            }
        }
    }
}

/// Computed when it is asked for, because time passes.
#[derive(Debug)]
struct Expiry(Vec<Arc<Tls>>);

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut metric = encoder.encode_descriptor(
            "tls_certificate_expiry_seconds",
            "Time until the first certificate of a listener's chain ends; negative once it has",
            None,
            MetricType::Gauge,
        )?;
        for tls in &self.0 {
            let listener = [("listener", tls.listener.as_str())];
            ConstGauge::new(tls.expiry_s()).encode(metric.encode_family(&listener)?)?;
        }
        Ok(())
    }
}
