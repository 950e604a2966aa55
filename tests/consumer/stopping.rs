//! A service that stops finishes what runs, and gives the rest to others at once.

use std::time::Duration;

use jetway::consumer::{Config, Outcome};

use crate::rig::{DURABLE, NEVER, Recorder, Rig, STREAM};

#[tokio::test]
async fn what_runs_is_finished_and_the_rest_is_given_back() {
    let rig = Rig::start(NEVER).await;
    let recorder = Recorder::gated("first");
    let mut first = rig.replica(&recorder).await;
    for number in 0..50 {
        rig.publish("d", number).await;
    }
    recorder.gate.add_permits(10);
    // The eleventh runs, the others wait behind it.
    recorder.until_calls(11).await;
    first.shutdown.cancel();
    recorder.gate.add_permits(1);
    first.stopped().await;
    let second = rig.replica(&Recorder::new("second")).await;
    assert_eq!(first.metrics.count(Outcome::Handled), 11);
    assert_eq!(recorder.calls().len(), 11);
    // Nothing comes again by itself here: what was not given back would be missing.
    let mut rows = rig.until_rows(50).await;
    rows.sort_unstable();
    let expected: Vec<_> = (0..50).map(|number| ("d".to_owned(), number)).collect();
    assert_eq!(rows, expected);
    rig.until_done().await;
    assert_eq!(second.metrics.count(Outcome::Duplicate), 0);
    second.stop().await;
}

#[tokio::test]
async fn a_handler_that_does_not_end_in_time_is_abandoned_with_what_it_wrote() {
    let rig = Rig::start(NEVER).await;
    let recorder = Recorder::gated("first");
    let config = Config {
        drain_max: Duration::from_millis(100),
        ..Config::new(STREAM, DURABLE)
    };
    let first = rig.replica_with(&recorder, config).await;
    rig.publish("d", 1).await;
    recorder.until_calls(1).await;
    let returned = first.metrics.clone();
    first.stop().await;
    assert_eq!(returned.count(Outcome::Returned), 1);
    assert_eq!(rig.rows().await, []);
    let second = rig.replica(&Recorder::new("second")).await;
    rig.until_rows(1).await;
    rig.until_done().await;
    second.stop().await;
}

#[tokio::test]
async fn what_has_no_other_try_is_handled_also_while_the_service_stops() {
    // Two tries: the second and the third event spend their first one on a service that stops.
    let rig = Rig::start(NEVER).await;
    let mut advisories = rig.advisories().await;
    let blocked = Recorder::gated("first");
    for number in 0..3 {
        rig.publish("d", number).await;
    }
    for permits in [1, 2] {
        let mut replica = rig.replica(&blocked).await;
        let calls = blocked.calls().len();
        blocked.until_calls(calls + 1).await;
        replica.shutdown.cancel();
        blocked.gate.add_permits(permits);
        replica.stopped().await;
    }
    rig.until_rows(3).await;
    rig.until_done().await;
    rig.publish_as("d", "end").await;
    let replica = rig.replica(&blocked).await;
    // The first message that is given up is the one that is no event.
    assert_eq!(advisories.next(&rig.backend).await.0, "terminated");
    replica.stop().await;
}

#[tokio::test]
async fn a_service_stops_while_nats_is_away() {
    let mut rig = Rig::start(NEVER).await;
    let recorder = Recorder::new("only");
    let replica = rig.replica(&recorder).await;
    rig.publish("d", 1).await;
    rig.until_rows(1).await;
    rig.until_done().await;
    rig.server.kill9().await;
    replica.stop().await;
}
