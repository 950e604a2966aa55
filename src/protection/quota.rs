//! What a device may send, and all devices of its product together: messages and bytes in a second.
//!
//! A message above the rate waits in its connection, which reads no further: nothing is dropped for it, and the device's own TCP
//! connection tells it to slow down. Who has no quota has none of this.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::ProductLimits;
use super::places::{Place, Source};
use super::rate::{Bucket, Rate, nanos};
use super::refusals::Reason;

const SECOND: Duration = Duration::from_secs(1);

/// What was sent, by one device or by all of a product.
#[derive(Debug)]
struct Meter {
    messages: Option<Rate>,
    bytes: Option<Rate>,
    sent: [Bucket; 2],
}

impl Meter {
    fn new(messages_per_s: u64, bytes_per_s: u64, burst: Duration) -> Self {
        Self {
            messages: Rate::new(messages_per_s, SECOND, burst),
            bytes: Rate::new(bytes_per_s, SECOND, burst),
            sent: Default::default(),
        }
    }

    fn measures(&self) -> impl Iterator<Item = (&Rate, &Bucket)> {
        let [messages, bytes] = &self.sent;
        let messages = self.messages.iter().map(move |rate| (rate, messages));
        messages.chain(self.bytes.iter().map(move |rate| (rate, bytes)))
    }

    fn ready_at(&self) -> u64 {
        let ready = self.measures().map(|(rate, sent)| sent.ready_at(rate));
        ready.max().unwrap_or(0)
    }

    fn take(&self, bytes: u64, now: u64) {
        let [messages_sent, bytes_sent] = &self.sent;
        if let Some(rate) = &self.messages {
            messages_sent.take(rate, 1, now);
        }
        if let Some(rate) = &self.bytes {
            bytes_sent.take(rate, bytes, now);
        }
    }
}

/// All devices of a product on this node.
#[derive(Debug)]
pub(super) struct Product(Meter);

impl Product {
    pub(super) fn new(limits: &ProductLimits, burst: Duration) -> Self {
        Self(Meter::new(limits.messages_per_s, limits.bytes_per_s, burst))
    }
}

impl Place for Product {
    fn is_new(&self, now: u64) -> bool {
        self.0.measures().all(|(_, sent)| sent.is_full(now))
    }
}

/// What one device may send, and its place among those of its product.
#[derive(Debug)]
pub(super) struct Quota {
    device: Meter,
    product: Arc<Product>,
    epoch: Instant,
}

impl Quota {
    pub(super) fn new(
        limits: &ProductLimits,
        burst: Duration,
        product: Arc<Product>,
        epoch: Instant,
    ) -> Self {
        Self {
            device: Meter::new(
                limits.device_messages_per_s,
                limits.device_bytes_per_s,
                burst,
            ),
            product,
            epoch,
        }
    }

    /// Counts a message of so many bytes; or gives from when on it may come again, and whose rate it is above.
    fn take(&self, bytes: usize, now: Instant) -> Result<(), (Instant, Reason)> {
        let now_ns = nanos(now.saturating_duration_since(self.epoch));
        let (device, product) = (self.device.ready_at(), self.product.0.ready_at());
        let ready_at = device.max(product);
        if ready_at > now_ns {
            let reason = match device >= product {
                true => Reason::DeviceRate,
                false => Reason::ProductRate,
            };
            return Err((now + Duration::from_nanos(ready_at - now_ns), reason));
        }
        self.device.take(bytes as u64, now_ns);
        self.product.0.take(bytes as u64, now_ns);
        Ok(())
    }
}

/// What one connection has of what is limited.
#[derive(Debug)]
pub struct Allowance {
    quota: Option<Quota>,
    /// Held for as long as the connection is.
    _source: Option<Arc<Source>>,
    held_until: Option<Instant>,
}

impl Allowance {
    /// None, if there is nothing to have.
    pub(super) fn new(quota: Option<Quota>, source: Option<Arc<Source>>) -> Option<Box<Self>> {
        (quota.is_some() || source.is_some()).then(|| {
            Box::new(Self {
                quota,
                _source: source,
                held_until: None,
            })
        })
    }

    /// Counts a message of so many bytes.
    ///
    /// # Errors
    /// It is not counted, and has to wait for [`Self::held_until`]; whose rate it is above.
    pub fn take(&mut self, bytes: usize, now: Instant) -> Result<(), Reason> {
        let taken = self.quota.as_ref().map(|quota| quota.take(bytes, now));
        if let Some(Err((until, reason))) = taken {
            self.held_until = Some(until);
            return Err(reason);
        }
        Ok(())
    }

    /// Until when a message waits.
    #[must_use]
    pub fn held_until(&self) -> Option<Instant> {
        self.held_until
    }

    /// Whether a message waited that may go now; it waits no longer then.
    pub fn release(&mut self, now: Instant) -> bool {
        self.held_until.take_if(|until| *until <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(limits: &ProductLimits) -> [Quota; 2] {
        let burst = SECOND;
        let product = Arc::new(Product::new(limits, burst));
        let epoch = Instant::now();
        [(); 2].map(|()| Quota::new(limits, burst, Arc::clone(&product), epoch))
    }

    #[test]
    fn messages_and_bytes_of_a_device_are_counted_apart_from_its_neighbours() {
        let limits = ProductLimits {
            device_messages_per_s: 10,
            device_bytes_per_s: 1_000,
            ..ProductLimits::default()
        };
        let ([one, other], now) = (quotas(&limits), Instant::now());
        let taken = (0..100).filter(|_| one.take(1, now).is_ok()).count();
        assert_eq!(taken, 10);
        let (until, reason) = one.take(1, now).unwrap_err();
        assert_eq!(reason, Reason::DeviceRate);
        assert_eq!(until, now + Duration::from_millis(100));
        one.take(1, until).unwrap();
        // The largest message passes, and what follows waits until it is paid for.
        other.take(5_000, now).unwrap();
        let (until, _) = other.take(1, now).unwrap_err();
        assert_eq!(until, now + Duration::from_millis(4_001));
    }

    #[test]
    fn a_product_is_counted_over_its_devices() {
        let limits = ProductLimits {
            messages_per_s: 10,
            ..ProductLimits::default()
        };
        let ([one, other], now) = (quotas(&limits), Instant::now());
        (0..10).for_each(|_| one.take(1, now).unwrap());
        let (until, reason) = other.take(1, now).unwrap_err();
        assert_eq!(reason, Reason::ProductRate);
        other.take(1, until).unwrap();
        one.take(1, until).unwrap_err();
    }

    #[test]
    fn what_is_held_is_released_once_when_it_is_time() {
        let limits = ProductLimits {
            device_messages_per_s: 1,
            ..ProductLimits::default()
        };
        let ([quota, _], now) = (quotas(&limits), Instant::now());
        let mut allowance = Allowance::new(Some(quota), None).unwrap();
        allowance.take(1, now).unwrap();
        assert_eq!(allowance.held_until(), None);
        allowance.take(1, now).unwrap_err();
        let until = now + SECOND;
        assert_eq!(allowance.held_until(), Some(until));
        assert!(!allowance.release(now));
        assert!(allowance.release(until));
        assert!(!allowance.release(until));
        assert!(Allowance::new(None, None).is_none());
    }
}
