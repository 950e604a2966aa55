//! One stream: it exists, and what it must be it is.
//!
//! What the uplink cannot work without is an error: subjects that are not taken, batches, an acknowledgement before the message
//! is stored.

use futures_util::future::try_join_all;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

use super::api::{error_code, refused, request};
use super::difference::{Difference, differences};
use crate::jetstream::{Error, Link};
use crate::message;

/// One stream as it should be: the configuration object of `$JS.API.STREAM.CREATE`.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Its configuration, JSON as the server takes it.
    pub config: Value,
}

/// What the server really does with a message before it acknowledges it (GUARANTEES: the class of G-STORE).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Durability {
    /// The stream.
    pub stream: String,
    /// `memory`, `file` or `file, async`.
    pub storage: String,
    /// Copies.
    pub replicas: u64,
}

/// Publishes each stream's durability, so that nobody believes more than is true.
pub fn register(durabilities: &[Durability], registry: &mut Registry) {
    let family = Family::<Durability, Gauge>::default();
    for durability in durabilities {
        family.get_or_create(durability).set(1);
    }
    registry.register(
        "stream_durability",
        "What each stream does before it acknowledges, as found at start",
        family,
    );
}

/// Creates what is missing, reports or applies what differs; gives each stream's real durability.
///
/// # Errors
/// [`Error::NoJetStream`], [`Error::Stream`] when the server refuses one, [`Error::AsyncPersist`].
pub async fn ensure(
    link: &Link,
    streams: &[Stream],
    apply: bool,
    allow_async_persist: bool,
) -> Result<Vec<Durability>, Error> {
    let mut found = Vec::with_capacity(streams.len());
    for stream in streams {
        let actual = match info(link, &stream.name).await? {
            None => create(link, "CREATE", stream).await?,
            Some(actual) => reconcile(link, stream, actual, apply).await?,
        };
        check(&stream.name, &stream.config, &actual, allow_async_persist)?;
        let durability = durability(&stream.name, &actual);
        tracing::info!(
            stream = durability.stream,
            storage = durability.storage,
            replicas = durability.replicas,
            "stream ready"
        );
        found.push(durability);
    }
    Ok(found)
}

/// The names of streams that are missing now; for readiness.
///
/// # Errors
/// [`Error::Request`] when the server does not answer.
pub async fn missing(link: &Link, streams: &[Stream]) -> Result<Vec<String>, Error> {
    // Together: whoever probes a node waits for the slowest answer, not for all of them.
    let asked = streams.iter().map(|stream| info(link, &stream.name));
    let found = try_join_all(asked).await?;
    let missing = streams
        .iter()
        .zip(found)
        .filter(|(_, found)| found.is_none());
    Ok(missing.map(|(stream, _)| stream.name.clone()).collect())
}

/// How many servers a stream is on.
///
/// # Errors
/// [`Error::Stream`] when it is missing, [`Error::Request`] when the server does not answer.
pub(in crate::jetstream) async fn replicas(link: &Link, name: &str) -> Result<u64, Error> {
    let config = info(link, name).await?.ok_or_else(|| Error::Stream {
        stream: name.to_owned(),
        reason: "it is missing".to_owned(),
    })?;
    Ok(durability(name, &config).replicas)
}

/// Whether what was stored in a stream is found there afterwards, by whoever asks its leader: it has one server, so no
/// other one may lead it with less, and it drops nothing but what is old.
///
/// # Errors
/// As [`replicas`].
pub(in crate::jetstream) async fn keeps(link: &Link, name: &str) -> Result<bool, Error> {
    let config = info(link, name).await?.ok_or_else(|| Error::Stream {
        stream: name.to_owned(),
        reason: "it is missing".to_owned(),
    })?;
    Ok(is_kept(&config))
}

fn is_kept(config: &Value) -> bool {
    let number = |key: &str| config.get(key).and_then(Value::as_i64);
    number("num_replicas").unwrap_or(1) <= 1
        && number("max_msgs_per_subject").unwrap_or(-1) <= 0
        && config.get("retention").and_then(Value::as_str) == Some("limits")
}

/// A stream as the server has it.
pub(super) struct Found {
    /// Its configuration.
    pub(super) config: Value,
    /// When it was created: another time for a stream of the same name that replaced it.
    pub(super) created: String,
}

pub(super) async fn found(link: &Link, name: &str) -> Result<Option<Found>, Error> {
    const STREAM_NOT_FOUND: u64 = 10_059;
    let mut answer = request(link, &format!("$JS.API.STREAM.INFO.{name}"), &Value::Null).await?;
    match answer.get("error") {
        None => {
            let created = answer.get_mut("created").map(Value::take);
            Ok(Some(Found {
                created: created
                    .and_then(|at| Some(at.as_str()?.to_owned()))
                    .unwrap_or_default(),
                config: config_of(answer),
            }))
        }
        Some(_) if error_code(&answer) == Some(STREAM_NOT_FOUND) => Ok(None),
        Some(error) => Err(refused(name, error)),
    }
}

/// When a stream was created: another time for one of the same name that replaced it; none if it is missing.
///
/// # Errors
/// [`Error::Request`] when the server does not answer.
pub async fn created(link: &Link, name: &str) -> Result<Option<String>, Error> {
    Ok(found(link, name).await?.map(|found| found.created))
}

async fn info(link: &Link, name: &str) -> Result<Option<Value>, Error> {
    Ok(found(link, name).await?.map(|found| found.config))
}

pub(super) async fn create(link: &Link, verb: &str, stream: &Stream) -> Result<Value, Error> {
    let subject = format!("$JS.API.STREAM.{verb}.{}", stream.name);
    let answer = request(link, &subject, &stream.config).await?;
    match answer.get("error") {
        None => Ok(config_of(answer)),
        Some(error) => Err(refused(&stream.name, error)),
    }
}

async fn reconcile(
    link: &Link,
    stream: &Stream,
    actual: Value,
    apply: bool,
) -> Result<Value, Error> {
    let differences = differences(&stream.config, &actual);
    if differences.is_empty() {
        return Ok(actual);
    }
    for Difference {
        key,
        wanted,
        actual,
    } in &differences
    {
        tracing::warn!(stream = stream.name, key, %wanted, %actual, apply, "stream differs from its declaration");
    }
    if apply {
        create(link, "UPDATE", stream).await
    } else {
        Ok(actual)
    }
}

/// What must be so, declared or not: batches where we declare them, ids kept as long as declared, and an acknowledgement that means stored.
fn check(
    name: &str,
    wanted: &Value,
    actual: &Value,
    allow_async_persist: bool,
) -> Result<(), Error> {
    let unstored = unstored(wanted, actual);
    if !unstored.is_empty() {
        return Err(Error::Stream {
            stream: name.to_owned(),
            reason: format!(
                "it does not take {}, which it is declared to store; set nats.apply = true to change it",
                unstored.join(", ")
            ),
        });
    }
    let flag = |config: &Value, key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    for key in ["allow_batched", "allow_atomic"] {
        if flag(wanted, key) && !flag(actual, key) {
            return Err(Error::Stream {
                stream: name.to_owned(),
                reason: format!(
                    "{key} is off and it is declared to be on; set nats.apply = true to turn it on, or declare {key} = false to publish without"
                ),
            });
        }
    }
    let window = |config: &Value| config.get("duplicate_window").and_then(Value::as_u64);
    if window(actual) < window(wanted) {
        return Err(Error::Stream {
            stream: name.to_owned(),
            reason: "duplicate_window is shorter than declared and what the gateway sends again could be stored twice; set nats.apply = true to change it".to_owned(),
        });
    }
    let persist = actual.get("persist_mode").and_then(Value::as_str);
    if persist == Some("async") && !allow_async_persist {
        return Err(Error::AsyncPersist {
            stream: name.to_owned(),
        });
    }
    Ok(())
}

/// The declared subjects that the stream does not take: what is published there would wait for it in vain.
fn unstored(wanted: &Value, actual: &Value) -> Vec<String> {
    let subjects = |config: &Value| -> Vec<String> {
        let subjects = config.get("subjects").and_then(Value::as_array);
        let texts = subjects.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    let taken = subjects(actual);
    let mut wanted = subjects(wanted);
    wanted.retain(|subject| !taken.iter().any(|taken| message::covers(taken, subject)));
    wanted
}

fn durability(name: &str, actual: &Value) -> Durability {
    let text = |key: &str| actual.get(key).and_then(Value::as_str).unwrap_or_default();
    let storage = match text("persist_mode") {
        "async" => format!("{}, async", text("storage")),
        _ => text("storage").to_owned(),
    };
    Durability {
        stream: name.to_owned(),
        storage,
        replicas: actual
            .get("num_replicas")
            .and_then(Value::as_u64)
            .unwrap_or(1),
    }
}

fn config_of(mut answer: Value) -> Value {
    answer
        .get_mut("config")
        .map(Value::take)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stream_that_acknowledges_before_it_stores_is_refused() {
        let asynchronous = json!({"storage": "file", "persist_mode": "async", "num_replicas": 3});
        let refused = check("UP", &json!({}), &asynchronous, false);
        assert!(matches!(refused, Err(Error::AsyncPersist { .. })));
        assert!(check("UP", &json!({}), &asynchronous, true).is_ok());
        assert_eq!(durability("UP", &asynchronous).storage, "file, async");
    }

    #[test]
    fn a_stream_that_does_not_take_a_declared_subject_is_refused() {
        let wanted = json!({"subjects": ["mqtt.>", "mqtt_held.*.*.*"]});
        let broader = json!({"subjects": ["mqtt.>", "mqtt_held.>"]});
        assert!(check("MQTT", &wanted, &broader, false).is_ok());
        let refused = check("MQTT", &wanted, &json!({"subjects": ["mqtt.>"]}), false);
        let reason = refused.unwrap_err().to_string();
        assert!(
            reason.contains("it does not take mqtt_held.*.*.*"),
            "{reason}"
        );
    }

    #[test]
    fn a_stream_keeps_what_it_stores_on_one_server_and_without_a_limit_a_subject() {
        let limits = json!({"retention": "limits", "num_replicas": 1, "max_msgs_per_subject": -1});
        assert!(is_kept(&limits));
        for (key, value) in [
            ("retention", json!("workqueue")),
            ("num_replicas", json!(3)),
            ("max_msgs_per_subject", json!(1)),
        ] {
            let mut other = limits.clone();
            other[key] = value;
            assert!(!is_kept(&other), "{key}");
        }
    }

    #[test]
    fn a_stream_without_declared_batches_is_refused() {
        for key in ["allow_batched", "allow_atomic"] {
            let wanted = json!({key: true});
            assert!(check("UP", &wanted, &json!({}), false).is_err());
            assert!(check("UP", &wanted, &wanted, false).is_ok());
            assert!(check("UP", &json!({key: false}), &json!({}), false).is_ok());
        }
    }

    #[test]
    fn a_stream_that_forgets_message_ids_too_early_is_refused() {
        let stream = |window: u64| json!({"allow_batched": true, "duplicate_window": window});
        assert!(check("UP", &stream(120), &stream(119), false).is_err());
        assert!(check("UP", &stream(120), &stream(121), false).is_ok());
    }
}
