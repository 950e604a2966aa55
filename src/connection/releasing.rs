//! PUBREL where QoS 2 messages are published at their release: what is held is read back, published where it belongs, and then
//! forgotten.
//!
//! It is forgotten only when it is stored there, also if the connection is over by then: whoever releases it once more meanwhile
//! does so under the same message id.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use super::driver::Driver;
use crate::mapping::Holder;
use crate::message::Subject;
use crate::mqtt::PacketId;
use crate::tasks::OnExit;
use crate::telemetry;
use crate::uplink::{Prepared, Sender};

/// How long until JetStream is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// Where a message is held.
#[derive(Debug)]
pub(super) struct Place {
    subject: Subject,
    sequence: u64,
}

/// Held messages on their way to where they belong; most devices never have any.
#[derive(Debug, Default)]
pub(super) struct Released(Option<Box<Places>>);

/// Each with its number among the connection's messages.
#[derive(Debug, Default)]
struct Places(VecDeque<(u64, Place)>);

impl Released {
    pub(super) fn push(&mut self, number: u64, place: Place) {
        let Places(places) = &mut **self.0.get_or_insert_default();
        places.push_back((number, place));
    }

    /// The stream refused this one: it stays where it is held.
    pub(super) fn refused(&mut self, refused: u64) {
        if let Some(Places(places)) = self.0.as_deref_mut() {
            places.retain(|(number, _)| *number != refused);
        }
    }

    /// Those before this number.
    fn take_before(&mut self, finished: u64) -> Vec<Place> {
        let Some(Places(places)) = self.0.as_deref_mut() else {
            return Vec::new();
        };
        let is_finished = |(number, _): &(u64, Place)| *number < finished;
        let count = places.iter().take_while(|one| is_finished(one)).count();
        let taken = places.drain(..count).map(|(_, place)| place).collect();
        if places.is_empty() {
            self.0 = None; // An idle device keeps no buffer.
        }
        taken
    }
}

/// Reads what the session holds under a packet identifier, however long that takes; none if there is nothing.
pub(super) async fn read(
    shared: &Shared,
    holder: Holder<'_>,
    packet_id: PacketId,
) -> Option<(Prepared, Place)> {
    let subject = holder.subject(packet_id);
    let stored = loop {
        match shared.reader.last_on(&subject).await {
            Ok(stored) => break stored?,
            Err(error) => {
                tracing::debug!(%subject, %error, "held message not read yet");
                sleep(RETRY).await;
            }
        }
    };
    let uplink = holder.release(&stored.message, telemetry::now_unix_ms())?;
    let sequence = stored.sequence;
    Some((uplink.into(), Place { subject, sequence }))
}

/// Forgets what earlier sessions of a device held, before another one begins. What is left if that fails is not released by it.
pub(super) async fn forget_all(shared: &Shared, tokens: &str) {
    if let Err(error) = shared.reader.purge(&Holder::all(tokens), u64::MAX).await {
        tracing::warn!(%error, "held messages of an ended session stay in the stream");
    }
}

async fn forget(shared: &Shared, place: Place) {
    // What is below was sent again before it was answered: the same message.
    while let Err(error) = shared.reader.purge(&place.subject, place.sequence).await {
        tracing::debug!(subject = %place.subject, %error, "released message not removed yet");
        sleep(RETRY).await;
    }
}

/// The connection is over, and its messages are finished: forgets what it released, and what its session holds if that
/// `is_over` too.
pub(super) fn leave(shared: &Arc<Shared>, mut released: Released, sender: &Sender, is_over: bool) {
    for (number, _) in sender.receipts.take_refused() {
        released.refused(number);
    }
    let mut places = released.take_before(u64::MAX);
    if is_over {
        places.push(Place {
            subject: Holder::all(&sender.tokens),
            // The next session's are stored behind.
            sequence: shared.uplink.stored_sequence(),
        });
    }
    for place in places {
        let shared = Arc::clone(shared);
        let tasks = shared.tasks.clone();
        let forget = async move { forget(&shared, place).await };
        tasks.spawn("release", OnExit::Log, forget);
    }
}

impl Driver {
    /// Forgets what is released for good.
    pub(super) fn forget_released(&mut self) {
        for place in self.inbound.released.take_before(self.inbound.finished) {
            let shared = Arc::clone(&self.shared);
            let forget = async move { forget(&shared, place).await };
            self.shared.tasks.spawn("release", OnExit::Log, forget);
        }
    }
}
