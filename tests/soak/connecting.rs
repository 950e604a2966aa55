//! How the connections of a client begin and end.

use bytes::Bytes;
use bytestring::ByteString;
use jetway::mqtt::{
    Ack, Connack, Connect, ConnectProperties, Disconnect, Packet, ReasonCode, TopicName, Version,
    Will,
};
use tokio::time::Instant;

use super::client::{ANSWER_MAX, Client, Link};
use super::connection::{Connection, Over};
use super::journal::{Ended, Event};
use super::schedule::{End, Life};

impl Client {
    /// Connects to the gateway of this life, or to another one.
    ///
    /// Who wanted a clean start and had no answer has no state any more, and goes on wanting one.
    pub(crate) async fn connect(&mut self, number: u64, life: &mut Life) -> Option<Connection> {
        let nodes = &self.world.nodes;
        let version = self.character.version;
        let mut node = life.node;
        let mut opened = Connection::open(nodes[node], version, life.death).await;
        if opened.is_err() {
            node = (node + 1) % nodes.len();
            opened = Connection::open(nodes[node], version, life.death).await;
        }
        let mut connection = opened.ok()?;
        if self.begins_anew {
            life.begin_anew(version);
        }
        if life.clean {
            self.forget();
            self.begins_anew = true;
        }
        self.link = Link {
            receive_maximum: life.receive_maximum,
            ..Link::default()
        };
        let will = life.will.map(|will| (will.qos, will.delay_s));
        self.note(Event::Connecting {
            life: number,
            node,
            clean: life.clean,
            expiry_s: life.expiry_s,
            will,
        });
        connection.send(&self.connect_packet(number, life));
        match self.connack(&mut connection).await {
            Ok(Some(connack)) if connack.reason == ReasonCode::Success => {
                let present = connack.session_present;
                self.note(Event::Connected { present });
                self.begins_anew = false;
                if !present {
                    self.forget();
                }
                self.resend(&mut connection);
                if connection.dies_handled() {
                    self.over(Over::Died);
                    return None;
                }
                Some(connection)
            }
            Ok(Some(connack)) => {
                let reason = format!("{:?}", connack.reason);
                self.note(Event::Refused { reason });
                None
            }
            Ok(None) => {
                self.wrong("no CONNACK");
                self.over(Over::Died);
                None
            }
            Err(over) => {
                self.over(over);
                None
            }
        }
    }

    async fn connack(&mut self, connection: &mut Connection) -> Result<Option<Connack>, Over> {
        match connection.next(true, Instant::now() + ANSWER_MAX).await? {
            Some(Packet::Connack(connack)) => Ok(Some(connack)),
            Some(packet) => {
                self.wrong(format!("instead of a CONNACK: {packet:?}"));
                Err(Over::Died)
            }
            None => Ok(None),
        }
    }

    fn connect_packet(&self, number: u64, life: &Life) -> Packet {
        let is_v5 = self.character.version == Version::V5;
        let index = self.character.index;
        let will = life.will.map(|will| Will {
            topic: TopicName::try_from(ByteString::from(format!("w/{index}"))).unwrap(),
            payload: Bytes::from(will_text(index, number)),
            qos: will.qos,
            retain: false,
            delay_interval: will.delay_s,
            properties: Default::default(),
        });
        let properties = match is_v5 {
            true => ConnectProperties {
                session_expiry_interval: (life.expiry_s > 0).then_some(life.expiry_s),
                receive_maximum: life.receive_maximum.and_then(|max| max.try_into().ok()),
                ..ConnectProperties::default()
            },
            false => ConnectProperties::default(),
        };
        Packet::Connect(Box::new(Connect {
            version: self.character.version,
            clean_start: life.clean,
            keep_alive: 60,
            client_id: self.character.client_id().into(),
            username: None,
            password: None,
            will,
            properties,
        }))
    }

    fn forget(&mut self) {
        self.unacknowledged.clear();
        self.received.clear();
    }

    /// [MQTT-4.4.0-1]
    fn resend(&mut self, connection: &mut Connection) {
        for at in 0..self.unacknowledged.len() {
            let waiting = &mut self.unacknowledged[at];
            if waiting.released {
                let ack = Ack::new(waiting.packet_id, ReasonCode::Success);
                connection.send(&Packet::Pubrel(ack));
            } else {
                waiting.publish.dup = true;
                let (text, publish) = (waiting.text.clone(), waiting.publish.clone());
                self.send(connection, &text, publish);
            }
        }
    }

    pub(crate) fn over(&mut self, over: Over) {
        let how = match over {
            Over::Lost => Ended::Lost(self.link.goodbye.take()),
            Over::Died => Ended::Dropped,
        };
        self.note(Event::Ended { how });
    }

    /// Ends a connection; gives it back if it is left to the next one.
    pub(crate) async fn end(
        &mut self,
        over: Result<(), Over>,
        end: End,
        mut connection: Connection,
    ) -> Option<Connection> {
        if let Err(over) = over {
            self.over(over);
            return None;
        }
        connection.survive();
        let is_v5 = self.character.version == Version::V5;
        match end {
            End::Stay => {
                self.note(Event::Ended { how: Ended::Left });
                return Some(connection);
            }
            End::DisconnectWithWill if is_v5 => self.disconnect(connection, true).await,
            End::Disconnect => self.disconnect(connection, false).await,
            End::Drop | End::DisconnectWithWill => self.over(Over::Died),
        }
        None
    }

    async fn disconnect(&mut self, mut connection: Connection, will: bool) {
        self.note(Event::Disconnecting { will });
        connection.send(&Packet::Disconnect(Disconnect::new(match will {
            true => ReasonCode::DisconnectWithWillMessage,
            false => ReasonCode::Success,
        })));
        let deadline = Instant::now() + ANSWER_MAX;
        // What comes now is not handled any more.
        while let Ok(Some(_)) = connection.next(true, deadline).await {}
        match (connection.is_flushed(), Instant::now() < deadline) {
            (true, true) => drop(self.note(Event::Ended { how: Ended::Closed })),
            (false, true) => self.over(Over::Lost),
            (_, false) => self.wrong("not closed after DISCONNECT"),
        }
    }
}

/// The text of a Will.
pub(crate) fn will_text(client: usize, life: u64) -> String {
    format!("w{client}.{life}")
}
