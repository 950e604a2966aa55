//! A durable of Redis as it is asked: patterns for its filters, idle times for its ladder, what the scripts answer.

use std::time::Duration;

use redis::{FromRedisValue, ParsingError, RedisResult, Value, from_redis_value};

use super::Broker;
use super::keys::{Fields, message, sequence};
use crate::broker::{DeadLetter, Durable};
use crate::delivery::{Delivered, Redelivery};
use crate::message::Subject;

/// The idle time at which an entry may come again. Longer than any step of a ladder: a later one is cut.
pub(super) const HORIZON: Duration = Duration::from_hours(7 * 24);

/// The idle time that an entry is given which is to come again after `wait`, in milliseconds.
pub(super) fn idle_ms(wait: Duration) -> u64 {
    millis(HORIZON.saturating_sub(wait))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long each delivery may be without a word, in milliseconds; the last one for all further ones.
pub(super) fn steps(redelivery: &Redelivery) -> Vec<u64> {
    let steps = match &*redelivery.backoff {
        [] => std::slice::from_ref(&redelivery.ack_wait),
        backoff => backoff,
    };
    steps.iter().map(|step| millis(*step)).collect()
}

/// A filter with NATS wildcards as a pattern of Lua.
pub(super) fn pattern(filter: &Subject) -> String {
    let mut pattern = String::from("^");
    for (at, token) in filter.split('.').enumerate() {
        if at > 0 {
            pattern.push_str("%.");
        }
        match token {
            "*" => pattern.push_str("[^.]+"),
            ">" => pattern.push_str(".+"),
            token => {
                for letter in token.chars() {
                    // Lua takes any sign so, and letters only without it.
                    if letter.is_ascii_punctuation() {
                        pattern.push('%');
                    }
                    pattern.push(letter);
                }
            }
        }
    }
    pattern.push('$');
    pattern
}

/// What the script says about an entry: id, attempt, fields.
type Taken = (String, u64, Fields);

/// What the script took for a puller.
pub(super) struct Pulled {
    /// Where the next look for what comes again begins.
    pub(super) cursor: String,
    /// The last entry that was given to anyone.
    pub(super) last: String,
    taken: Vec<Taken>,
}

impl FromRedisValue for Pulled {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (cursor, last, taken) = from_redis_value(value)?;
        Ok(Self {
            cursor,
            last,
            taken,
        })
    }
}

impl Pulled {
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The messages. An entry that is none of ours is left out: it comes again, and is given up in the end.
    pub(super) fn delivered(self) -> impl Iterator<Item = Delivered> {
        self.taken.into_iter().filter_map(|(id, attempt, fields)| {
            let (sequence, stored_ms) = sequence(&id)?;
            let reply = format!("{id}.{attempt}").into();
            Some(Delivered::new(
                message(&fields)?,
                sequence,
                stored_ms,
                attempt,
                reply,
            ))
        })
    }
}

impl Broker {
    /// What a durable gave up, oldest first; at most so many.
    ///
    /// # Errors
    /// When Redis is away.
    pub async fn dead_letters(
        &self,
        stream: &str,
        durable: &str,
        limit: usize,
    ) -> RedisResult<Vec<DeadLetter>> {
        let mut range = redis::cmd("XRANGE");
        let key = self.keys(stream).dead(durable);
        range.arg(key).arg("-").arg("+").arg("COUNT").arg(limit);
        let connection = &mut self.connection.clone();
        let entries: Vec<(String, Fields)> = range.query_async(connection).await?;
        Ok(entries
            .into_iter()
            .filter_map(|(_, fields)| dead_letter(&fields))
            .collect())
    }

    /// The durable as it was provisioned, if it is.
    pub(super) async fn durable(&self, stream: &str, name: &str) -> RedisResult<Option<Durable>> {
        let mut get = redis::cmd("HGET");
        get.arg(self.keys(stream).durables()).arg(name);
        let config: Option<Vec<u8>> = get.query_async(&mut self.connection.clone()).await?;
        let config = config.and_then(|config| serde_json::from_slice(&config).ok());
        Ok(config.map(|config| Durable::read(stream, name, &config)))
    }
}

fn dead_letter(fields: &[(String, Vec<u8>)]) -> Option<DeadLetter> {
    let text = |name: &str| {
        let mut found = fields.iter().filter(|(key, _)| key == name);
        found
            .next()
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    Some(DeadLetter {
        message: message(fields)?,
        sequence: sequence(&text("id")?)?.0,
        attempts: text("attempts")?.parse().ok()?,
        reason: text("reason")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_and_ladders_are_said_as_redis_takes_them() {
        for (filter, expected) in [
            ("gps.*.p-1.>", "^gps%.[^.]+%.p%-1%..+$"),
            ("a.b", "^a%.b$"),
            (">", "^.+$"),
        ] {
            assert_eq!(pattern(&filter.into()), expected);
        }
        let ladder = Redelivery {
            ack_wait: Duration::from_secs(3),
            backoff: Vec::new(),
            deliveries_max: None,
        };
        assert_eq!(steps(&ladder), [3_000]);
        assert_eq!(millis(HORIZON) - idle_ms(Duration::from_secs(1)), 1_000);
        assert_eq!(sequence("3-2"), Some((3 << 20 | 2, 3)));
        assert!(sequence("3-2").unwrap().0 < sequence("4-0").unwrap().0);
        assert_eq!(sequence("3-1048576"), None);
    }
}
