//! rumqttc's two clients, 3.1.1 and 5, as one: what [`Device`](super::Device) is built on.

use rumqttc::mqttbytes::v4;
use rumqttc::v5 as mqtt5;
use rumqttc::v5::mqttbytes::v5;
use rumqttc::{self as mqtt4, Outgoing};

use super::device::{Closed, Connect, Protocol, Publish, Received};
use super::reason;
use super::wait::DEADLINE;

/// Room for what a test hands over before rumqttc sends it.
const REQUESTS_MAX: usize = 100_000;

/// A connected client and the event loop that reads and writes for it.
pub enum Client {
    /// 3.1.1
    V4(mqtt4::AsyncClient, Box<mqtt4::EventLoop>),
    /// 5.0
    V5(mqtt5::AsyncClient, Box<mqtt5::EventLoop>),
}

/// CONNACK.
pub struct Connack {
    /// Session Present.
    pub session_present: bool,
    /// MQTT 5.
    pub properties: Option<v5::ConnAckProperties>,
}

/// One thing that happened.
pub enum Inbound {
    /// A PUBLISH of ours left.
    Sent { packet_id: u16 },
    /// PUBACK, or PUBCOMP of a PUBLISH of ours
    Acked { packet_id: u16, reason: u8 },
    /// PUBLISH
    Received(Received),
    /// SUBACK or UNSUBACK
    Codes(Vec<u8>),
    /// Something no test looks at.
    Other,
    /// The connection is gone; these packets came before it went.
    Closed(Closed, Vec<Self>),
}

/// Connects and waits for CONNACK.
pub async fn connect(connect: Connect) -> Result<(Client, Connack), Closed> {
    match connect.protocol {
        Protocol::V311 => connect_v4(connect).await,
        Protocol::V5 => connect_v5(connect).await,
    }
}

async fn connect_v4(connect: Connect) -> Result<(Client, Connack), Closed> {
    let who = connect.credentials;
    let (host, port) = (connect.address.ip().to_string(), connect.address.port());
    let mut options = mqtt4::MqttOptions::new(who.client_id, host, port);
    options
        .set_credentials(who.username, who.password)
        .set_clean_session(connect.clean)
        .set_keep_alive(connect.keep_alive)
        .set_inflight(connect.inflight_max)
        .set_manual_acks(connect.manual_acks)
        .set_max_packet_size(16 << 20, 16 << 20);
    if let Some(will) = connect.will {
        let qos = qos_v4(will.qos);
        options.set_last_will(v4::LastWill::new(
            will.topic,
            will.payload,
            qos,
            will.retain,
        ));
    }
    let (client, mut events) = mqtt4::AsyncClient::new(options, REQUESTS_MAX);
    events.set_network_options(network_options());
    match events.poll().await {
        Ok(mqtt4::Event::Incoming(v4::Packet::ConnAck(connack))) => {
            let connack = Connack {
                session_present: connack.session_present,
                properties: None,
            };
            Ok((Client::V4(client, Box::new(events)), connack))
        }
        Ok(other) => panic!("the first packet is no CONNACK: {other:?}"),
        Err(error) => Err(Closed {
            reason: match &error {
                mqtt4::ConnectionError::ConnectionRefused(code) => Some(reason::connack_v4(*code)),
                _ => None,
            },
            error: error.to_string(),
        }),
    }
}

/// Small packets leave at once: no test waits for another packet's TCP acknowledgement. Nor does the client give up before the
/// test does.
fn network_options() -> mqtt4::NetworkOptions {
    let mut options = mqtt4::NetworkOptions::new();
    options.set_tcp_nodelay(true);
    options.set_connection_timeout(DEADLINE.as_secs());
    options
}

async fn connect_v5(connect: Connect) -> Result<(Client, Connack), Closed> {
    let who = connect.credentials;
    let (host, port) = (connect.address.ip().to_string(), connect.address.port());
    let mut options = mqtt5::MqttOptions::new(who.client_id, host, port);
    options
        .set_credentials(who.username, who.password)
        .set_clean_start(connect.clean)
        .set_keep_alive(connect.keep_alive)
        .set_outgoing_inflight_upper_limit(connect.inflight_max)
        .set_manual_acks(connect.manual_acks)
        .set_connection_timeout(DEADLINE.as_secs())
        .set_network_options(network_options());
    if let Some(properties) = connect.properties {
        options.set_connect_properties(properties);
    }
    if let Some(will) = connect.will {
        let qos = qos_v5(will.qos);
        let will = v5::LastWill::new(will.topic, will.payload, qos, will.retain, None);
        options.set_last_will(will);
    }
    let (client, mut events) = mqtt5::AsyncClient::new(options, REQUESTS_MAX);
    match events.poll().await {
        Ok(mqtt5::Event::Incoming(v5::Packet::ConnAck(connack))) => {
            let connack = Connack {
                session_present: connack.session_present,
                properties: connack.properties,
            };
            Ok((Client::V5(client, Box::new(events)), connack))
        }
        Ok(other) => panic!("the first packet is no CONNACK: {other:?}"),
        Err(error) => Err(Closed {
            reason: match &error {
                mqtt5::ConnectionError::ConnectionRefused(code) => Some(reason::connack(*code)),
                _ => None,
            },
            error: error.to_string(),
        }),
    }
}

impl Client {
    /// Hands over a PUBLISH.
    pub fn publish(&self, publish: Publish) {
        let Publish {
            topic,
            qos,
            retain,
            payload,
            properties,
        } = publish;
        match self {
            Self::V4(client, _) => {
                assert!(properties.is_none(), "MQTT 3.1.1 has no properties");
                client
                    .try_publish(topic, qos_v4(qos), retain, payload)
                    .unwrap();
            }
            Self::V5(client, _) => client
                .try_publish_with_properties(
                    topic,
                    qos_v5(qos),
                    retain,
                    payload,
                    properties.unwrap_or_default(),
                )
                .unwrap(),
        }
    }

    /// Hands over a SUBSCRIBE with one filter.
    pub fn subscribe(&self, filter: &str, qos: u8) {
        match self {
            Self::V4(client, _) => client.try_subscribe(filter, qos_v4(qos)).unwrap(),
            Self::V5(client, _) => client.try_subscribe(filter, qos_v5(qos)).unwrap(),
        }
    }

    /// Hands over an UNSUBSCRIBE with one filter.
    pub fn unsubscribe(&self, filter: &str) {
        match self {
            Self::V4(client, _) => client.try_unsubscribe(filter).unwrap(),
            Self::V5(client, _) => client.try_unsubscribe(filter).unwrap(),
        }
    }

    /// Hands over the PUBACK of a received PUBLISH.
    pub fn ack(&self, received: &Received) {
        match self {
            Self::V4(client, _) => {
                let qos = qos_v4(received.qos);
                let mut publish = v4::Publish::new(&received.topic, qos, Vec::new());
                publish.pkid = received.packet_id;
                client.try_ack(&publish).unwrap();
            }
            Self::V5(client, _) => {
                let qos = qos_v5(received.qos);
                let mut publish = v5::Publish::new(&received.topic, qos, Vec::new(), None);
                publish.pkid = received.packet_id;
                client.try_ack(&publish).unwrap();
            }
        }
    }

    /// Hands over a DISCONNECT.
    pub fn disconnect(&self) {
        match self {
            Self::V4(client, _) => client.try_disconnect().unwrap(),
            Self::V5(client, _) => client.try_disconnect().unwrap(),
        }
    }

    /// Reads and writes until one thing happened. Do not call it again after [`Inbound::Closed`]: rumqttc would
    /// connect anew.
    pub async fn poll(&mut self) -> Inbound {
        match self {
            Self::V4(_, events) => match events.poll().await {
                Ok(event) => inbound_v4(event),
                Err(error) => {
                    let closed = Closed {
                        reason: None,
                        error: error.to_string(),
                    };
                    let before = events.state.events.drain(..).map(inbound_v4);
                    Inbound::Closed(closed, before.collect())
                }
            },
            Self::V5(_, events) => match events.poll().await {
                Ok(event) => inbound_v5(event),
                Err(error) => {
                    let closed = Closed {
                        reason: match &error {
                            mqtt5::ConnectionError::MqttState(
                                mqtt5::StateError::ServerDisconnect { reason_code, .. },
                            ) => Some(*reason_code as u8),
                            _ => None,
                        },
                        error: error.to_string(),
                    };
                    let before = events.state.events.drain(..).map(inbound_v5);
                    Inbound::Closed(closed, before.collect())
                }
            },
        }
    }
}

fn inbound_v4(event: mqtt4::Event) -> Inbound {
    match event {
        mqtt4::Event::Outgoing(outgoing) => sent(&outgoing),
        mqtt4::Event::Incoming(v4::Packet::PubAck(puback)) => Inbound::Acked {
            packet_id: puback.pkid,
            reason: 0,
        },
        mqtt4::Event::Incoming(v4::Packet::PubComp(pubcomp)) => Inbound::Acked {
            packet_id: pubcomp.pkid,
            reason: 0,
        },
        mqtt4::Event::Incoming(v4::Packet::SubAck(suback)) => {
            let codes = suback.return_codes.into_iter();
            Inbound::Codes(codes.map(reason::suback_v4).collect())
        }
        mqtt4::Event::Incoming(v4::Packet::UnsubAck(_)) => Inbound::Codes(vec![0]),
        mqtt4::Event::Incoming(v4::Packet::Publish(publish)) => Inbound::Received(Received {
            topic: publish.topic,
            qos: publish.qos as u8,
            retain: publish.retain,
            dup: publish.dup,
            packet_id: publish.pkid,
            payload: publish.payload,
            properties: None,
        }),
        mqtt4::Event::Incoming(_) => Inbound::Other,
    }
}

fn inbound_v5(event: mqtt5::Event) -> Inbound {
    match event {
        mqtt5::Event::Outgoing(outgoing) => sent(&outgoing),
        mqtt5::Event::Incoming(v5::Packet::PubAck(puback)) => Inbound::Acked {
            packet_id: puback.pkid,
            reason: reason::puback(puback.reason),
        },
        mqtt5::Event::Incoming(v5::Packet::PubComp(pubcomp)) => Inbound::Acked {
            packet_id: pubcomp.pkid,
            reason: reason::pubcomp(pubcomp.reason),
        },
        mqtt5::Event::Incoming(v5::Packet::SubAck(suback)) => {
            let codes = suback.return_codes.into_iter();
            Inbound::Codes(codes.map(reason::suback).collect())
        }
        mqtt5::Event::Incoming(v5::Packet::UnsubAck(unsuback)) => {
            let codes = unsuback.reasons.into_iter();
            Inbound::Codes(codes.map(reason::unsuback).collect())
        }
        mqtt5::Event::Incoming(v5::Packet::Publish(publish)) => Inbound::Received(Received {
            topic: String::from_utf8(publish.topic.to_vec()).unwrap(),
            qos: publish.qos as u8,
            retain: publish.retain,
            dup: publish.dup,
            packet_id: publish.pkid,
            payload: publish.payload,
            properties: publish.properties,
        }),
        mqtt5::Event::Incoming(_) => Inbound::Other,
    }
}

fn sent(outgoing: &Outgoing) -> Inbound {
    match outgoing {
        Outgoing::Publish(packet_id) => Inbound::Sent {
            packet_id: *packet_id,
        },
        _ => Inbound::Other,
    }
}

fn qos_v4(qos: u8) -> mqtt4::QoS {
    mqtt4::qos(qos).unwrap()
}

fn qos_v5(qos: u8) -> rumqttc::v5::mqttbytes::QoS {
    rumqttc::v5::mqttbytes::qos(qos).unwrap()
}
