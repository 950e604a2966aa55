//! A node's shares, their members, and the service that sends.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_nats::jetstream::stream;
use jetway::device::DeviceId;
use jetway::downlink::{Leave, Metrics, Share, SharedSubscription, Shares, Source};
use jetway::jetstream::{Link, client};
use jetway::mapping::{Mapping, Settings};
use jetway::mqtt::TopicFilter;
use jetway::registry::{Limit, Mail, Mailbox};
use jetway::tasks::Tasks;
use jetway::telemetry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::support::{Backend, NatsServer, eventually, within};

pub(crate) const STREAM: &str = "DEVICE_DOWN";

/// A shared subscription to the properties of all devices of a product.
pub(crate) fn filter() -> TopicFilter {
    let text = "$share/workers/$thing/down/property/+/+";
    TopicFilter::try_from(bytestring::ByteString::from(text)).unwrap()
}

/// The delivery stream and the bucket of sessions, empty.
pub(crate) async fn backend(server: &NatsServer) -> Backend {
    let backend = Backend::connect(&server.url()).await;
    let config = stream::Config {
        name: STREAM.to_owned(),
        subjects: vec!["device.down.mqtt.*.*.*".to_owned()],
        ..stream::Config::default()
    };
    backend.jetstream.create_stream(config).await.unwrap();
    let config = stream::Config {
        name: "KV_jetway_sessions".to_owned(),
        subjects: vec!["$KV.jetway_sessions.>".to_owned()],
        max_messages_per_subject: 1,
        discard: stream::DiscardPolicy::New,
        deny_delete: true,
        allow_direct: true,
        allow_message_ttl: true,
        ..stream::Config::default()
    };
    backend.jetstream.create_stream(config).await.unwrap();
    backend
}

/// Sends `count` properties with the texts `<first>` and up; gives the last sequence.
pub(crate) async fn send(backend: &Backend, texts: std::ops::Range<u32>, headers: &[(&str, &str)]) {
    for text in texts {
        let subject = format!("device.down.mqtt.thing.p.d{}", text % 7);
        let headers = [&[("Jw-Type", "property")], headers].concat();
        backend.publish(&subject, &headers, text.to_string()).await;
    }
}

/// The consumers of the stream: their names.
pub(crate) async fn consumers(backend: &Backend) -> Vec<String> {
    let subject = format!("$JS.API.CONSUMER.NAMES.{STREAM}");
    let answer = backend.request(&subject, "").await;
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
    let names = answer["consumers"].as_array().into_iter().flatten();
    names
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

/// What is marked of shares: the keys.
pub(crate) async fn marks(backend: &Backend) -> Vec<String> {
    let filter = "$KV.jetway_sessions.*.*.*";
    let marks = backend.messages("KV_jetway_sessions", filter).await;
    let set = marks
        .into_iter()
        .filter(|mark| mark.header("KV-Operation").is_empty());
    set.map(|mark| mark.subject).collect()
}

/// Waits until so many nodes and sessions that are stored are known to have the share.
pub(crate) async fn are_marked(backend: &Backend, holders: usize) {
    eventually("all nodes can know", async || {
        let marks = marks(backend).await;
        match marks.len() == holders {
            true => Ok(()),
            false => Err(format!("{marks:?}")),
        }
    })
    .await;
}

/// The session of a device that is away is over by its expiry: nobody says so.
pub(crate) async fn expire(backend: &Backend, device: &str) {
    let purge = "$JS.API.STREAM.PURGE.KV_jetway_sessions";
    let session = format!(r#"{{"filter":"$KV.jetway_sessions.p.{device}"}}"#);
    backend.request(purge, session).await;
}

pub(crate) struct Node {
    shares: Shares<Share>,
    tasks: Tasks,
}

impl Node {
    pub(crate) async fn start(server: &NatsServer) -> Self {
        let config = client::Config {
            url: server.url(),
            ..client::Config::default()
        };
        let link = Link::connect(&config).await.unwrap();
        let mapping = Arc::new(Mapping::load(&Settings::default(), None).unwrap());
        let tasks = Tasks::new(CancellationToken::new());
        let source = Source {
            node: format!("{:016x}", telemetry::random_u64()).into(),
            stream: STREAM.into(),
            inactive_threshold: Duration::from_secs(3600),
            // No feed, so there is nothing to wait for.
            passed: watch::Sender::new(u64::MAX).subscribe(),
        };
        let shares = Shares::new(link, mapping, Metrics::default(), tasks.clone(), source);
        Self { shares, tasks }
    }

    /// A new member with a session that ends with its connection, subscribed at the stream's end.
    pub(crate) async fn join(&self, backend: &Backend) -> Member {
        let member = Member::new("d", 1_000);
        let subscription = subscription(backend).await;
        self.shares.join(subscription, &member.0, false);
        member
    }

    /// The same with room for so many messages.
    pub(crate) async fn join_with_room(&self, backend: &Backend, messages: u32) -> Member {
        let member = Member::new("d", messages);
        let subscription = subscription(backend).await;
        self.shares.join(subscription, &member.0, false);
        member
    }

    /// A device with a session that is stored.
    pub(crate) async fn join_stored(&self, backend: &Backend, device: &str) -> Member {
        let session = format!("$KV.jetway_sessions.p.{device}");
        backend.publish(&session, &[], "session").await;
        let member = Member::new(device, 1_000);
        let subscription = subscription(backend).await;
        self.shares.join(subscription, &member.0, true);
        member
    }

    /// The session of a device that is away ends.
    pub(crate) async fn forget(&self, backend: &Backend, device: &str) {
        let device = DeviceId::new("p", device).unwrap();
        self.shares.forget(subscription(backend).await, &device);
    }

    /// The member leaves, and what it has is dropped.
    pub(crate) fn leave(&self, member: Member, leave: Leave) {
        self.shares.leave(&filter(), &member.0, leave);
    }

    /// Returns when no share has a task here.
    pub(crate) async fn rests(&self) {
        eventually("no share is served", async || match self.tasks.len() {
            0 => Ok(()),
            tasks => Err(format!("{tasks} tasks")),
        })
        .await;
    }
}

async fn subscription(backend: &Backend) -> SharedSubscription {
    let stream = backend.stream(STREAM).await;
    SharedSubscription {
        filter: filter(),
        subjects: vec!["device.down.mqtt.thing.*.*".into()],
        position: stream.cached_info().state.last_sequence,
    }
}

#[derive(Clone)]
pub(crate) struct Member(pub(crate) Arc<Mailbox<Share>>);

impl Member {
    fn new(device: &str, messages: u32) -> Self {
        let bytes = 1 << 20;
        let limit = Limit { messages, bytes };
        let device = DeviceId::new("p", device).unwrap();
        Self(Arc::new(Mailbox::new(device, limit)))
    }

    /// What is in the mailbox now.
    pub(crate) async fn take(&self) -> Option<Share> {
        let now = poll_fn(|context| match self.0.poll_mail(context, true) {
            Poll::Ready(Mail::Message(share)) => Poll::Ready(Some(share)),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => Poll::Ready(None),
        });
        now.await
    }

    /// The next message.
    pub(crate) async fn next(&self) -> Share {
        let next = poll_fn(|context| match self.0.poll_mail(context, true) {
            Poll::Ready(Mail::Message(share)) => Poll::Ready(share),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => Poll::Pending,
        });
        within("a share", next).await
    }
}

/// The text that was sent.
pub(crate) fn text(share: &Share) -> u32 {
    let payload = std::str::from_utf8(&share.downlink.payload).unwrap();
    payload.parse().unwrap()
}

/// Takes and acknowledges what comes to the members until all `expected` texts have come; gives how many each had.
pub(crate) async fn collect(members: &[&Member], expected: std::ops::Range<u32>) -> Vec<usize> {
    let mut counts = vec![0; members.len()];
    let mut came: Vec<u32> = Vec::new();
    eventually("all messages came", async || {
        for (member, count) in members.iter().zip(&mut counts) {
            while let Some(share) = member.take().await {
                came.push(text(&share));
                share.token.ack();
                *count += 1;
            }
        }
        match came.len() >= expected.len() {
            true => Ok(()),
            false => Err(format!("{} came", came.len())),
        }
    })
    .await;
    came.sort_unstable();
    let expected: Vec<_> = expected.collect();
    assert_eq!(came, expected, "each once");
    counts
}
