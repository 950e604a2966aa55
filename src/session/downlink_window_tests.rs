//! Packet identifiers of downlinks: the same after a crash, never in use twice.

use super::*;

fn id(value: u16) -> PacketId {
    PacketId::new(value).unwrap()
}

fn window() -> DownlinkWindow {
    DownlinkWindow::new(3, None, Vec::new(), true)
}

#[test]
fn an_identifier_is_derived_from_the_sequence_or_assigned() {
    let wrap = u64::from(DERIVED_MAX);
    for (behind, derived) in [(1, 1), (2, 2), (wrap, DERIVED_MAX), (wrap + 1, 1)] {
        // Until a first subscription says from where, they are counted from the beginning of the stream.
        for base in [None, Some(0), Some(5), Some(3 * wrap + 7)] {
            let mut window = DownlinkWindow::new(3, base, Vec::new(), true);
            let source = Source::Stream(base.unwrap_or(0) + behind);
            let sent = window.send(source, QoS::AtLeastOnce);
            assert_eq!(sent, (id(derived), true), "{base:?} {behind}");
        }
    }
    let mut window = window();
    let mut send = |source| window.send(source, QoS::AtLeastOnce);
    let first = id(DERIVED_MAX + 1);
    assert_eq!(send(Source::Retained("a".into())), (first, false));
    assert_eq!(send(Source::Stream(7)), (id(7), true));
    assert_eq!(
        send(Source::Backlog(7 + wrap)),
        (id(DERIVED_MAX + 2), false),
        "7 is in use"
    );
    assert_eq!(window.remove(first), Some(Source::Retained("a".into())));
    assert_eq!(window.remove(first), None);
    assert_eq!(
        window.send(Source::Retained("b".into()), QoS::AtLeastOnce),
        (id(DERIVED_MAX + 3), false),
        "the first is not saved as free"
    );
    let sources: Vec<_> = window
        .records()
        .into_iter()
        .map(|record| record.source)
        .collect();
    let stream = |sequence| Source::Stream(sequence);
    assert_eq!(
        sources,
        [stream(7), stream(7 + wrap), Source::Retained("b".into())]
    );
}

#[test]
fn an_identifier_is_not_used_anew_before_it_is_saved_that_it_is_free() {
    let again = || Source::Stream(7 + u64::from(DERIVED_MAX));
    let mut window = window();
    window.send(Source::Stream(7), QoS::ExactlyOnce);
    window.save();
    window.remove(id(7));
    window.saved();
    let (_, derived) = window.send(again(), QoS::ExactlyOnce);
    assert!(!derived, "that write still had it");
    window.save();
    let (_, derived) = window.send(again(), QoS::ExactlyOnce);
    assert!(!derived, "not written yet");
    window.saved();
    let sent = window.send(again(), QoS::ExactlyOnce);
    assert_eq!(sent, (id(7), true));
    // Nothing comes back in a session that is not stored.
    let mut window = DownlinkWindow::new(3, None, Vec::new(), false);
    window.send(Source::Stream(7), QoS::ExactlyOnce);
    window.remove(id(7));
    assert_eq!(window.send(again(), QoS::ExactlyOnce), (id(7), true));
}
