//! What a push consumer without acknowledgements sends: messages that it counts, heartbeats, flow control. Pure.

use async_nats::StatusCode;

use super::Stored;

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The next message.
    Message(Stored),
    /// Heartbeat or flow control, with the subject on which an answer is wanted.
    Alive(Option<String>),
    /// Something is missing, or the consumer is gone.
    Broken,
}

impl Delivery {
    /// `delivered`: how many messages the consumer has delivered so far, which a message raises.
    pub(super) fn read(message: async_nats::Message, delivered: &mut u64) -> Self {
        match message.status {
            None => {}
            Some(StatusCode::IDLE_HEARTBEAT) => return Self::alive(&message, *delivered),
            // The consumer was deleted, or what delivers it is shut down.
            Some(_) => return Self::Broken,
        }
        match Stored::delivered(message) {
            Some((number, stored)) if number == *delivered + 1 => {
                *delivered = number;
                Self::Message(stored)
            }
            _ => Self::Broken,
        }
    }

    /// A heartbeat says what was delivered last, and on which subject the server waits for flow control that got lost.
    fn alive(message: &async_nats::Message, delivered: u64) -> Self {
        let headers = message.headers.as_ref();
        let header = |name: &str| Some(headers?.get_last(name)?.as_str());
        if let Some(last) = header("Nats-Last-Consumer")
            && last.parse() != Ok(delivered)
        {
            return Self::Broken;
        }
        let stalled = header("Nats-Consumer-Stalled").map(str::to_owned);
        Self::Alive(message.reply.as_ref().map(ToString::to_string).or(stalled))
    }
}

#[cfg(test)]
mod tests {
    use async_nats::HeaderMap;

    use super::*;

    fn message(
        status: Option<u16>,
        reply: Option<&str>,
        header: Option<(&str, &str)>,
    ) -> async_nats::Message {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value);
        }
        async_nats::Message {
            subject: "s".into(),
            reply: reply.map(Into::into),
            payload: "x".into(),
            headers: Some(headers),
            status: status.map(|code| code.try_into().unwrap()),
            description: None,
            length: 0,
        }
    }

    #[test]
    fn a_message_that_is_not_the_next_one_is_a_gap() {
        let mut delivered = 0;
        let mut read = |number: u64| {
            let reply = format!(
                "$JS.ACK.S.C.1.{}.{number}.1700000000000000000.0",
                number * 10
            );
            match Delivery::read(message(None, Some(&reply), None), &mut delivered) {
                Delivery::Message(stored) => Some(stored.sequence),
                _ => None,
            }
        };
        assert_eq!(read(1), Some(10));
        assert_eq!(read(2), Some(20));
        assert_eq!(read(4), None);
        assert_eq!(read(2), None);
        assert_eq!(read(3), Some(30));
        let unreadable = Delivery::read(message(None, None, None), &mut delivered);
        assert_eq!(unreadable, Delivery::Broken);
    }

    #[test]
    fn a_heartbeat_tells_what_is_missing_and_what_the_server_waits_for() {
        let read = |reply, header| Delivery::read(message(Some(100), reply, header), &mut 7);
        let last = |number| Some(("Nats-Last-Consumer", number));
        assert_eq!(read(None, last("7")), Delivery::Alive(None));
        assert_eq!(read(None, last("8")), Delivery::Broken);
        let answer = |subject: &str| Delivery::Alive(Some(subject.to_owned()));
        assert_eq!(read(Some("fc"), None), answer("fc"));
        let stalled = Some(("Nats-Consumer-Stalled", "fc"));
        assert_eq!(read(None, stalled), answer("fc"));
    }

    #[test]
    fn another_status_ends_the_consumer() {
        let deleted = Delivery::read(message(Some(409), None, None), &mut 7);
        assert_eq!(deleted, Delivery::Broken);
    }
}
