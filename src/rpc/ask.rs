//! One request in the hands of the device's connection.

use tokio::sync::oneshot;

use super::Refusal;
use crate::device::Address;
use crate::mapping::Call;
use crate::message::Message;
use crate::mqtt::Publish;

/// A request that waits for its answer; one that is dropped says that the device is gone.
#[derive(Debug)]
pub struct Ask {
    /// What is asked.
    pub call: Call,
    answer: oneshot::Sender<Result<Message, Refusal>>,
}

/// What becomes of it.
pub(super) type Answer = oneshot::Receiver<Result<Message, Refusal>>;

impl Ask {
    pub(super) fn new(call: Call) -> (Self, Answer) {
        let (answer, receiver) = oneshot::channel();
        (Self { call, answer }, receiver)
    }

    /// Whether nobody waits for it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.answer.is_closed()
    }

    /// Whether this uplink of the device answers it.
    #[must_use]
    pub fn is_answered_by(&self, address: &Address<'_>, publish: &Publish) -> bool {
        self.call.is_answered_by(address, publish)
    }

    /// Gives the device's message.
    pub fn answer(self, message: Message) {
        drop(self.answer.send(Ok(message)));
    }

    /// Says why there is none.
    pub fn refuse(self, refusal: Refusal) {
        drop(self.answer.send(Err(refusal)));
    }
}
