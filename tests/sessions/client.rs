//! A client that takes each step by itself: nothing is answered or sent again unless a test says so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU16;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use jetway::mqtt::{
    Ack, Codec, Connack, Connect, ConnectProperties, Disconnect, Packet, PacketId, Publish,
    PublishProperties, QoS, ReasonCode, Subscribe, Subscription, TopicFilter, TopicName, Version,
    Will,
};

use tokio::net::TcpStream;

use crate::support::{Credentials, Wire, eventually, packet};

/// What a client says in CONNECT.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) version: Version,
    pub(crate) client_id: String,
    /// Clean start; with 3.1.1 the session ends with the connection.
    pub(crate) clean: bool,
    /// Session Expiry Interval, MQTT 5.
    pub(crate) expiry_s: u32,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) keep_alive: u16,
    pub(crate) will: Option<Will>,
    /// User name and password.
    pub(crate) login: Option<(String, String)>,
}

impl Hello {
    /// A session of an hour.
    pub(crate) fn new(version: Version, client_id: &str) -> Self {
        Self {
            version,
            client_id: client_id.to_owned(),
            clean: false,
            expiry_s: 3_600,
            receive_maximum: None,
            keep_alive: 60,
            will: None,
            login: None,
        }
    }

    /// A device with a session of an hour.
    pub(crate) fn of_device(version: Version, credentials: Credentials) -> Self {
        Self {
            login: Some((credentials.username, credentials.password)),
            ..Self::new(version, &credentials.client_id)
        }
    }

    /// A session that ends with its connection.
    pub(crate) fn passing(version: Version, client_id: &str) -> Self {
        Self {
            clean: true,
            expiry_s: 0,
            ..Self::new(version, client_id)
        }
    }

    /// With a Will of QoS 1 on `will/<client id>`.
    pub(crate) fn with_will(mut self, delay_s: u32) -> Self {
        let topic = ByteString::from(format!("will/{}", self.client_id));
        self.will = Some(Will {
            topic: TopicName::try_from(topic).unwrap(),
            payload: Bytes::from(self.client_id.clone()),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_interval: delay_s,
            properties: PublishProperties::default(),
        });
        self
    }

    pub(crate) fn packet(&self) -> Packet {
        let is_v5 = self.version == Version::V5;
        Packet::Connect(Box::new(Connect {
            version: self.version,
            clean_start: self.clean,
            keep_alive: self.keep_alive,
            client_id: self.client_id.as_str().into(),
            username: self.login.as_ref().map(|(name, _)| name.as_str().into()),
            password: (self.login.as_ref())
                .map(|(_, password)| Bytes::from(password.clone().into_bytes())),
            will: self.will.clone(),
            properties: ConnectProperties {
                session_expiry_interval: is_v5.then_some(self.expiry_s),
                receive_maximum: self.receive_maximum.and_then(NonZeroU16::new),
                ..ConnectProperties::default()
            },
        }))
    }
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) version: Version,
    wire: Wire,
    codec: Codec,
    /// Read while something else was waited for.
    early: VecDeque<Packet>,
}

impl Client {
    /// Connects, again as long as it is told to come later; gives Session Present.
    pub(crate) async fn connect(address: SocketAddr, hello: &Hello) -> (Self, bool) {
        let who = &hello.client_id;
        eventually("the client is let in", async || {
            let mut client = Self::ask(address, hello).await;
            let connack = client.connack().await;
            match connack.reason {
                ReasonCode::Success => Ok((client, connack.session_present)),
                ReasonCode::ServerUnavailable => Err(format!("{who} is not")),
                other => panic!("{who}: {other:?}"),
            }
        })
        .await
    }

    /// Sends CONNECT and waits for nothing.
    pub(crate) async fn ask(address: SocketAddr, hello: &Hello) -> Self {
        Self::ask_over(Wire::connect(address).await, hello).await
    }

    /// Connects if there is somebody who lets it in; gives Session Present.
    pub(crate) async fn try_connect(address: SocketAddr, hello: &Hello) -> Option<(Self, bool)> {
        let socket = TcpStream::connect(address).await.ok()?;
        socket.set_nodelay(true).ok()?;
        let mut client = Self::ask_over(Wire::over(socket), hello).await;
        match client.poll().await? {
            Packet::Connack(connack) if connack.reason == ReasonCode::Success => {
                Some((client, connack.session_present))
            }
            _ => None,
        }
    }

    async fn ask_over(wire: Wire, hello: &Hello) -> Self {
        let mut codec = Codec::new(1 << 20);
        codec.set_version(hello.version);
        let mut client = Self {
            version: hello.version,
            wire,
            codec,
            early: VecDeque::new(),
        };
        client.send(hello.packet()).await;
        client
    }

    /// The answer to CONNECT.
    pub(crate) async fn connack(&mut self) -> Connack {
        match self.next().await {
            Packet::Connack(connack) => connack,
            other => panic!("no CONNACK: {other:?}"),
        }
    }

    pub(crate) async fn send(&mut self, packet: Packet) {
        let mut bytes = BytesMut::new();
        self.codec.encode(&packet, &mut bytes).unwrap();
        self.wire.send(&bytes).await;
    }

    /// Sends bytes as they are.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.send(bytes).await;
    }

    /// The next packet; none at the end of the connection.
    pub(crate) async fn poll(&mut self) -> Option<Packet> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let bytes = self.wire.packet().await?;
        let packet = self.codec.decode(&mut BytesMut::from(&*bytes));
        Some(packet.unwrap().expect("a whole packet"))
    }

    pub(crate) async fn next(&mut self) -> Packet {
        self.poll().await.expect("the connection stays open")
    }

    /// The next PUBLISH.
    pub(crate) async fn message(&mut self) -> Publish {
        match self.next().await {
            Packet::Publish(publish) => publish,
            other => panic!("no PUBLISH: {other:?}"),
        }
    }

    /// What came up to the answer to a PINGREQ: all that the gateway had to say.
    pub(crate) async fn ping(&mut self) -> Vec<Packet> {
        self.wire.send(&packet::PINGREQ).await;
        let mut before = Vec::new();
        loop {
            match self.next().await {
                Packet::Pingresp => return before,
                packet => before.push(packet),
            }
        }
    }

    /// Expects the end of the connection; gives the reason of the last DISCONNECT.
    pub(crate) async fn closed(&mut self) -> Option<ReasonCode> {
        let mut reason = None;
        while let Some(packet) = self.poll().await {
            if let Packet::Disconnect(disconnect) = packet {
                reason = Some(disconnect.reason);
            }
        }
        reason
    }

    /// Subscribes and is granted it.
    pub(crate) async fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.send_subscribe(filter, qos).await;
        match self.next().await {
            Packet::Suback(suback) => assert_eq!(suback.reasons[0].value(), qos as u8),
            other => panic!("no SUBACK: {other:?}"),
        }
    }

    pub(crate) async fn send_subscribe(&mut self, filter: &str, qos: QoS) {
        let filter = TopicFilter::try_from(ByteString::from(filter)).unwrap();
        self.send(Packet::Subscribe(Subscribe {
            packet_id: id(60_000),
            identifier: None,
            filters: vec![Subscription {
                filter,
                qos,
                no_local: false,
                retain_as_published: false,
                retain_handling: 0,
            }],
            user: Default::default(),
        }))
        .await;
    }

    pub(crate) async fn publish(&mut self, topic: &str, qos: QoS, packet_id: u16, text: &str) {
        let publish = publish(topic, qos, packet_id, text);
        self.send(Packet::Publish(publish)).await;
    }

    pub(crate) async fn publish_retained(
        &mut self,
        topic: &str,
        qos: QoS,
        packet_id: u16,
        text: &str,
    ) {
        let retain = true;
        let publish = publish(topic, qos, packet_id, text);
        self.send(Packet::Publish(Publish { retain, ..publish }))
            .await;
    }

    pub(crate) async fn publish_again(
        &mut self,
        topic: &str,
        qos: QoS,
        packet_id: u16,
        text: &str,
    ) {
        let dup = true;
        let publish = publish(topic, qos, packet_id, text);
        self.send(Packet::Publish(Publish { dup, ..publish })).await;
    }

    /// Publishes with QoS 1 and waits for PUBACK.
    pub(crate) async fn publish_stored(&mut self, topic: &str, text: &str) {
        self.publish(topic, QoS::AtLeastOnce, 50_000, text).await;
        self.expect(Step::Puback, 50_000).await;
    }

    pub(crate) async fn step(&mut self, step: Step, packet_id: u16) {
        let ack = Ack::new(id(packet_id), ReasonCode::Success);
        self.send(step.packet(ack)).await;
    }

    /// Expects this answer next, and that it is not negative; what is for subscriptions may come before.
    pub(crate) async fn expect(&mut self, step: Step, packet_id: u16) {
        let mut early = VecDeque::new();
        loop {
            match self.next().await {
                packet @ Packet::Publish(_) => early.push_back(packet),
                packet => {
                    assert_eq!(step.of(&packet), Some(packet_id), "{step:?}: {packet:?}");
                    break;
                }
            }
        }
        early.append(&mut self.early);
        self.early = early;
    }

    /// Says DISCONNECT with this reason and waits for the end.
    pub(crate) async fn disconnect(mut self, reason: ReasonCode) {
        match self.version {
            Version::V5 => self.send(Packet::Disconnect(Disconnect::new(reason))).await,
            Version::V3_1_1 => self.wire.send(&packet::DISCONNECT).await,
        }
        self.closed().await;
    }
}

fn publish(topic: &str, qos: QoS, packet_id: u16, text: &str) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: topic.into(),
        packet_id: PacketId::new(packet_id).filter(|_| qos > QoS::AtMostOnce),
        properties: PublishProperties::default(),
        payload: Bytes::copy_from_slice(text.as_bytes()),
    }
}

pub(crate) fn id(packet_id: u16) -> PacketId {
    PacketId::new(packet_id).unwrap()
}

/// One packet of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Puback,
    Pubrec,
    Pubrel,
    Pubcomp,
}

impl Step {
    fn packet(self, ack: Ack) -> Packet {
        match self {
            Self::Puback => Packet::Puback(ack),
            Self::Pubrec => Packet::Pubrec(ack),
            Self::Pubrel => Packet::Pubrel(ack),
            Self::Pubcomp => Packet::Pubcomp(ack),
        }
    }

    /// The packet identifier, if the packet is this step and says no error.
    pub(crate) fn of(self, packet: &Packet) -> Option<u16> {
        let ((Self::Puback, Packet::Puback(ack))
        | (Self::Pubrec, Packet::Pubrec(ack))
        | (Self::Pubrel, Packet::Pubrel(ack))
        | (Self::Pubcomp, Packet::Pubcomp(ack))) = (self, packet)
        else {
            return None;
        };
        (!ack.reason.is_error()).then_some(ack.packet_id.get())
    }
}

/// The application behind a subscriber, across its connections: what it was given, and its half of the handshakes.
#[derive(Default)]
pub(crate) struct Application {
    /// In order, each as often as it was handed over.
    pub(crate) given: Vec<String>,
    /// QoS 2 identifiers before PUBREL [MQTT-4.3.3-10], and what came with them.
    unreleased: HashMap<u16, String>,
}

impl Application {
    /// Takes one packet as a receiver does; gives the answer.
    pub(crate) fn take(&mut self, packet: &Packet) -> Option<(Step, u16)> {
        match packet {
            Packet::Publish(publish) => {
                let text = String::from_utf8(publish.payload.to_vec()).unwrap();
                let packet_id = publish.packet_id.map_or(0, PacketId::get);
                match publish.qos {
                    QoS::ExactlyOnce => {
                        match self.unreleased.insert(packet_id, text.clone()) {
                            None => self.given.push(text),
                            Some(before) => assert_eq!(before, text, "{packet_id} is in use"),
                        }
                        Some((Step::Pubrec, packet_id))
                    }
                    QoS::AtLeastOnce => {
                        self.given.push(text);
                        Some((Step::Puback, packet_id))
                    }
                    QoS::AtMostOnce => {
                        self.given.push(text);
                        None
                    }
                }
            }
            Packet::Pubrel(ack) => {
                self.unreleased.remove(&ack.packet_id.get());
                Some((Step::Pubcomp, ack.packet_id.get()))
            }
            _ => None,
        }
    }

    /// Answers everything until a message with this text was given and nothing is left open.
    pub(crate) async fn run_until(&mut self, client: &mut Client, last: &str) {
        while !self.is_done(last) {
            let packet = client.next().await;
            if let Some((step, packet_id)) = self.take(&packet) {
                client.step(step, packet_id).await;
            }
        }
    }

    /// Whether a message with this text was given and nothing is left open.
    pub(crate) fn is_done(&self, last: &str) -> bool {
        self.given.iter().any(|text| text == last) && self.unreleased.is_empty()
    }

    /// What was given, with repeats left out.
    pub(crate) fn first_times(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let texts = self.given.iter().map(String::as_str);
        texts.filter(|text| seen.insert(*text)).collect()
    }
}
