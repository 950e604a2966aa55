//! What a session subscribes to, and what a message is delivered with.

use std::num::NonZeroU32;

use super::*;

#[test]
fn suback_grants_exactly_what_is_delivered() {
    // [MQTT-3.8.4-1], [MQTT-3.8.4-3], [MQTT-3.8.4-6]
    let now = Instant::now();
    for (version, denied, quota, shared) in [
        (Version::V5, "0x87", "0x97", "0x9e"),
        (Version::V3_1_1, "0x80", "0x80", "0x80"),
    ] {
        let mut session = session(version, now);
        let mut ask = |filter: &str, qos, allowed: bool| {
            session
                .handle_packet(now, Packet::Subscribe(subscribe(filter, qos)))
                .unwrap();
            let Some(Output::Authorize(asked)) = session.poll_output() else {
                panic!("not asked");
            };
            session.handle_authorized(asked, |_| match allowed {
                true => Ok(()),
                false => Err(DENIED),
            });
            outputs(&mut session).join("")
        };
        assert_eq!(ask("a", QoS::AtMostOnce, true), "SUBACK 0x00");
        assert_eq!(ask("b", QoS::ExactlyOnce, true), "SUBACK 0x01");
        assert_eq!(ask("c", QoS::AtLeastOnce, true), format!("SUBACK {quota}"));
        assert_eq!(
            ask("b", QoS::AtMostOnce, true),
            "SUBACK 0x00",
            "replaced, not added"
        );
        assert_eq!(
            ask("d", QoS::AtLeastOnce, false),
            format!("SUBACK {denied}")
        );
        assert_eq!(
            ask("$share/g/a", QoS::AtLeastOnce, true),
            format!("SUBACK {shared}")
        );
    }
}

#[test]
fn a_suback_explains_each_kind_of_refusal_once() {
    let now = Instant::now();
    let mut session = session(Version::V5, now);
    let mut asked = subscribe("a", QoS::AtMostOnce);
    for filter in ["no/1", "$share/g/a", "no/2"] {
        asked
            .filters
            .extend(subscribe(filter, QoS::AtMostOnce).filters);
    }
    session.handle_authorized(asked, |filter| match filter.starts_with("no") {
        true => Err(DENIED),
        false => Ok(()),
    });
    let Some(Output::Send(Packet::Suback(suback))) = session.poll_output() else {
        panic!("no SUBACK");
    };
    let expected = "topic of another device; shared subscriptions are not available";
    assert_eq!(suback.reason_string.as_deref(), Some(expected));
    assert_eq!(suback.reasons.len(), 4);
}

/// Filter, QoS and Subscription Identifier, 0 for none.
type Asked = (&'static str, QoS, u32);

/// A session with these subscriptions, made one after the other.
fn identified(subscriptions: &[Asked]) -> Session {
    let mut config = config();
    config.subscriptions_max = subscriptions.len();
    let agreement = agree(&connect(Version::V5), &config).unwrap();
    let mut session = Session::new(agreement, &config, Instant::now());
    for (filter, qos, identifier) in subscriptions {
        let mut asked = subscribe(filter, *qos);
        asked.identifier = NonZeroU32::new(*identifier);
        session.handle_authorized(asked, |_| Ok(()));
    }
    outputs(&mut session);
    session
}

/// QoS and Subscription Identifiers of what is delivered on the topic `a/b`.
fn delivered(session: &mut Session) -> (QoS, Vec<u32>) {
    let mut message = publish(QoS::AtLeastOnce, 0);
    message.topic = "a/b".into();
    assert_eq!(session.handle_downlink(message, 1), Delivered::Sent);
    let Some(Output::Send(Packet::Publish(publish))) = session.poll_output() else {
        panic!("nothing is delivered");
    };
    assert_eq!(
        session.poll_output(),
        None,
        "overlapping filters deliver once"
    );
    let identifiers = publish.properties.subscription_identifiers;
    let mut identifiers: Vec<_> = identifiers.into_iter().map(NonZeroU32::get).collect();
    identifiers.sort_unstable();
    (publish.qos, identifiers)
}

#[test]
fn a_delivery_has_the_identifiers_of_all_filters_that_match_and_their_highest_qos() {
    // [MQTT-3.3.4-2], [MQTT-3.3.4-3], [MQTT-3.3.4-4]
    const Q0: QoS = QoS::AtMostOnce;
    const Q1: QoS = QoS::AtLeastOnce;
    let cases: [(&[Asked], QoS, &[u32]); 5] = [
        (&[("a/b", Q1, 0)], Q1, &[]),
        (&[("a/b", Q0, 268_435_455)], Q0, &[268_435_455]),
        (
            &[("a/b", Q0, 1), ("a/+", Q1, 2), ("#", Q0, 0), ("c", Q1, 3)],
            Q1,
            &[1, 2],
        ),
        (&[("a/b", Q0, 7), ("a/+", Q0, 7)], Q0, &[7, 7]),
        // [MQTT-3.8.4-3]
        (&[("a/b", Q1, 1), ("a/b", Q0, 2)], Q0, &[2]),
    ];
    for (subscriptions, qos, identifiers) in cases {
        let mut session = identified(subscriptions);
        let found = delivered(&mut session);
        assert_eq!(found, (qos, identifiers.to_vec()), "{subscriptions:?}");
    }
    let mut replaced = identified(&[("a/b", Q1, 1), ("a/b", Q1, 0)]);
    assert_eq!(delivered(&mut replaced), (Q1, vec![]), "and by none");
}
