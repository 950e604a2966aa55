//! One durable consumer: it exists, begins where it was, and is what it is declared to be.
//!
//! One that is gone is created again behind the last message that it is known to have acknowledged without a gap: what it had
//! done is not repeated beyond that, and nothing that waits is left out.

use serde_json::{Value, json};

use super::api::{error_code, refused, request};
use super::difference::{Difference, differences};
use super::floors::Floors;
use crate::jetstream::{Error, Link};

/// A durable consumer as it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Durable {
    /// Its stream.
    pub stream: String,
    /// Its name.
    pub name: String,
    /// The `config` object of `$JS.API.CONSUMER.CREATE`.
    pub config: Value,
}

/// A durable consumer as the server has it.
pub(super) struct Found {
    /// Its configuration.
    pub(super) config: Value,
    /// When it was created.
    pub(super) created: String,
    /// The stream sequence up to which all that it selects is acknowledged.
    pub(super) floor: u64,
}

/// Where it began cannot be changed, and one that was created again began elsewhere.
const BEGINNING: [&str; 3] = ["deliver_policy", "opt_start_seq", "opt_start_time"];

impl Durable {
    /// `<stream>/<durable>`
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.stream, self.name)
    }

    pub(super) async fn found(&self, link: &Link) -> Result<Option<Found>, Error> {
        const NOT_FOUND: [u64; 2] = [10_014, 10_059];
        let subject = format!("$JS.API.CONSUMER.INFO.{}.{}", self.stream, self.name);
        let mut answer = request(link, &subject, &Value::Null).await?;
        match answer.get("error") {
            None => {}
            Some(_) if error_code(&answer).is_some_and(|code| NOT_FOUND.contains(&code)) => {
                return Ok(None);
            }
            Some(error) => return Err(refused(&self.label(), error)),
        }
        let floor = answer
            .get("ack_floor")
            .and_then(|floor| floor.get("stream_seq")?.as_u64());
        let created = answer.get("created").and_then(Value::as_str);
        Ok(Some(Found {
            floor: floor.unwrap_or_default(),
            created: created.unwrap_or_default().to_owned(),
            config: answer
                .get_mut("config")
                .map(Value::take)
                .unwrap_or_default(),
        }))
    }

    /// What differs and can be changed.
    pub(super) fn differences(&self, actual: &Value) -> Vec<Difference> {
        let mut differences = differences(&self.config, actual);
        differences.retain(|found| !BEGINNING.contains(&&*found.key));
        differences
    }

    /// Creates it, where it was before if that is known; gives the sequence behind which it begins then.
    pub(super) async fn create(&self, link: &Link, floors: &Floors) -> Result<Option<u64>, Error> {
        let floor = floors.of(link, self).await?;
        let mut config = self.config.clone();
        if let (Some(floor), Value::Object(config)) = (floor, &mut config) {
            config.insert("deliver_policy".to_owned(), "by_start_sequence".into());
            config.insert("opt_start_seq".to_owned(), (floor + 1).into());
        }
        self.send(link, "create", config).await?;
        Ok(floor)
    }

    /// Changes it to what is declared, but for where it began.
    pub(super) async fn update(&self, link: &Link, actual: &Value) -> Result<(), Error> {
        let mut config = self.config.clone();
        if let Value::Object(config) = &mut config {
            for key in BEGINNING {
                config.remove(key);
                if let Some(value) = actual.get(key) {
                    config.insert(key.to_owned(), value.clone());
                }
            }
        }
        self.send(link, "update", config).await
    }

    async fn send(&self, link: &Link, action: &str, config: Value) -> Result<(), Error> {
        /// Another node was first, and began it elsewhere.
        const EXISTS: u64 = 10_148;
        let body = json!({ "stream_name": self.stream, "action": action, "config": config });
        let subject = format!("$JS.API.CONSUMER.CREATE.{}.{}", self.stream, self.name);
        let answer = request(link, &subject, &body).await?;
        match answer.get("error") {
            None => Ok(()),
            Some(_) if action == "create" && error_code(&answer) == Some(EXISTS) => Ok(()),
            Some(error) => Err(refused(&self.label(), error)),
        }
    }
}

/// Creates what is missing, reports or applies what differs.
///
/// # Errors
/// [`Error::Stream`] when the server refuses one, [`Error::Request`] when it does not answer.
pub async fn ensure_durables(
    link: &Link,
    durables: &[Durable],
    floors: &Floors,
    apply: bool,
) -> Result<(), Error> {
    for durable in durables {
        let Some(found) = durable.found(link).await? else {
            let behind = durable.create(link, floors).await?;
            tracing::info!(durable = durable.label(), behind, "durable created");
            continue;
        };
        let differences = durable.differences(&found.config);
        for Difference {
            key,
            wanted,
            actual,
        } in &differences
        {
            tracing::warn!(durable = durable.label(), key, %wanted, %actual, apply, "durable differs from its declaration");
        }
        if apply && !differences.is_empty() {
            durable.update(link, &found.config).await?;
        }
    }
    Ok(())
}
