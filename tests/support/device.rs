//! A simulated device: rumqttc for MQTT 3.1.1 and 5 behind one set of verbs.
//!
//! Nothing happens behind the test's back: the device reads and writes only inside the calls below, and it never
//! reconnects, so an unacknowledged PUBLISH is not sent twice unless the test does it. Reason codes are the
//! specification's numbers; 3.1.1 has none in PUBACK and DISCONNECT, where they read as 0 and `None`.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rumqttc::v5::mqttbytes::v5::{ConnAckProperties, ConnectProperties, PublishProperties};
use serde::Deserialize;
use sha2::Sha256;

use super::client::{self, Client, Inbound};
use super::wait::{DEADLINE, within, within_time};

/// Which MQTT a device speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 3.1.1
    V311,
    /// 5.0
    V5,
}

/// What a device sends in CONNECT to prove who it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Credentials {
    /// `product&name`
    pub client_id: String,
    /// `product&name;sdkappid;connid;expiry`
    pub username: String,
    /// `token;hmacsha256`
    pub password: String,
}

impl Credentials {
    /// The credentials of a device with this secret (base64).
    pub fn new(product: &str, name: &str, secret: &str) -> Self {
        let client_id = format!("{product}&{name}");
        let username = format!("{client_id};12010126;A1B2C;1893456000");
        let key = STANDARD.decode(secret).unwrap();
        let mut hmac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        hmac.update(username.as_bytes());
        let token = hmac.finalize().into_bytes();
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            client_id,
            username,
            password: format!("{token};hmacsha256"),
        }
    }

    /// Any client of the open profile: only the client identifier counts.
    pub fn anybody(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            username: "anybody".to_owned(),
            password: "anything".to_owned(),
        }
    }

    /// The options with which mosquitto's clients log in.
    pub fn mosquitto(&self) -> [&str; 6] {
        let (id, user, password) = (&self.client_id, &self.username, &self.password);
        ["-i", id, "-u", user, "-P", password]
    }
}

/// How a device connects; change a field for what a test is about.
#[derive(Debug, Clone)]
pub struct Connect {
    /// 3.1.1 or 5.
    pub protocol: Protocol,
    /// The gateway's listener.
    pub address: SocketAddr,
    /// Who it says it is.
    pub credentials: Credentials,
    /// Clean session, clean start. On by default.
    pub clean: bool,
    /// Whole seconds, at least 5 for rumqttc. Pings are sent inside the calls of [`Device`] only.
    pub keep_alive: Duration,
    /// How many QoS 1 PUBLISH may wait for their PUBACK; for 5 the server's Receive Maximum may lower it.
    pub inflight_max: u16,
    /// When set, PUBLISH packets are acknowledged by [`Device::ack`] only.
    pub manual_acks: bool,
    /// Published by the gateway when the connection is lost.
    pub will: Option<Publish>,
    /// Further properties (MQTT 5).
    pub properties: Option<ConnectProperties>,
    /// How long an acknowledgement may take.
    pub patience: Duration,
}

impl Connect {
    /// The usual: clean, keep alive of a minute, 100 in flight, automatic acknowledgements.
    pub fn new(protocol: Protocol, address: SocketAddr, credentials: &Credentials) -> Self {
        Self {
            protocol,
            address,
            credentials: credentials.clone(),
            clean: true,
            keep_alive: Duration::from_secs(60),
            inflight_max: 100,
            manual_acks: false,
            will: None,
            properties: None,
            patience: DEADLINE,
        }
    }
}

/// A PUBLISH to send.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Topic name.
    pub topic: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// RETAIN.
    pub retain: bool,
    /// Application Message.
    pub payload: Bytes,
    /// Properties (MQTT 5).
    pub properties: Option<PublishProperties>,
}

impl Publish {
    /// QoS 1, not retained, no properties.
    pub fn new(topic: &str, payload: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.to_owned(),
            qos: 1,
            retain: false,
            payload: payload.into(),
            properties: None,
        }
    }
}

/// A PUBLISH that the gateway sent.
#[derive(Debug, Clone)]
pub struct Received {
    /// Topic name.
    pub topic: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// RETAIN.
    pub retain: bool,
    /// DUP.
    pub dup: bool,
    /// Packet Identifier; 0 for QoS 0.
    pub packet_id: u16,
    /// Application Message.
    pub payload: Bytes,
    /// Properties (MQTT 5).
    pub properties: Option<PublishProperties>,
}

impl Received {
    /// The payload as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).unwrap()
    }
}

/// A PUBACK, or the PUBCOMP of QoS 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acked {
    /// Which PUBLISH of this device, as [`Device::publish`] numbered it.
    pub publish: u64,
    /// Below 0x80: stored.
    pub reason: u8,
}

/// The connection is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The code of the DISCONNECT that came before (MQTT 5).
    pub reason: Option<u8>,
    /// What rumqttc says about it.
    pub error: String,
}

/// A connected device.
pub struct Device {
    /// What CONNACK said (MQTT 5).
    pub connack_properties: Option<ConnAckProperties>,
    /// Session Present of CONNACK.
    pub session_present: bool,
    client: Client,
    patience: Duration,
    /// PUBLISH packets that were numbered.
    published: u64,
    /// Numbers of PUBLISH packets that rumqttc has not sent yet, with their QoS; it sends them in order.
    unsent: VecDeque<(u64, u8)>,
    /// Sent with QoS 1 or 2: Packet Identifier to number.
    inflight: HashMap<u16, u64>,
    acked: VecDeque<Acked>,
    received: VecDeque<Received>,
    /// Codes of SUBACK and UNSUBACK.
    codes: VecDeque<Vec<u8>>,
    closed: Option<Closed>,
}

impl Device {
    /// Connects; panics unless the gateway accepts.
    pub async fn connect(protocol: Protocol, address: SocketAddr, who: &Credentials) -> Self {
        Self::connect_with(Connect::new(protocol, address, who))
            .await
            .unwrap_or_else(|refused| panic!("{} is refused: {refused:?}", who.client_id))
    }

    /// Connects.
    ///
    /// # Errors
    /// The CONNACK code as `reason`, or none when the connection was closed without CONNACK.
    pub async fn connect_with(connect: Connect) -> Result<Self, Closed> {
        let patience = connect.patience;
        let (client, connack) = within("CONNACK", client::connect(connect)).await?;
        Ok(Self {
            connack_properties: connack.properties,
            session_present: connack.session_present,
            client,
            patience,
            published: 0,
            unsent: VecDeque::new(),
            inflight: HashMap::new(),
            acked: VecDeque::new(),
            received: VecDeque::new(),
            codes: VecDeque::new(),
            closed: None,
        })
    }

    /// Hands over a PUBLISH, to be sent inside the next call that waits, and returns its number: 0, 1, 2, …
    pub fn publish(&mut self, publish: Publish) -> u64 {
        let number = self.published;
        self.published += 1;
        self.unsent.push_back((number, publish.qos));
        self.client.publish(publish);
        number
    }

    /// The next PUBACK or PUBCOMP, in the order in which they come.
    ///
    /// # Errors
    /// [`Closed`] when there is none left and the connection is gone.
    pub async fn acked(&mut self) -> Result<Acked, Closed> {
        within_time(self.patience, "PUBACK or PUBCOMP", async {
            loop {
                if let Some(acked) = self.acked.pop_front() {
                    return Ok(acked);
                }
                self.step().await?;
            }
        })
        .await
    }

    /// Publishes with QoS 1 and returns the reason code of its PUBACK; panics when the connection ends instead.
    pub async fn publish_acked(&mut self, topic: &str, payload: impl Into<Bytes>) -> u8 {
        let number = self.publish(Publish::new(topic, payload));
        let acked = self.acked().await.unwrap();
        assert_eq!(acked.publish, number, "an earlier PUBACK was not read");
        acked.reason
    }

    /// Sends what was handed over and is QoS 0; returns when it left this process.
    pub async fn flush(&mut self) {
        within("the PUBLISH to be sent", async {
            while !self.unsent.is_empty() {
                self.step().await.unwrap();
            }
        })
        .await;
    }

    /// Subscribes with QoS 1 and returns the granted QoS, or the code from 0x80 on that refuses it.
    pub async fn subscribe(&mut self, filter: &str) -> u8 {
        self.subscribe_qos(filter, 1).await
    }

    /// [`subscribe`](Self::subscribe) with this QoS.
    pub async fn subscribe_qos(&mut self, filter: &str, qos: u8) -> u8 {
        self.client.subscribe(filter, qos);
        self.code("SUBACK").await
    }

    /// Unsubscribes and returns UNSUBACK's code (0 for 3.1.1).
    pub async fn unsubscribe(&mut self, filter: &str) -> u8 {
        self.client.unsubscribe(filter);
        self.code("UNSUBACK").await
    }

    async fn code(&mut self, what: &str) -> u8 {
        within(what, async {
            loop {
                if let Some(codes) = self.codes.pop_front() {
                    assert_eq!(codes.len(), 1, "codes of {what}: {codes:?}");
                    return codes[0];
                }
                self.step().await.unwrap();
            }
        })
        .await
    }

    /// The next PUBLISH from the gateway; panics when the connection ends instead.
    pub async fn next(&mut self) -> Received {
        within("PUBLISH", async {
            loop {
                if let Some(received) = self.received.pop_front() {
                    return received;
                }
                self.step().await.unwrap();
            }
        })
        .await
    }

    /// How many PUBLISH packets have come that [`next`](Self::next) has not given yet.
    pub fn waiting(&self) -> usize {
        self.received.len()
    }

    /// Acknowledges, where [`Connect::manual_acks`] is set. Sent inside the next call that waits.
    pub fn ack(&mut self, received: &Received) {
        self.client.ack(received);
    }

    /// Waits until the gateway ends the connection.
    pub async fn closed(&mut self) -> Closed {
        within("the connection to end", async {
            loop {
                if let Err(closed) = self.step().await {
                    return closed;
                }
            }
        })
        .await
    }

    /// Sends DISCONNECT and waits until it is sent and the connection is over.
    pub async fn disconnect(mut self) {
        self.client.disconnect();
        self.closed().await;
    }

    /// Waits for one thing to happen on the connection and notes it. Cancel safe: use it to keep a device alive in a
    /// `select!`.
    ///
    /// # Errors
    /// [`Closed`], again and again once the connection is gone.
    pub async fn step(&mut self) -> Result<(), Closed> {
        if let Some(closed) = &self.closed {
            return Err(closed.clone());
        }
        let inbound = self.client.poll().await;
        self.note(inbound);
        Ok(())
    }

    fn note(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Sent { packet_id } => {
                let (number, qos) = self.unsent.pop_front().expect("a PUBLISH was handed over");
                if qos > 0 {
                    self.inflight.insert(packet_id, number);
                }
            }
            Inbound::Acked { packet_id, reason } => {
                let publish = self.inflight.remove(&packet_id);
                let publish = publish.unwrap_or_else(|| panic!("PUBACK {packet_id} unasked for"));
                self.acked.push_back(Acked { publish, reason });
            }
            Inbound::Received(received) => self.received.push_back(received),
            Inbound::Codes(codes) => self.codes.push_back(codes),
            Inbound::Other => {}
            Inbound::Closed(closed, before) => {
                before.into_iter().for_each(|inbound| self.note(inbound));
                self.closed = Some(closed);
            }
        }
    }
}
