//! What a client does with each packet of a gateway.

use jetway::mqtt::{Ack, Packet, PacketId, Publish, QoS, ReasonCode, Suback};

use super::client::{Asked, Client};
use super::connection::Connection;
use super::journal::Event;

impl Client {
    /// Handles a packet from the gateway, and answers it.
    pub(crate) fn handle(&mut self, connection: &mut Connection, packet: Packet) {
        match packet {
            Packet::Publish(publish) => self.handle_publish(connection, &publish),
            Packet::Pubrel(ack) => {
                self.received.remove(&ack.packet_id.get());
                let ack = Ack::new(ack.packet_id, ReasonCode::Success);
                self.answer(connection, Packet::Pubcomp(ack));
            }
            Packet::Puback(ack) => self.handle_acknowledged(&ack, QoS::AtLeastOnce),
            Packet::Pubrec(ack) => {
                self.handle_acknowledged(&ack, QoS::ExactlyOnce);
                if !ack.reason.is_error() {
                    let ack = Ack::new(ack.packet_id, ReasonCode::Success);
                    connection.send(&Packet::Pubrel(ack));
                }
            }
            Packet::Pubcomp(ack) => self.handle_completed(&ack),
            Packet::Suback(suback) => self.handle_suback(&suback),
            Packet::Unsuback(unsuback) => match self.link.asked.remove(&unsuback.packet_id.get()) {
                Some(Asked::Unsubscribe(wish)) => drop(self.note(Event::Unsubscribed { wish })),
                _ => self.wrong(format!("{unsuback:?} unasked for")),
            },
            Packet::Disconnect(disconnect) => {
                self.link.goodbye = Some(format!("{:?}", disconnect.reason));
            }
            packet => self.wrong(format!("{packet:?}")),
        }
    }

    fn handle_suback(&mut self, suback: &Suback) {
        let Some(Asked::Subscribe(wishes)) = self.link.asked.remove(&suback.packet_id.get()) else {
            return self.wrong(format!("{suback:?} unasked for"));
        };
        let granted = |number: &usize| match self.character.wishes[*number].qos {
            QoS::AtMostOnce => ReasonCode::Success,
            QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
            QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
        };
        let expected: Vec<_> = wishes.iter().map(granted).collect();
        let error = suback.reasons != expected;
        self.note(Event::Subscribed { wishes, error });
    }

    fn handle_publish(&mut self, connection: &mut Connection, publish: &Publish) {
        let payload = std::str::from_utf8(&publish.payload).unwrap();
        let text = payload.split(' ').next().unwrap_or_default().to_owned();
        let packet_id = publish.packet_id.map_or(0, PacketId::get);
        let known = self.received.get(&packet_id);
        let again = publish.qos == QoS::ExactlyOnce
            && known.is_some_and(|known| *known == text || publish.retain && publish.dup);
        // A retained one that is sent again is the one of then, which may be another.
        let other = known.filter(|known| **known != text && !(publish.retain && publish.dup));
        let other = other.cloned();
        self.note(Event::Received {
            text: text.clone(),
            topic: publish.topic.to_string(),
            qos: publish.qos,
            retain: publish.retain,
            packet_id,
            dup: publish.dup,
            again,
        });
        if let Some(other) = other {
            self.wrong(format!(
                "packet identifier {packet_id} of {text} waits for the PUBREL of {other}"
            ));
        }
        let Some(packet_id) = publish.packet_id else {
            return;
        };
        self.link.unanswered += 1;
        let maximum = self.link.receive_maximum.map_or(65_535, usize::from);
        if self.link.unanswered > maximum {
            self.wrong(format!("more than Receive Maximum {maximum}"));
        }
        let ack = Ack::new(packet_id, ReasonCode::Success);
        match publish.qos {
            QoS::ExactlyOnce => {
                self.received.insert(packet_id.get(), text);
                self.answer(connection, Packet::Pubrec(ack));
            }
            _ => self.answer(connection, Packet::Puback(ack)),
        }
    }

    fn handle_acknowledged(&mut self, ack: &Ack, qos: QoS) {
        let position = self
            .unacknowledged
            .iter()
            .position(|waiting| waiting.packet_id == ack.packet_id && waiting.publish.qos == qos);
        let Some(position) = position else {
            return self.wrong(format!("{ack:?} unasked for"));
        };
        let error = ack.reason.is_error();
        let waiting = &mut self.unacknowledged[position];
        let first = !std::mem::replace(&mut waiting.released, true);
        let text = waiting.text.clone();
        if qos == QoS::AtLeastOnce || error {
            self.unacknowledged.remove(position);
        }
        if first {
            self.note(Event::Acknowledged { text, error });
        }
    }

    fn handle_completed(&mut self, ack: &Ack) {
        let position = self
            .unacknowledged
            .iter()
            .position(|waiting| waiting.packet_id == ack.packet_id && waiting.released);
        match position {
            Some(position) if !ack.reason.is_error() => {
                let text = self.unacknowledged.remove(position).text;
                self.note(Event::Completed { text });
            }
            _ => self.wrong(format!("{ack:?} (PUBCOMP) unasked for")),
        }
    }

    pub(crate) fn answer(&mut self, connection: &mut Connection, packet: Packet) {
        if let Some(held) = &mut self.link.mute {
            return held.push(packet);
        }
        if matches!(packet, Packet::Puback(_) | Packet::Pubcomp(_)) {
            self.link.unanswered = self.link.unanswered.saturating_sub(1);
        }
        connection.send(&packet);
    }
}
