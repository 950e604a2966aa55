//! What a member of a share says about a message that it was given.
//!
//! When to say it is the connection's to decide, by what MQTT 5 §4.8.2 asks: a QoS 2 message stays with the member that it was
//! sent to, and one that a member refuses is sent to nobody else. Both are acknowledged here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::jetstream::consumer::Answer;

/// A message in the hands of one member of a share. Only the first word counts; without one before the last clone is
/// dropped, another member gets the message, so a dying connection hands on what it had.
#[derive(Debug, Clone)]
pub struct ShareToken(Arc<Held>);

#[derive(Debug)]
struct Held {
    number: u64,
    answers: Arc<Answers>,
    answered: AtomicBool,
}

impl ShareToken {
    pub(super) fn new(number: u64, answers: &Arc<Answers>) -> Self {
        let (answers, answered) = (Arc::clone(answers), AtomicBool::new(false));
        Self(Arc::new(Held {
            number,
            answers,
            answered,
        }))
    }

    /// The message is done, or its fate is this member's alone: nobody else gets it. Also for what can never be delivered; handed
    /// on, it would come back for ever.
    pub fn ack(&self) {
        self.0.answer(Answer::Ack);
    }

    /// Another member should have it.
    pub fn nak(&self) {
        self.0.answer(Answer::Nak);
    }
}

impl Held {
    fn answer(&self, answer: Answer) {
        if !self.answered.swap(true, Ordering::Relaxed) {
            self.answers.push(self.number, answer);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answer(Answer::Nak);
    }
}

/// Answers on their way to the task that serves the share: at most one for each message in its members' hands.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: Mutex<Vec<(u64, Answer)>>,
    /// There are some, or the members changed.
    pub(super) changed: Notify,
}

impl Answers {
    fn push(&self, number: u64, answer: Answer) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((number, answer));
        drop(waiting);
        self.changed.notify_one();
    }

    pub(super) fn take(&self) -> Vec<(u64, Answer)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut waiting)
    }
}
