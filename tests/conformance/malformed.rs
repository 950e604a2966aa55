//! The malformed cases that the whole gateway is tested with, as far as bytes alone decide them.

use bytes::BytesMut;
use jetway::mqtt::{Codec, Error, Packet, ReasonCode, Version};

use crate::wire;

/// Cases whose bytes are packets, so that the session decides them. Any other case must be decided here.
const SESSION: &[(&str, &str)] = &[
    ("M4-030", "a second CONNECT: what was before it counts"),
    ("M4-066", "CONNACK from a client: the direction counts"),
    ("M4-067", "SUBACK from a client: the direction counts"),
    ("M4-072", "PUBREL: the open packet identifiers count"),
    ("M5-032", "a second CONNECT: what was before it counts"),
    ("M5-037", "topic alias: what was set before counts"),
    ("M5-039", "topic alias: the agreed maximum counts"),
    ("M5-055", "PUBREL: the open packet identifiers count"),
    ("M5-075", "session expiry interval: that of CONNECT counts"),
    ("M5-078", "CONNACK from a client: the direction counts"),
    ("M5-079", "CONNACK from a client: the direction counts"),
    ("M5-080", "SUBACK from a client: the direction counts"),
    ("M5-081", "PINGRESP from a client: the direction counts"),
];

#[derive(serde::Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    id: String,
    version: String,
    title: String,
    setup: String,
    send: Vec<String>,
    outcomes: Vec<String>,
    echo: Option<String>,
}

/// What the bytes of a case are to the codec.
enum Outcome {
    /// They are packets, and all bytes belong to one.
    Packets(Vec<Packet>),
    /// The rest of the last packet is missing.
    Incomplete,
    Refused(Error),
}

impl Case {
    fn version(&self) -> Version {
        match self.version.as_str() {
            "3.1.1" => Version::V3_1_1,
            "5.0" => Version::V5,
            other => panic!("{}: no such version: {other}", self.id),
        }
    }

    fn run(&self) -> (Codec, Outcome) {
        let mut codec = wire::codec((self.setup == "connect").then(|| self.version()));
        let mut src = BytesMut::new();
        let mut packets = Vec::new();
        for hex in &self.send {
            src.extend_from_slice(&wire::bytes(hex));
            loop {
                match codec.decode(&mut src) {
                    Ok(Some(packet)) => packets.push(packet),
                    Ok(None) => break,
                    Err(error) => return (codec, Outcome::Refused(error)),
                }
            }
        }
        let is_whole = src.is_empty();
        let outcome = match is_whole {
            true => Outcome::Packets(packets),
            false => Outcome::Incomplete,
        };
        (codec, outcome)
    }

    fn check(&self) {
        let (codec, outcome) = self.run();
        let is_session = SESSION.iter().any(|(id, _)| *id == self.id);
        let at = format!("{} {}", self.id, self.title);
        match outcome {
            Outcome::Packets(packets) => {
                let is_control = self.outcomes.iter().all(|o| o == "open" || o == "echo");
                assert!(is_session || is_control, "{at}: accepted");
                if let Some(echo) = &self.echo {
                    self.check_echo(packets.last().unwrap(), echo);
                }
            }
            Outcome::Incomplete => assert_eq!(self.outcomes, ["any"], "{at}: waits for more"),
            Outcome::Refused(error) => {
                assert!(!is_session, "{at}: {error}");
                self.check_reason(&codec, error.reason);
            }
        }
    }

    /// The packet goes on unchanged.
    fn check_echo(&self, packet: &Packet, echo: &str) {
        let echoed = wire::encode(self.version(), packet).unwrap();
        assert_eq!(echoed, wire::bytes(echo), "{}", self.id);
    }

    /// Where the case asks for a code, the error has it.
    fn check_reason(&self, codec: &Codec, reason: ReasonCode) {
        let codes = self.outcomes.iter().filter_map(|o| o.split_once(':'));
        let mut codes = codes.flat_map(|(_, codes)| codes.split(',')).peekable();
        let code = match (codec.version(), self.version()) {
            (Some(Version::V3_1_1), _) => reason.connect_return_code(),
            // Level 6 of a client that is newer than both: it is told so in the form of the newest version.
            (Some(Version::V5), Version::V3_1_1) => 0x01,
            _ => reason.value(),
        };
        let code = format!("{code:02x}");
        let is_any = self.outcomes == ["any"] || codes.peek().is_none();
        assert!(is_any || codes.any(|c| c == code), "{}: {reason}", self.id);
    }
}

#[test]
fn g16_cases_are_refused_here_or_listed_as_the_sessions() {
    let file: File = serde_json::from_str(include_str!("malformed.json")).unwrap();
    for (id, _) in SESSION {
        assert!(file.cases.iter().any(|case| case.id == *id), "{id}: gone");
    }
    for case in &file.cases {
        case.check();
    }
}
