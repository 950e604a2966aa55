//! A source that hangs, answers late, fails and comes back: nobody is denied for it (G24), nobody waits for long.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::*;
use crate::auth::denied::Denied;
use crate::device::DeviceId;

const LIMIT: Duration = Duration::from_millis(100);

fn limits(inflight_max: usize) -> Limits {
    Limits {
        timeout_ms: 100,
        inflight_max,
        breaker_failures: 3,
        cache_entries_max: 100,
        ..Limits::default()
    }
}

fn gate(inflight_max: usize) -> Gate {
    Gate::new(&limits(inflight_max))
}

fn accepted(expires_ms: Option<u64>) -> Verdict {
    let mut decision = Decision::of(DeviceId::new("p", "d").unwrap());
    decision.expires_ms = expires_ms;
    Verdict::Accept(decision)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("p&d{number}")).collect()
}

fn is_timeout(outcome: &Result<Verdict, Unavailable>) -> bool {
    matches!(outcome, Err(Unavailable::Timeout(LIMIT)))
}

fn is_broken(outcome: &Result<Verdict, Unavailable>) -> bool {
    matches!(outcome, Err(Unavailable::Broken))
}

#[tokio::test]
async fn g24_a_source_that_hangs_is_unavailable_in_time_then_at_once_and_recovers() {
    const SECOND: Duration = Duration::from_secs(1);
    let gate = Gate::new(&Limits {
        timeout_ms: 1_000,
        ..limits(64)
    });
    let (now, begun) = (Instant::now(), Instant::now());
    let names = names(300);
    let hung = names.iter().map(|name| async {
        let attempt = Attempt::of(name);
        gate.ask(now, &attempt, |room| async move {
            let _room = room;
            pending().await
        })
        .await
    });
    // 300 logins at 64 a time would be five time limits one after the other.
    let outcomes = join_all(hung).await;
    assert!(begun.elapsed() < SECOND * 4, "{:?}", begun.elapsed());
    assert!(outcomes.iter().all(|outcome| matches!(
        outcome,
        Err(Unavailable::Timeout(SECOND) | Unavailable::Broken)
    )));
    // Now it is not waited for at all ...
    let again = Instant::now();
    let attempt = Attempt::of("p&d");
    let outcome = gate.ask(again, &attempt, |_room| pending()).await;
    assert!(is_broken(&outcome), "{outcome:?}");
    // ... until one login finds that it is back, which is enough for all.
    let later = Instant::now() + Duration::from_secs(2);
    for name in &names {
        let answer = || ready(Ok(accepted(None)));
        let outcome = gate.ask(later, &Attempt::of(name), |_room| answer()).await;
        assert!(matches!(outcome, Ok(Verdict::Accept(_))), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_source_that_fails_is_asked_by_one_login_at_a_time() {
    let (gate, now) = (gate(64), Instant::now());
    let asked = AtomicUsize::new(0);
    let fails = || {
        asked.fetch_add(1, Ordering::Relaxed);
        ready(Err(Unavailable::Source("broken".into())))
    };
    let attempt = Attempt::of("p&d");
    for _ in 0..10 {
        assert!(gate.ask(now, &attempt, |_room| fails()).await.is_err());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let later = Instant::now() + Duration::from_secs(2);
    for _ in 0..10 {
        assert!(gate.ask(later, &attempt, |_room| fails()).await.is_err());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn the_same_attempt_is_asked_about_once_while_it_is_remembered() {
    let (gate, now) = (gate(64), Instant::now());
    let (asked, answer) = (AtomicUsize::new(0), Notify::new());
    let denied = Verdict::Deny(Denied::UnknownDevice);
    let attempt = Attempt::of("p&d");
    let ask = |now| {
        gate.ask(now, &attempt, |_room| async {
            asked.fetch_add(1, Ordering::Relaxed);
            answer.notified().await;
            Ok(denied.clone())
        })
    };
    let logins = join_all((0..50).map(|_| ask(now)));
    let (outcomes, ()) = tokio::join!(logins, async { answer.notify_one() });
    assert!(
        outcomes
            .into_iter()
            .all(|outcome| outcome.unwrap() == denied)
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    answer.notify_one();
    assert!(ask(now + Duration::from_secs(4)).await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(ask(now + Duration::from_secs(5)).await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_accepted_login_is_remembered_for_no_longer_than_it_is_valid() {
    let (gate, now) = (gate(64), Instant::now());
    let attempt = Attempt::of("p&d");
    let soon = accepted(Some(telemetry::now_unix_ms() + 10_000));
    let first = gate
        .ask(now, &attempt, |_room| ready(Ok(soon.clone())))
        .await;
    assert_eq!(first.unwrap(), soon);
    let denied = || ready(Ok(Verdict::Deny(Denied::Disabled)));
    let before = gate
        .ask(now + Duration::from_secs(9), &attempt, |_room| denied())
        .await;
    assert_eq!(before.unwrap(), soon);
    let behind = gate
        .ask(now + Duration::from_secs(11), &attempt, |_room| denied())
        .await;
    assert_eq!(behind.unwrap(), Verdict::Deny(Denied::Disabled));
}

#[tokio::test]
async fn logins_that_are_given_up_early_and_missing_keys_break_nothing() {
    let (gate, now) = (gate(1), Instant::now());
    let attempt = Attempt::of("p&d");
    for _ in 0..10 {
        let mut login = Box::pin(gate.ask(now, &attempt, |_room| pending()));
        assert!(futures_util::poll!(&mut login).is_pending());
        drop(login);
        let keys = gate
            .ask(now, &attempt, |_room| ready(Err(Unavailable::Keys)))
            .await;
        assert!(matches!(keys, Err(Unavailable::Keys)));
    }
    let outcome = gate
        .ask(now, &attempt, |_room| ready(Ok(accepted(None))))
        .await;
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn waiting_for_room_is_no_failure_of_the_source() {
    let (gate, now) = (gate(1), Instant::now());
    let (kept, names) = (std::sync::Mutex::new(None), names(10));
    // One question keeps its room although its login has its answer, as a computation does that cannot be cancelled.
    let first = Attempt::of("p&first");
    let first = gate.ask(now, &first, |room| {
        *kept.lock().unwrap() = Some(room);
        ready(Ok(accepted(None)))
    });
    assert!(first.await.is_ok());
    let waiting = names.iter().map(|name| async {
        let attempt = Attempt::of(name);
        gate.ask(now, &attempt, |_room| ready(Ok(accepted(None))))
            .await
    });
    assert!(join_all(waiting).await.iter().all(is_timeout));
    drop(kept.lock().unwrap().take());
    let attempt = Attempt::of("p&d");
    let outcome = gate
        .ask(now, &attempt, |_room| ready(Ok(accepted(None))))
        .await;
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn the_cache_is_bounded_and_tells_attempts_apart() {
    let (gate, now) = (gate(64), Instant::now());
    for name in names(2_000) {
        let outcome = gate
            .ask(now, &Attempt::of(&name), |_room| ready(Ok(accepted(None))))
            .await;
        assert!(outcome.is_ok());
    }
    assert!(gate.cache.len() <= 100);
    let attempt = |username, password: Option<&'static str>| Attempt {
        username,
        password: password.map(str::as_bytes),
        ..Attempt::of("c")
    };
    let keys = [
        attempt(None, None),
        attempt(Some(""), None),
        attempt(None, Some("")),
        attempt(Some("ab"), Some("c")),
        attempt(Some("a"), Some("bc")),
        Attempt {
            listener: "127.0.0.1:8883",
            ..Attempt::of("c")
        },
        Attempt {
            peer: Some(([127, 0, 0, 1], 1).into()),
            ..Attempt::of("c")
        },
    ]
    .map(|attempt| gate.key(&attempt));
    let different: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(different.len(), keys.len());
}

#[test]
fn limits_of_nothing_are_faults() {
    assert_eq!(Limits::default().validate(), Vec::<String>::new());
    let limits = Limits {
        timeout_ms: 0,
        breaker_failures: 0,
        ..Limits::default()
    };
    let faults = limits.validate();
    assert_eq!(faults.len(), 2);
    assert!(faults[0].starts_with("limits.timeout_ms: expected"));
}
