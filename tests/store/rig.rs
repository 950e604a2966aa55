//! A nats-server, the gateway's own connection to it, and a backend that publishes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_nats::jetstream::stream;
use jetway::jetstream::bucket::Expect;
use jetway::jetstream::{Bucket, Feed, Link, Reader, client};
use jetway::message::Subject;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Backend, NatsServer};

/// One of each.
pub(crate) struct Rig {
    pub(crate) server: NatsServer,
    pub(crate) link: Link,
    pub(crate) backend: Backend,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let server = NatsServer::start().await;
        let link = link(&server.url()).await;
        let backend = Backend::connect(&server.url()).await;
        Self {
            server,
            link,
            backend,
        }
    }

    /// A stream that takes `subjects`, with these further keys of the API.
    pub(crate) async fn stream(&self, name: &str, subjects: &[&str], more: Value) {
        create(&self.backend, name, subjects, more).await;
    }

    /// A bucket as the gateway declares them.
    pub(crate) async fn bucket(&self, name: &str, more: Value) {
        let mut config = json!({
            "max_msgs_per_subject": 1, "discard": "new", "allow_rollup_hdrs": true, "deny_delete": true,
            "allow_msg_ttl": true, "subject_delete_marker_ttl": 5_000_000_000_u64,
        });
        merge(&mut config, more);
        let subjects = format!("$KV.{name}.>");
        self.stream(&format!("KV_{name}"), &[&subjects], config)
            .await;
    }

    pub(crate) async fn delete_stream(&self, name: &str) {
        self.backend.jetstream.delete_stream(name).await.unwrap();
    }

    pub(crate) fn server_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.server.port()).into()
    }

    /// The last sequence of a stream.
    pub(crate) async fn last(&self, stream: &str) -> u64 {
        let stream: stream::Stream = self.backend.stream(stream).await;
        stream.cached_info().state.last_sequence
    }
}

/// The gateway's connection.
pub(crate) async fn link(url: &str) -> Link {
    let config = client::Config {
        url: url.to_owned(),
        ..client::Config::default()
    };
    Link::connect(&config).await.unwrap()
}

pub(crate) async fn create(backend: &Backend, name: &str, subjects: &[&str], more: Value) {
    let mut config = json!({ "name": name, "subjects": subjects, "allow_direct": true });
    merge(&mut config, more);
    let api = format!("$JS.API.STREAM.CREATE.{name}");
    let answer = backend.request(&api, config.to_string()).await;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert!(answer["error"].is_null(), "{answer}");
}

fn merge(config: &mut Value, more: Value) {
    if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
        config.extend(more);
    }
}

pub(crate) fn subjects(filters: &[&str]) -> Vec<Subject> {
    filters
        .iter()
        .map(|filter| Subject::from(*filter))
        .collect()
}

/// Compiles only if all of this may be awaited by a task that moves between threads.
#[expect(dead_code, reason = "it is there to be compiled")]
fn may_be_spawned(bucket: Bucket, reader: Reader, link: Link) {
    JoinSet::new().spawn(async move {
        drop(bucket.get("").await);
        drop(bucket.put("", "".into(), Expect::Any, None).await);
        drop(bucket.delete("", Expect::Any, Duration::ZERO).await);
        drop(bucket.scan("").next_page().await);
        drop(bucket.watch("").await.unwrap().next().await);
        drop(reader.at(1).await);
        drop(reader.last(&[], 1).await);
        drop(reader.remove(1).await);
        drop(reader.last_on("").await);
        drop(reader.purge("", 1).await);
        drop(reader.backlog(Vec::new(), 0, 1).next_page().await);
        let (mut feed, _) = Feed::start(&link, "", &[]).await.unwrap();
        drop(feed.next().await);
    });
}
