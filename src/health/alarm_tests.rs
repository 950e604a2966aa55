//! What a receiver is told, and what not twice.

use super::*;

const REPEAT: Option<Duration> = Some(Duration::from_secs(60));

fn alarm(rule: &str, scope: Scope, count: u64) -> Alarm {
    Alarm {
        rule: rule.to_owned(),
        scope,
        task: "t".to_owned(),
        event: String::new(),
        reason: "r".to_owned(),
        retries: None,
        trace_id: String::new(),
        detail: format!("{count}"),
        count,
    }
}

fn present(alarms: &[Alarm]) -> Present {
    Present {
        alarms: alarms.to_vec(),
        has_cluster: true,
    }
}

fn names(news: &News) -> (Vec<&str>, Vec<&str>) {
    let firing = news.firing.iter().map(|alarm| &*alarm.rule);
    let over = news.over.iter().map(|alarm| &*alarm.rule);
    (firing.collect(), over.collect())
}

#[test]
fn an_alarm_is_told_once_again_when_it_is_worse_and_when_it_is_over() {
    let (mut told, now) = (Told::default(), Instant::now());
    let first = present(&[alarm("a", Scope::Cluster, 1), alarm("b", Scope::Node, 0)]);
    let news = told.news(&first, now, REPEAT);
    assert_eq!(names(&news), (vec!["a", "b"], vec![]));
    told.tell(&news, now);
    assert!(told.news(&first, now, REPEAT).is_empty());
    let worse = present(&[alarm("a", Scope::Cluster, 2)]);
    let news = told.news(&worse, now, REPEAT);
    assert_eq!(names(&news), (vec!["a"], vec!["b"]));
    told.tell(&news, now);
    let news = told.news(&present(&[]), now, REPEAT);
    assert_eq!(names(&news), (vec![], vec!["a"]));
    told.tell(&news, now);
    assert!(told.news(&present(&[]), now, REPEAT).is_empty());
}

#[test]
fn what_lasts_is_told_again_after_the_repeat_time_only() {
    let (mut told, now) = (Told::default(), Instant::now());
    let lasting = present(&[alarm("a", Scope::Node, 0)]);
    told.tell(&told.news(&lasting, now, REPEAT), now);
    let later = now + Duration::from_secs(59);
    assert!(told.news(&lasting, later, REPEAT).is_empty());
    let later = now + Duration::from_secs(60);
    assert_eq!(told.news(&lasting, later, REPEAT).firing.len(), 1);
    assert!(told.news(&lasting, later, None).is_empty());
}

#[test]
fn what_a_receiver_never_heard_of_is_not_told_to_be_over() {
    let told = Told::default();
    let now = Instant::now();
    assert!(
        !told
            .news(&present(&[alarm("a", Scope::Node, 0)]), now, None)
            .is_empty()
    );
    assert!(told.news(&present(&[]), now, None).is_empty());
}

#[test]
fn a_node_that_does_not_tell_for_all_neither_fires_nor_ends_their_alarms() {
    let (mut told, now) = (Told::default(), Instant::now());
    let both = [alarm("a", Scope::Cluster, 1), alarm("b", Scope::Node, 0)];
    told.tell(&told.news(&present(&both), now, None), now);
    let alone = Present {
        alarms: vec![alarm("c", Scope::Cluster, 1)],
        has_cluster: false,
    };
    assert_eq!(names(&told.news(&alone, now, None)), (vec![], vec!["b"]));

    // The next one goes on where it ended.
    let mut next = Told::default();
    next.take_over(told.cluster().into_iter().cloned().collect(), now);
    let news = next.news(&present(&[both[1].clone()]), now, None);
    assert_eq!(names(&news), (vec!["b"], vec!["a"]));
    next.tell(&news, now);
    next.take_over(Vec::new(), now);
    assert!(
        next.news(&present(&[both[1].clone()]), now, None)
            .is_empty()
    );
}
