//! How many connections there are of one source address or one product: whoever holds an `Arc` of it has a place.
//!
//! So a place is one word of a connection and is given back however that ends. What nobody holds and nothing is known of is
//! removed when the table has doubled.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use super::rate::Bucket;

/// Smaller tables are not swept.
const SWEEP_MIN: usize = 1_024;

/// Whose connections are counted, with what is kept of each.
#[derive(Debug)]
pub(super) struct Places<K, T>(Mutex<Table<K, T>>);

#[derive(Debug)]
struct Table<K, T> {
    entries: HashMap<K, Arc<T>>,
    sweep_at: usize,
}

/// What is kept of those whose connections are counted.
pub(super) trait Place {
    /// Whether it says nothing that a new one would not say.
    fn is_new(&self, now: u64) -> bool;
}

/// Where connections come from.
#[derive(Debug, Default)]
pub struct Source {
    /// How fast they came.
    pub(super) connects: Bucket,
}

impl Place for Source {
    fn is_new(&self, now: u64) -> bool {
        self.connects.is_full(now)
    }
}

impl<K, T> Default for Places<K, T> {
    fn default() -> Self {
        Self(Mutex::new(Table {
            entries: HashMap::new(),
            sweep_at: SWEEP_MIN,
        }))
    }
}

impl<K: Eq + Hash, T: Place> Places<K, T> {
    /// The place of one more connection; none when there are `max` already, of which 0 is no limit.
    pub(super) fn take(
        &self,
        key: K,
        max: usize,
        now: u64,
        make: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.entries.len() >= table.sweep_at {
            table
                .entries
                .retain(|_, place| Arc::strong_count(place) > 1 || !place.is_new(now));
            table.sweep_at = SWEEP_MIN.max(2 * table.entries.len());
        }
        let place = table.entries.entry(key).or_insert_with(|| Arc::new(make()));
        // One of them is the table's.
        let taken = Arc::strong_count(place) - 1;
        (max == 0 || taken < max).then(|| Arc::clone(place))
    }
}

/// What counts as one source: an IPv4 address, or the 64 bits of an IPv6 address that a site is given.
pub(super) fn source(peer: SocketAddr) -> IpAddr {
    match peer.ip().to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places<u32, Source> {
        Places::default()
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_is_gone() {
        let places = places();
        let take = |key| places.take(key, 2, 0, Source::default);
        let (first, second) = (take(1).unwrap(), take(1).unwrap());
        assert!(take(1).is_none());
        assert!(take(2).is_some(), "of another one");
        drop(first);
        let third = take(1).unwrap();
        assert!(take(1).is_none());
        drop((second, third));
        assert!(places.take(1, 0, 0, Source::default).is_some());
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let places = places();
        let held = places.take(0, 1, 0, Source::default).unwrap();
        for key in 1..100_000 {
            drop(places.take(key, 1, 0, Source::default));
        }
        let table = places.0.lock().unwrap();
        assert!(table.entries.len() <= SWEEP_MIN, "{}", table.entries.len());
        assert!(Arc::ptr_eq(&table.entries[&0], &held));
    }

    #[test]
    fn a_site_is_one_source() {
        let of = |text: &str| source(text.parse().unwrap());
        assert_eq!(of("192.0.2.7:1"), of("[::ffff:192.0.2.7]:2"));
        assert_ne!(of("192.0.2.7:1"), of("192.0.2.8:1"));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:1:2:3]:1"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
    }
}
