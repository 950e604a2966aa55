//! What happens to a message that was not handled: when it comes again, and when it is given up. Pure.
//!
//! The durable's own `backoff` and `max_deliver` decide, so that a handler that fails, one that hangs and a process that dies all
//! climb the same ladder. A durable without a backoff gets the platform's: 10 s, 1 min, 5 min.

use std::time::Duration;

use crate::jetstream::consumer::{Answer, Redelivery};

const DEFAULT: [Duration; 3] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
];
/// Signs of life per time without one that the server allows.
const PROGRESS_PER_WAIT: u32 = 3;
const PROGRESS_MIN: Duration = Duration::from_millis(20);

/// The retries of one durable.
#[derive(Debug)]
pub(super) struct Ladder {
    steps: Vec<Duration>,
    deliveries_max: Option<u64>,
    ack_wait: Duration,
}

impl Ladder {
    pub(super) fn new(redelivery: Redelivery) -> Self {
        let Redelivery {
            ack_wait,
            backoff,
            deliveries_max,
        } = redelivery;
        let ack_wait = backoff.iter().copied().fold(ack_wait, Duration::min);
        Self {
            steps: if backoff.is_empty() {
                DEFAULT.into()
            } else {
                backoff
            },
            deliveries_max,
            ack_wait,
        }
    }

    /// Whether this delivery, counted from 1, has none after it.
    pub(super) fn is_last(&self, attempt: u64) -> bool {
        let steps = u64::try_from(self.steps.len()).unwrap_or(u64::MAX);
        attempt
            >= self
                .deliveries_max
                .unwrap_or_else(|| steps.saturating_add(1))
    }

    /// What is said about a message whose handling failed at this delivery, counted from 1.
    pub(super) fn answer(&self, attempt: u64, error: &str) -> Answer {
        if !self.is_last(attempt) {
            let step = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
            let step = self.steps.get(step).or_else(|| self.steps.last());
            return step.map_or(Answer::Nak, |step| Answer::NakAfter(*step));
        }
        match self.deliveries_max {
            // The server counts too: it gives the message up and says so.
            Some(_) => Answer::Nak,
            // This one would deliver it for ever.
            None => Answer::Terminate(format!("failed {attempt} times: {error}")),
        }
    }

    /// How often the server is told about what is in our hands.
    pub(super) fn progress_interval(&self) -> Duration {
        (self.ack_wait / PROGRESS_PER_WAIT).max(PROGRESS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(backoff: &[u64], deliveries_max: Option<u64>) -> Ladder {
        Ladder::new(Redelivery {
            ack_wait: Duration::from_secs(30),
            backoff: backoff.iter().copied().map(Duration::from_secs).collect(),
            deliveries_max,
        })
    }

    #[test]
    fn a_failed_message_climbs_the_durables_ladder_and_is_left_to_the_server() {
        let after = |seconds| Answer::NakAfter(Duration::from_secs(seconds));
        let own = ladder(&[1, 7], Some(4));
        let answers: Vec<_> = (1..=5).map(|attempt| own.answer(attempt, "e")).collect();
        assert_eq!(
            answers,
            [after(1), after(7), after(7), Answer::Nak, Answer::Nak]
        );
        assert_eq!(own.progress_interval(), Duration::from_secs(1) / 3);
    }

    #[test]
    fn without_a_limit_it_is_terminated_after_the_ladder() {
        let after = |seconds| Answer::NakAfter(Duration::from_secs(seconds));
        let default = ladder(&[], None);
        let answers: Vec<_> = (1..=4)
            .map(|attempt| default.answer(attempt, "e"))
            .collect();
        let end = Answer::Terminate("failed 4 times: e".to_owned());
        assert_eq!(answers, [after(10), after(60), after(300), end]);
        assert!(default.is_last(4) && !default.is_last(3));
        assert_eq!(default.progress_interval(), Duration::from_secs(10));
    }
}
