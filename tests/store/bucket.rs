//! Buckets: conditions, lost answers, lifetimes, and what a watcher sees.

use std::time::Duration;

use bytes::Bytes;
use jetway::jetstream::Bucket;
use jetway::jetstream::bucket::{Change, Entry, Error, Expect, Watch};
use serde_json::json;

use crate::rig::{Rig, link};
use crate::support::{FaultProxy, eventually, within};

fn value(entry: Option<Entry>) -> Option<(u64, Option<Bytes>)> {
    entry.map(|entry| (entry.revision, entry.value))
}

fn is_conflict(written: &Result<u64, Error>) -> bool {
    matches!(written, Err(Error::Conflict { .. }))
}

#[tokio::test]
async fn a_key_is_written_on_condition_and_read_back() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let bucket = Bucket::new(&rig.link, "b");
    assert_eq!(bucket.get("p.d").await.unwrap(), None);
    assert_eq!(bucket.get_from_leader("p.d").await.unwrap(), None);

    let put =
        async |text: &'static str, expected| bucket.put("p.d", text.into(), expected, None).await;
    assert!(is_conflict(&put("no", Expect::Revision(1)).await));
    assert_eq!(put("one", Expect::Absent).await, Ok(1));
    assert!(is_conflict(&put("no", Expect::Absent).await));
    assert_eq!(put("two", Expect::Revision(1)).await, Ok(2));
    assert!(is_conflict(&put("no", Expect::Revision(1)).await));
    assert_eq!(put("three", Expect::Any).await, Ok(3));

    let stored = Some((3, Some("three".into())));
    assert_eq!(value(bucket.get("p.d").await.unwrap()), stored);
    assert_eq!(value(bucket.get_from_leader("p.d").await.unwrap()), stored);
    assert_eq!(bucket.get("p").await.unwrap(), None);
}

#[tokio::test]
async fn one_of_two_writers_wins_every_time() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let other = link(&rig.server.url()).await;
    let writers = [Bucket::new(&rig.link, "b"), Bucket::new(&other, "b")];
    let mut expected = Expect::Absent;
    for _ in 0..200 {
        let [a, b] = &writers;
        let put = |bucket: &Bucket, text: &'static str| {
            let bucket = bucket.clone();
            async move { bucket.put("k", text.into(), expected, None).await }
        };
        let (a, b) = tokio::join!(put(a, "a"), put(b, "b"));
        let (won, lost, text) = match (a, b) {
            (Ok(won), lost) => (won, lost, "a"),
            (lost, Ok(won)) => (won, lost, "b"),
            both => panic!("expected one winner: {both:?}"),
        };
        assert!(is_conflict(&lost), "{lost:?}");
        let stored = writers[0].get_from_leader("k").await.unwrap();
        assert_eq!(value(stored), Some((won, Some(text.into()))));
        expected = Expect::Revision(won);
    }
}

#[tokio::test]
async fn a_lost_answer_is_no_conflict() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let proxy = FaultProxy::start(rig.server_address()).await;
    let through = Bucket::new(&link(&proxy.url()).await, "b");
    let direct = Bucket::new(&rig.link, "b");
    let mut expected = Expect::Absent;
    for text in ["one", "two", "three"] {
        // What is written stays on its way, the writer is cut off, and only then it arrives.
        proxy.hold();
        let put = through.put("k", text.into(), expected, None);
        let fault = async {
            eventually("the write is on its way", async || match proxy.kept() {
                0 => Err("nothing is kept".to_owned()),
                _ => Ok(()),
            })
            .await;
            proxy.sever();
            proxy.release();
        };
        let (written, ()) = tokio::join!(within("the write", put), fault);
        let revision = written.unwrap();
        let stored = direct.get_from_leader("k").await.unwrap();
        assert_eq!(value(stored), Some((revision, Some(text.into()))));
        expected = Expect::Revision(revision);
    }
}

#[tokio::test]
async fn a_killed_server_only_delays_a_write() {
    let mut rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let bucket = Bucket::new(&rig.link, "b");
    let first = bucket.put("k", "one".into(), Expect::Absent, None).await;
    assert_eq!(first, Ok(1));
    rig.server.kill9().await;
    let put = bucket.put("k", "two".into(), Expect::Revision(1), None);
    let (written, restarted) = tokio::join!(put, async { rig.server.restart().await });
    let () = restarted;
    assert_eq!(written, Ok(2));
    assert_eq!(
        value(bucket.get("k").await.unwrap()),
        Some((2, Some("two".into())))
    );
}

#[tokio::test]
async fn of_a_deleted_key_nothing_is_left() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let bucket = Bucket::new(&rig.link, "b");
    let put = async |key: &'static str| bucket.put(key, "x".into(), Expect::Absent, None).await;
    let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    assert_eq!(put("marked").await, Ok(1));
    let deleted = bucket.delete("marked", Expect::Revision(1), minute).await;
    assert_eq!(deleted, Ok(2));
    assert_eq!(value(bucket.get("marked").await.unwrap()), Some((2, None)));

    assert_eq!(put("k").await, Ok(3));
    let stale = bucket.delete("k", Expect::Revision(7), second).await;
    assert!(is_conflict(&stale));
    assert_eq!(bucket.delete("k", Expect::Revision(3), second).await, Ok(4));
    eventually("only the other marker is left", async || {
        match rig.backend.count("KV_b").await {
            1 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    assert_eq!(bucket.get("k").await.unwrap(), None);
    assert_eq!(put("k").await, Ok(5));
}

async fn change(watch: &mut Watch) -> (String, u64, Option<Bytes>) {
    match within("a change", watch.next()).await {
        Change::Entry(key, entry) => (key, entry.revision, entry.value),
        Change::Reset => panic!("the bucket is the same"),
    }
}

#[tokio::test]
async fn a_watcher_sees_what_is_there_and_then_changes_and_the_end_of_a_lifetime() {
    let rig = Rig::start().await;
    rig.bucket("nodes", json!({})).await;
    let bucket = Bucket::new(&rig.link, "nodes");
    let put = async |key: &str, text: &'static str, ttl| {
        let written = bucket.put(key, text.into(), Expect::Any, ttl).await;
        written.unwrap()
    };
    let one = |key: &str, revision, text: Option<&'static str>| {
        (key.to_owned(), revision, text.map(Bytes::from))
    };
    put("a", "1", None).await;
    put("x.other", "1", None).await;
    put("b", "1", None).await;
    let mut watch = bucket.watch("*").await.unwrap();
    assert_eq!(change(&mut watch).await, one("a", 1, Some("1")));
    assert_eq!(change(&mut watch).await, one("b", 3, Some("1")));
    put("a", "2", None).await;
    assert_eq!(change(&mut watch).await, one("a", 4, Some("2")));
    let minute = Duration::from_secs(60);
    let deleted = bucket.delete("a", Expect::Revision(4), minute).await;
    assert_eq!(deleted, Ok(5));
    assert_eq!(change(&mut watch).await, one("a", 5, None));
    put("b", "2", Some(Duration::from_secs(1))).await;
    let mut last = change(&mut watch).await;
    // Unless its lifetime was over before it could be read.
    if last == one("b", 6, Some("2")) {
        last = change(&mut watch).await;
    }
    assert_eq!(last, one("b", 7, None));
}

#[tokio::test]
async fn a_watcher_is_told_when_its_bucket_is_another_one() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let bucket = Bucket::new(&rig.link, "b");
    let put = bucket.put("k", "1".into(), Expect::Absent, None).await;
    assert_eq!(put, Ok(1));
    let mut watch = bucket.watch(">").await.unwrap();
    assert_eq!(change(&mut watch).await.0, "k");
    rig.delete_stream("KV_b").await;
    rig.bucket("b", json!({})).await;
    let reset = within("the reset", watch.next()).await;
    assert_eq!(reset, Change::Reset);
}

#[tokio::test]
async fn thousands_of_keys_are_scanned_page_by_page() {
    let rig = Rig::start().await;
    rig.bucket("b", json!({})).await;
    let bucket = Bucket::new(&rig.link, "b");
    let empty = bucket.scan(">").next_page().await.unwrap();
    assert_eq!(empty, []);
    for number in 0..3_000 {
        let subject = format!("$KV.b.p.{number}");
        rig.backend
            .client
            .publish(subject, "x".into())
            .await
            .unwrap();
    }
    // Another connection writes what comes behind.
    eventually("all of them are stored", async || {
        match rig.backend.count("KV_b").await {
            3_000 => Ok(()),
            count => Err(count.to_string()),
        }
    })
    .await;
    bucket
        .put("q.1", "y".into(), Expect::Absent, None)
        .await
        .unwrap();
    bucket
        .put("p.5", "z".into(), Expect::Any, None)
        .await
        .unwrap();
    bucket
        .delete("p.6", Expect::Any, Duration::from_secs(60))
        .await
        .unwrap();
    let mut keys = Vec::new();
    let mut scan = bucket.scan("p.*");
    loop {
        let page = scan.next_page().await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 256);
        keys.extend(page);
    }
    assert_eq!(keys.len(), 2_999);
    let (key, entry) = keys.last().unwrap();
    assert_eq!((&**key, entry.value.as_deref()), ("p.5", Some(&b"z"[..])));
}
