//! What is not handled climbs the ladder or is given up with a reason, and holds up nothing.

use std::panic::resume_unwind;
use std::time::Duration;

use jetway::consumer::{Config, Failure, Outcome};
use serde_json::json;

use crate::rig::{DURABLE, NEVER, Recorder, Rig, STREAM, event};

#[tokio::test]
async fn a_handler_that_fails_once_is_asked_again_after_the_ladders_first_step() {
    let rig = Rig::start(&[1_000, 600_000]).await;
    let recorder = Recorder::ending(|call| match call.attempt {
        1 if call.number == 1 => Err(Failure::Retry("not now".to_owned())),
        _ => Ok(()),
    });
    let replica = rig.replica(&recorder).await;
    rig.publish("d", 1).await;
    rig.publish("d", 2).await;
    // Nothing of the failed try is kept, and the one behind it does not wait.
    let rows = rig.until_rows(2).await;
    assert_eq!(rows, [("d".to_owned(), 2), ("d".to_owned(), 1)]);
    let calls = recorder.calls();
    let order: Vec<_> = calls
        .iter()
        .map(|call| (call.number, call.attempt))
        .collect();
    assert_eq!(order, [(1, 1), (2, 1), (1, 2)]);
    assert!(calls[2].at - calls[0].at >= Duration::from_millis(900));
    assert_eq!(rig.until_done().await.num_redelivered, 0);
    assert_eq!(replica.metrics.count(Outcome::Handled), 2);
    assert_eq!(replica.metrics.count(Outcome::Failed), 1);
    replica.stop().await;
}

#[tokio::test]
async fn a_handler_that_always_fails_is_given_up_by_the_server_after_the_ladder() {
    // No handling takes a step: the server would give the message again meanwhile.
    const LADDER: [u64; 3] = [1_000, 1_200, 1_400];
    let rig = Rig::start(&LADDER).await;
    let mut advisories = rig.advisories().await;
    let recorder = Recorder::ending(|call| match &*call.device {
        "bad" => Err(Failure::Retry("never".to_owned())),
        _ => Ok(()),
    });
    let replica = rig.replica(&recorder).await;
    rig.publish("bad", 1).await;
    rig.publish("good", 1).await;
    let (kind, _) = advisories.next(&rig.backend).await;
    assert_eq!(kind, "max_deliver");
    let calls = recorder.calls();
    let bad: Vec<_> = calls.iter().filter(|call| call.device == "bad").collect();
    let attempts: Vec<_> = bad.iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    for (pair, step) in bad.windows(2).zip(LADDER) {
        let waited = pair[1].at - pair[0].at;
        // The server's timer is a few milliseconds early.
        assert!(waited >= Duration::from_millis(step) * 9 / 10, "{waited:?}");
    }
    assert_eq!(rig.rows().await, [("good".to_owned(), 1)]);
    rig.until_done().await;
    assert_eq!(replica.metrics.count(Outcome::Failed), 3);
    assert_eq!(replica.metrics.count(Outcome::Dead), 1);
    replica.stop().await;
}

#[tokio::test]
async fn what_is_no_event_or_has_no_handler_is_terminated_with_a_reason() {
    let rig = Rig::start(NEVER).await;
    let mut advisories = rig.advisories().await;
    let recorder = Recorder::ending(|_| Err(Failure::Poison("a\nbad thing".to_owned())));
    let replica = rig.replica(&recorder).await;
    let long = "x".repeat(65);
    for (payload, reason) in [
        ("\u{0}\u{1}{".to_owned(), "no event: "),
        ("[1]".to_owned(), "no event: "),
        (
            event("1", "2.0", json!({})),
            "no handler for event device.property.reported 2.0",
        ),
        (
            event(&long, "1.0", json!({})),
            "event_id: more than 64 bytes",
        ),
        (event("2", "1.0", json!({})), "data: missing field `number`"),
        (event("3", "1.0", json!({"number": 1})), "a bad thing"),
    ] {
        rig.publish_as("d", &payload).await;
        let (kind, said) = advisories.next(&rig.backend).await;
        assert_eq!(kind, "terminated", "{payload}");
        assert!(said.starts_with(reason), "{said}, not {reason}");
    }
    rig.until_done().await;
    assert_eq!(rig.rows().await, []);
    assert_eq!(recorder.calls().len(), 1);
    assert_eq!(replica.metrics.count(Outcome::Dead), 6);
    replica.stop().await;
}

#[tokio::test]
async fn a_handler_that_panics_or_hangs_has_failed() {
    let rig = Rig::start(&[1_000]).await;
    let mut advisories = rig.advisories().await;
    let recorder = Recorder::ending(|call| match call.attempt {
        // Without the backtrace of `panic!` in what the tests print.
        1 => resume_unwind(Box::new("on purpose")),
        _ => Ok(()),
    });
    let replica = rig.replica(&recorder).await;
    rig.publish("d", 1).await;
    rig.until_rows(1).await;
    rig.until_done().await;
    replica.stop().await;

    let hanging = Recorder::gated("hanging");
    let config = Config {
        handling_max: Duration::from_millis(100),
        ..Config::new(STREAM, DURABLE)
    };
    let replica = rig.replica_with(&hanging, config).await;
    rig.publish("d", 2).await;
    assert_eq!(advisories.next(&rig.backend).await.0, "max_deliver");
    assert_eq!(hanging.calls().len(), 2);
    assert_eq!(rig.rows().await.len(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn a_handler_that_runs_longer_than_the_ack_wait_keeps_its_message() {
    let rig = Rig::start(&[2_000]).await;
    let recorder = Recorder::gated("only");
    let replica = rig.replica(&recorder).await;
    rig.publish("d", 1).await;
    recorder.until_calls(1).await;
    crate::support::lasting(Duration::from_secs(5)).await;
    recorder.gate.add_permits(1);
    rig.until_rows(1).await;
    let info = rig.until_done().await;
    // Delivered once: nobody else could have got it.
    assert_eq!(info.delivered.consumer_sequence, 1);
    assert_eq!(recorder.calls().len(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn a_replayed_event_has_its_original_subject_and_the_trace_goes_on() {
    let rig = Rig::start(NEVER).await;
    let recorder = Recorder::new("only");
    let replica = rig.replica(&recorder).await;
    let subject = "application.device.p.d.report.thing.property";
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    rig.backend
        .publish(
            &format!("replay.{DURABLE}.{subject}"),
            &[("traceparent", traceparent)],
            event("1", "1.0", json!({"number": 1})),
        )
        .await;
    rig.publish("d", 2).await;
    let calls = recorder.until_calls(2).await;
    assert_eq!(calls[0].subject, subject);
    let trace = |index: usize| {
        calls[index]
            .traceparent
            .split('-')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    assert_eq!(trace(0), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_ne!(calls[0].traceparent, traceparent);
    // Without a header it is the envelope's.
    assert_eq!(trace(1), "0af7651916cd43dd8448eb211c80319c");
    replica.stop().await;
}
