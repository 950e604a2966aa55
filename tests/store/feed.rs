//! The feed: every stored message once and in order, whatever happens to the server, the stream or the connection.

use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use jetway::jetstream::{Fed, Feed};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::rig::{Rig, create, subjects};
use crate::support::{DEADLINE, FaultProxy, NatsCluster, eventually, lasting, within};

/// How long a feed may stand still: a cluster that lost a server elects its leader and the stream's, one after the other.
const ELECTIONS_MAX: Duration = Duration::from_secs(4 * DEADLINE.as_secs());

async fn message(feed: &mut Feed) -> (u64, String) {
    let fed = timeout(ELECTIONS_MAX, feed.next()).await;
    match fed.expect("a message of the feed") {
        Fed::Message(stored) => {
            let text = String::from_utf8(stored.message.payload.to_vec()).unwrap();
            (stored.sequence, text)
        }
        reset => panic!("expected a message, found {reset:?}"),
    }
}

async fn assert_follows(feed: &mut Feed, sequences: std::ops::RangeInclusive<u64>) {
    for expected in sequences {
        assert_eq!(message(feed).await.0, expected);
    }
}

#[tokio::test]
async fn it_begins_with_what_comes_after_its_start() {
    let rig = Rig::start().await;
    rig.stream("S", &["s.>"], json!({})).await;
    rig.backend.publish("s.a", &[], "before").await;
    let filters = subjects(&["s.a", "s.b.*"]);
    let (mut feed, position) = Feed::start(&rig.link, "S", &filters).await.unwrap();
    assert_eq!(position, 1);
    rig.backend
        .publish("s.other", &[], "no filter has it")
        .await;
    let headers = [("Name", "value"), ("Nats-Sequence", "99")];
    rig.backend.publish("s.b.c", &headers, "after").await;
    let Fed::Message(stored) = within("a message", feed.next()).await else {
        panic!("the stream is the same");
    };
    assert_eq!((stored.sequence, &*stored.message.subject), (3, "s.b.c"));
    let header = |name| stored.message.headers.get(name);
    assert_eq!(header("Name"), Some("value"));
    assert_eq!(header("Nats-Sequence"), Some("3"));
    assert_eq!(header("Nats-Subject"), Some("s.b.c"));
}

#[tokio::test]
async fn a_missing_stream_is_an_error_at_the_start() {
    let rig = Rig::start().await;
    let started = Feed::start(&rig.link, "NONE", &subjects(&["s.>"])).await;
    let error = started.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("stream not found"), "{error}");
}

/// Publishes until each of `count` messages is acknowledged; what had no answer is tried again, so a text may be
/// stored twice.
async fn publish_all(url: String, subject: &'static str, count: usize) {
    let options = async_nats::ConnectOptions::new();
    let options = options.request_timeout(Some(Duration::from_millis(300)));
    let servers: Vec<&str> = url.split(',').collect();
    let client = options.connect(servers).await.unwrap();
    for number in 0..count {
        let deadline = Instant::now() + ELECTIONS_MAX;
        loop {
            let sent = client.request(subject, number.to_string().into()).await;
            let stored = sent.is_ok_and(|answer| {
                let ack: Value = serde_json::from_slice(&answer.payload).unwrap();
                ack["error"].is_null()
            });
            if stored {
                break;
            }
            assert!(Instant::now() < deadline, "message {number} is not taken");
        }
    }
}

#[tokio::test]
async fn a_killed_server_costs_no_message_and_gives_none_twice() {
    let mut rig = Rig::start().await;
    rig.stream("S", &["s"], json!({})).await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    const COUNT: usize = 3_000;
    let mut publishing = JoinSet::new();
    publishing.spawn(publish_all(rig.server.url(), "s", COUNT));
    let mut next = 1;
    for kill_at in [300, 900, 1_500] {
        assert_follows(&mut feed, next..=kill_at).await;
        next = kill_at + 1;
        rig.server.kill9().await;
        rig.server.restart().await;
    }
    let mut last = String::new();
    while last != (COUNT - 1).to_string() {
        let (sequence, text) = message(&mut feed).await;
        assert_eq!(sequence, next);
        (next, last) = (next + 1, text);
    }
    publishing.join_next().await.unwrap().unwrap();
    assert!(next > COUNT as u64);
}

#[tokio::test]
async fn a_connection_that_is_cut_costs_no_message() {
    let rig = Rig::start().await;
    rig.stream("S", &["s"], json!({})).await;
    let proxy = FaultProxy::start(rig.server_address()).await;
    let link = crate::rig::link(&proxy.url()).await;
    let (mut feed, _) = Feed::start(&link, "S", &subjects(&["s"])).await.unwrap();
    let mut publishing = JoinSet::new();
    publishing.spawn(publish_all(rig.server.url(), "s", 2_000));
    for cut_at in 1..=19 {
        assert_follows(&mut feed, (cut_at - 1) * 100 + 1..=cut_at * 100).await;
        match cut_at % 2 {
            0 => proxy.cut(),
            _ => proxy.half_close(),
        }
    }
    assert_follows(&mut feed, 1_901..=2_000).await;
    publishing.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_consumer_that_is_deleted_is_made_anew() {
    let rig = Rig::start().await;
    rig.stream("S", &["s"], json!({})).await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    rig.backend.publish("s", &[], "1").await;
    assert_follows(&mut feed, 1..=1).await;
    let stream = rig.backend.stream("S").await;
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    let [name] = names.as_slice() else {
        panic!("expected one consumer: {names:?}");
    };
    stream.delete_consumer(name).await.unwrap();
    rig.backend.publish("s", &[], "2").await;
    assert_follows(&mut feed, 2..=2).await;
}

#[tokio::test]
async fn purged_messages_are_no_gap() {
    let rig = Rig::start().await;
    rig.stream("S", &["s"], json!({})).await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    for _ in 0..3 {
        rig.backend.publish("s", &[], "").await;
    }
    assert_follows(&mut feed, 1..=3).await;
    rig.backend.stream("S").await.purge().await.unwrap();
    rig.backend.publish("s", &[], "").await;
    assert_follows(&mut feed, 4..=4).await;
}

#[tokio::test]
async fn a_replaced_stream_is_told_and_followed_from_its_first_message() {
    let rig = Rig::start().await;
    rig.stream("S", &["s"], json!({})).await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    for _ in 0..5 {
        rig.backend.publish("s", &[], "old").await;
    }
    assert_follows(&mut feed, 1..=5).await;
    rig.delete_stream("S").await;
    rig.stream("S", &["s"], json!({})).await;
    // More than before: the sequences alone would not tell.
    for _ in 0..7 {
        rig.backend.publish("s", &[], "new").await;
    }
    let reset = within("the reset", feed.next()).await;
    assert_eq!(reset, Fed::Reset(0));
    for sequence in 1..=7 {
        assert_eq!(message(&mut feed).await, (sequence, "new".to_owned()));
    }
}

#[tokio::test]
async fn a_stream_that_vanishes_with_its_server_is_waited_for() {
    let mut rig = Rig::start().await;
    let memory = json!({ "storage": "memory" });
    rig.stream("S", &["s"], memory.clone()).await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    rig.backend.publish("s", &[], "1").await;
    assert_follows(&mut feed, 1..=1).await;
    rig.server.kill9().await;
    rig.server.restart().await;
    let create = async {
        // A server alone forgets what it held in memory, the stream itself too.
        lasting(Duration::from_millis(300)).await;
        rig.stream("S", &["s"], memory).await;
        rig.backend.publish("s", &[], "again").await;
    };
    let (reset, ()) = tokio::join!(within("the reset", feed.next()), create);
    assert_eq!(reset, Fed::Reset(0));
    assert_eq!(message(&mut feed).await, (1, "again".to_owned()));
}

#[tokio::test]
async fn a_flood_waits_until_it_is_taken() {
    let rig = Rig::start().await;
    rig.stream("S", &["s"], json!({ "storage": "memory" }))
        .await;
    let (mut feed, _) = Feed::start(&rig.link, "S", &subjects(&["s"]))
        .await
        .unwrap();
    let publish = async |count: u64| {
        for number in 1..=count {
            // A busy server drops what piles up in front of a stream.
            if number % 1_000 == 0 {
                rig.backend.publish("s", &[], "").await;
            } else {
                rig.backend.client.publish("s", "".into()).await.unwrap();
            }
        }
    };
    // While all is taken in time, the server widens its window.
    tokio::join!(publish(100_000), assert_follows(&mut feed, 1..=100_000));
    publish(150_000).await;
    eventually("all are stored", async || match rig.last("S").await {
        250_000 => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    assert_follows(&mut feed, 100_001..=250_000).await;
}

#[tokio::test]
async fn a_cluster_that_loses_the_leader_costs_no_message() {
    let mut cluster = NatsCluster::start().await;
    let backend = cluster.backend(0).await;
    create(&backend, "S", &["s"], json!({ "num_replicas": 3 })).await;
    let link = crate::rig::link(&cluster.url()).await;
    let (mut feed, _) = Feed::start(&link, "S", &subjects(&["s"])).await.unwrap();
    const COUNT: usize = 600;
    let mut publishing = JoinSet::new();
    publishing.spawn(publish_all(cluster.url(), "s", COUNT));
    assert_follows(&mut feed, 1..=200).await;
    let leader = cluster.leader("S", 0).await;
    cluster.kill9(leader).await;
    let (mut next, mut last) = (201, String::new());
    while last != (COUNT - 1).to_string() {
        let (sequence, text) = message(&mut feed).await;
        assert_eq!(sequence, next);
        (next, last) = (next + 1, text);
    }
    publishing.join_next().await.unwrap().unwrap();
}
