//! Reason Codes (MQTT 5 §2.4): value, text, the packets that may carry each, and what 3.1.1 says instead.
//!
//! One table holds all of it; the lookups are searches of that table. Most packets carry its first row.

use std::fmt;

use super::Error;

/// A Reason Code of MQTT 5; below 0x80 is success.
///
/// 0x00 has three names in the specification (Success, Normal disconnection, Granted QoS 0) and one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReasonCode {
    /// Success; Normal disconnection; Granted QoS 0.
    Success = 0x00,
    /// Granted QoS 1.
    GrantedQoS1 = 0x01,
    /// Granted QoS 2.
    GrantedQoS2 = 0x02,
    /// The client disconnects and wants its Will published.
    DisconnectWithWillMessage = 0x04,
    /// Accepted, but nobody subscribes.
    NoMatchingSubscribers = 0x10,
    /// Nothing to unsubscribe.
    NoSubscriptionExisted = 0x11,
    /// Another authentication step follows.
    ContinueAuthentication = 0x18,
    /// The client starts to authenticate again.
    ReAuthenticate = 0x19,
    /// A failure without a better code.
    UnspecifiedError = 0x80,
    /// Bytes that do not parse.
    MalformedPacket = 0x81,
    /// Bytes that parse, against the rules.
    ProtocolError = 0x82,
    /// Valid, but not accepted by this implementation.
    ImplementationSpecificError = 0x83,
    /// A protocol level that the server does not know.
    UnsupportedProtocolVersion = 0x84,
    /// A client identifier that is not allowed.
    ClientIdentifierNotValid = 0x85,
    /// Wrong user name or password.
    BadUserNameOrPassword = 0x86,
    /// Known, but not allowed to do that.
    NotAuthorized = 0x87,
    /// The server cannot serve.
    ServerUnavailable = 0x88,
    /// The server has too much to do; try later.
    ServerBusy = 0x89,
    /// Banned by an operator.
    Banned = 0x8A,
    /// The server is stopping.
    ServerShuttingDown = 0x8B,
    /// An authentication method that is not supported or changed.
    BadAuthenticationMethod = 0x8C,
    /// Nothing was received for one and a half times the keep alive.
    KeepAliveTimeout = 0x8D,
    /// Another connection uses the same client identifier.
    SessionTakenOver = 0x8E,
    /// A valid topic filter that is not accepted.
    TopicFilterInvalid = 0x8F,
    /// A valid topic name that is not accepted.
    TopicNameInvalid = 0x90,
    /// The packet identifier is in use.
    PacketIdentifierInUse = 0x91,
    /// The packet identifier is not in use.
    PacketIdentifierNotFound = 0x92,
    /// More unacknowledged publications than agreed.
    ReceiveMaximumExceeded = 0x93,
    /// A topic alias that is zero, too large or not set.
    TopicAliasInvalid = 0x94,
    /// A packet larger than the receiver accepts.
    PacketTooLarge = 0x95,
    /// Messages come too fast.
    MessageRateTooHigh = 0x96,
    /// A quota of the implementation or the operator is used up.
    QuotaExceeded = 0x97,
    /// An operator closed the connection.
    AdministrativeAction = 0x98,
    /// The payload is not what its format indicator says.
    PayloadFormatInvalid = 0x99,
    /// The server does not retain messages.
    RetainNotSupported = 0x9A,
    /// A QoS above the server's maximum.
    QoSNotSupported = 0x9B,
    /// Use another server for now.
    UseAnotherServer = 0x9C,
    /// Use another server from now on.
    ServerMoved = 0x9D,
    /// The server does not support shared subscriptions.
    SharedSubscriptionsNotSupported = 0x9E,
    /// Connections come too fast.
    ConnectionRateExceeded = 0x9F,
    /// The connection has lasted as long as it may.
    MaximumConnectTime = 0xA0,
    /// The server does not support subscription identifiers.
    SubscriptionIdentifiersNotSupported = 0xA1,
    /// The server does not support wildcards in subscriptions.
    WildcardSubscriptionsNotSupported = 0xA2,
}

impl ReasonCode {
    /// Whether the code says that something failed (0x80 and above).
    #[must_use]
    pub fn is_error(self) -> bool {
        self.value() >= 0x80
    }

    /// The byte on the wire in MQTT 5.
    #[must_use]
    pub fn value(self) -> u8 {
        self as u8
    }

    /// The code of a byte on the wire, if MQTT 5 defines one.
    #[must_use]
    pub fn from_value(value: u8) -> Option<Self> {
        let row = TABLE.iter().find(|(code, ..)| code.value() == value)?;
        Some(row.0)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|(code, ..)| *code == self)
    }

    /// Refuses a code that these packets may not carry.
    pub(super) fn check(self, packet: &'static str, carrier: Carrier) -> Result<(), Error> {
        match self.row() {
            Some((_, _, carriers)) if carriers.contains(&carrier) => Ok(()),
            _ => {
                let expected = "a code that this packet may carry";
                Err(Error::protocol(packet, "reason code", expected))
            }
        }
    }

    /// What a Connect Return Code of 3.1.1 says (§3.2.2.3).
    pub(super) fn from_connect_return_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedProtocolVersion),
            2 => Some(Self::ClientIdentifierNotValid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadUserNameOrPassword),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }

    /// The Connect Return Code of a 3.1.1 CONNACK (§3.2.2.3) that comes nearest: 0 for success, 1 to 5 for errors.
    ///
    /// An error that 3.1.1 has no code for becomes 3 (server unavailable). After a malformed CONNECT a 3.1.1
    /// server closes without a CONNACK, so that the code is not used.
    #[must_use]
    pub fn connect_return_code(self) -> u8 {
        match self {
            code if !code.is_error() => 0,
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => 5,
            _ => 3,
        }
    }
}

impl fmt::Display for ReasonCode {
    /// The specification's name in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().map_or("", |(_, name, _)| name))
    }
}

/// The packets that carry a Reason Code, by the codes that they may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Connack,
    /// PUBACK and PUBREC.
    Received,
    /// PUBREL and PUBCOMP.
    Released,
    Suback,
    Unsuback,
    Disconnect,
    Auth,
}

type Row = (ReasonCode, &'static str, &'static [Carrier]);

use Carrier as C;
use ReasonCode as R;

/// Table 2-6, and what §3 says for each packet.
#[rustfmt::skip]
const TABLE: [Row; 43] = [
    (R::Success, "success", &[C::Connack, C::Received, C::Released, C::Suback, C::Unsuback, C::Disconnect, C::Auth]),
    (R::GrantedQoS1, "granted QoS 1", &[C::Suback]),
    (R::GrantedQoS2, "granted QoS 2", &[C::Suback]),
    (R::DisconnectWithWillMessage, "disconnect with will message", &[C::Disconnect]),
    (R::NoMatchingSubscribers, "no matching subscribers", &[C::Received]),
    (R::NoSubscriptionExisted, "no subscription existed", &[C::Unsuback]),
    (R::ContinueAuthentication, "continue authentication", &[C::Auth]),
    (R::ReAuthenticate, "re-authenticate", &[C::Auth]),
    (R::UnspecifiedError, "unspecified error", &[C::Connack, C::Received, C::Suback, C::Unsuback, C::Disconnect]),
    (R::MalformedPacket, "malformed packet", &[C::Connack, C::Disconnect]),
    (R::ProtocolError, "protocol error", &[C::Connack, C::Disconnect]),
    (R::ImplementationSpecificError, "implementation specific error", &[C::Connack, C::Received, C::Suback, C::Unsuback, C::Disconnect]),
    (R::UnsupportedProtocolVersion, "unsupported protocol version", &[C::Connack]),
    (R::ClientIdentifierNotValid, "client identifier not valid", &[C::Connack]),
    (R::BadUserNameOrPassword, "bad user name or password", &[C::Connack]),
    (R::NotAuthorized, "not authorized", &[C::Connack, C::Received, C::Suback, C::Unsuback, C::Disconnect]),
    (R::ServerUnavailable, "server unavailable", &[C::Connack]),
    (R::ServerBusy, "server busy", &[C::Connack, C::Disconnect]),
    (R::Banned, "banned", &[C::Connack]),
    (R::ServerShuttingDown, "server shutting down", &[C::Disconnect]),
    (R::BadAuthenticationMethod, "bad authentication method", &[C::Connack, C::Disconnect]),
    (R::KeepAliveTimeout, "keep alive timeout", &[C::Disconnect]),
    (R::SessionTakenOver, "session taken over", &[C::Disconnect]),
    (R::TopicFilterInvalid, "topic filter invalid", &[C::Suback, C::Unsuback, C::Disconnect]),
    (R::TopicNameInvalid, "topic name invalid", &[C::Connack, C::Received, C::Disconnect]),
    (R::PacketIdentifierInUse, "packet identifier in use", &[C::Received, C::Suback, C::Unsuback]),
    (R::PacketIdentifierNotFound, "packet identifier not found", &[C::Released]),
    (R::ReceiveMaximumExceeded, "receive maximum exceeded", &[C::Disconnect]),
    (R::TopicAliasInvalid, "topic alias invalid", &[C::Disconnect]),
    (R::PacketTooLarge, "packet too large", &[C::Connack, C::Disconnect]),
    (R::MessageRateTooHigh, "message rate too high", &[C::Disconnect]),
    (R::QuotaExceeded, "quota exceeded", &[C::Connack, C::Received, C::Suback, C::Disconnect]),
    (R::AdministrativeAction, "administrative action", &[C::Disconnect]),
    (R::PayloadFormatInvalid, "payload format invalid", &[C::Connack, C::Received, C::Disconnect]),
    (R::RetainNotSupported, "retain not supported", &[C::Connack, C::Disconnect]),
    (R::QoSNotSupported, "QoS not supported", &[C::Connack, C::Disconnect]),
    (R::UseAnotherServer, "use another server", &[C::Connack, C::Disconnect]),
    (R::ServerMoved, "server moved", &[C::Connack, C::Disconnect]),
    (R::SharedSubscriptionsNotSupported, "shared subscriptions not supported", &[C::Suback, C::Disconnect]),
    (R::ConnectionRateExceeded, "connection rate exceeded", &[C::Connack, C::Disconnect]),
    (R::MaximumConnectTime, "maximum connect time", &[C::Disconnect]),
    (R::SubscriptionIdentifiersNotSupported, "subscription identifiers not supported", &[C::Suback, C::Disconnect]),
    (R::WildcardSubscriptionsNotSupported, "wildcard subscriptions not supported", &[C::Suback, C::Disconnect]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_code_with_a_name_or_nothing() {
        let codes: Vec<_> = (0..=255).filter_map(ReasonCode::from_value).collect();
        assert_eq!(codes.len(), TABLE.len());
        for code in codes {
            assert_eq!(ReasonCode::from_value(code.value()), Some(code));
            assert!(!code.to_string().is_empty());
            assert_eq!(code.is_error(), code.value() >= 0x80);
        }
        assert_eq!(ReasonCode::NotAuthorized.to_string(), "not authorized");
    }

    #[test]
    fn return_codes_of_3_1_1_come_back() {
        for code in 0..=5 {
            let reason = ReasonCode::from_connect_return_code(code).unwrap();
            assert_eq!(reason.connect_return_code(), code);
        }
        assert_eq!(ReasonCode::from_connect_return_code(6), None);
        assert_eq!(ReasonCode::Banned.connect_return_code(), 5);
        assert_eq!(ReasonCode::ServerBusy.connect_return_code(), 3);
    }
}
