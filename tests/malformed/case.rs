//! One case of `malformed.json`: what is sent, what came back, and what that is called.
//!
//! An outcome is a word: `close`; `connack:<code>` and `disconnect:<code>` for a code that came before the close, with
//! `/open` behind it if no close came; `suback_ok`, `suback_fail`, `puback:<code>`, `pubcomp:<code>`, `open` otherwise; `echo` for
//! the last packet as it was sent.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;

use crate::own;
use crate::support::{Credentials, DemoDevice, Protocol, Wire, from_hex, packet, to_hex};

/// How long a peer is silent until it counts as not going to close: a fault ends its connection sooner (G16).
const QUIET: Duration = Duration::from_secs(2);

/// A case as the file has it; bytes are in hex.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    version: String,
    pub(crate) title: String,
    /// The clause of the specification that is broken.
    pub(crate) clause: String,
    /// `robust`: the sender half-closes behind its bytes.
    level: String,
    /// `none`, or `connect`: an accepted CONNECT goes ahead.
    setup: String,
    pre: Vec<String>,
    send: Vec<String>,
    /// What the specification asks for.
    outcomes: Vec<String>,
    /// What is harmless.
    tolerated: Vec<String>,
    /// A payload that nobody may get.
    pub(crate) must_not_deliver: Option<String>,
    /// The last packet is right, and goes on unchanged.
    pub(crate) echo: Option<String>,
}

impl Case {
    /// All cases of the file.
    pub(crate) fn all() -> Vec<Self> {
        #[derive(Deserialize)]
        struct File {
            cases: Vec<Case>,
        }
        let file: File =
            serde_json::from_str(include_str!("../conformance/malformed.json")).unwrap();
        file.cases
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self.version.as_str() {
            "3.1.1" => Protocol::V311,
            "5.0" => Protocol::V5,
            other => panic!("{}: version {other}", self.id),
        }
    }

    /// Whether an accepted CONNECT goes ahead.
    pub(crate) fn is_connected(&self) -> bool {
        match self.setup.as_str() {
            "connect" => true,
            "none" => false,
            other => panic!("{}: setup {other}", self.id),
        }
    }

    /// What is sent, behind an accepted CONNECT or instead of one.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        let all = self.pre.iter().chain(&self.send);
        all.map(|hex| from_hex(hex)).collect()
    }

    /// The same with each PUBLISH on a topic of the device.
    pub(crate) fn packets_of(&self, device: &DemoDevice) -> Vec<Vec<u8>> {
        let all = self.packets().into_iter();
        all.map(|packet| own::publish(&packet, &device.product, &device.name))
            .collect()
    }

    /// Sends the case's packets over a connection of this client and returns the outcome.
    pub(crate) async fn run(
        &self,
        gateway: SocketAddr,
        who: &Credentials,
        packets: &[Vec<u8>],
    ) -> String {
        let mut wire = Wire::connect(gateway).await;
        if self.is_connected() {
            wire.send(&packet::connect(self.protocol(), who, 60)).await;
            let connack = wire.packet().await.unwrap_or_default();
            assert_eq!((connack[0], connack[3]), (0x20, 0), "{}: CONNACK", self.id);
        }
        for packet in packets {
            wire.send(packet).await;
        }
        if self.level == "robust" {
            wire.half_close().await;
        }
        let mut answers = Vec::new();
        let closed = loop {
            match timeout(QUIET, wire.packet()).await {
                Ok(Some(packet)) => answers.push(packet),
                Ok(None) => break true,
                Err(_silent) => break false,
            }
        };
        self.outcome(&answers, closed)
    }

    fn outcome(&self, answers: &[Vec<u8>], closed: bool) -> String {
        let mut words: Vec<String> = answers.iter().map(|answer| self.word(answer)).collect();
        match (words.last_mut(), closed) {
            (None, true) => words.push("close".to_owned()),
            (None, false) => words.push("open".to_owned()),
            (Some(last), false)
                if last.starts_with("connack") || last.starts_with("disconnect") =>
            {
                last.push_str("/open");
            }
            (Some(last), true)
                if !last.starts_with("connack") && !last.starts_with("disconnect") =>
            {
                words.push("close".to_owned());
            }
            _ => {}
        }
        words.dedup();
        words.join(" ")
    }

    fn word(&self, answer: &[u8]) -> String {
        let code = |at: usize| format!("{:02x}", answer.get(at).copied().unwrap_or(0));
        match answer[0] >> 4 {
            2 => format!("connack:{}", code(3)),
            3 if self.echo.as_deref().map(from_hex).as_deref() == Some(answer) => "echo".to_owned(),
            4 => format!("puback:{}", code(4)),
            7 => format!("pubcomp:{}", code(4)),
            9 if answer.last().is_some_and(|code| *code < 0x80) => "suback_ok".to_owned(),
            9 => "suback_fail".to_owned(),
            13 => "open".to_owned(),
            14 => format!("disconnect:{}", code(2)),
            _ => panic!("{}: unexpected {}", self.id, to_hex(answer)),
        }
    }

    /// Whether this is what the specification asks for: one of the outcomes; in MQTT 5 with a code wherever one is possible,
    /// and with the very code that the clause names.
    pub(crate) fn is_as_specified(&self, outcome: &str) -> bool {
        let has_codes = self.outcomes.iter().any(|word| word.contains(':'));
        let named = [("Protocol Error", ":82"), ("Malformed Packet", ":81")]
            .into_iter()
            .find(|(words, _)| self.clause.contains(words));
        Self::is_in(outcome, &self.outcomes)
            && (outcome.contains(':') || !has_codes)
            && named.is_none_or(|(_, code)| outcome.ends_with(code) || !has_codes)
    }

    /// Whether this is no more than harmless.
    pub(crate) fn is_tolerable(&self, outcome: &str) -> bool {
        Self::is_in(outcome, &self.outcomes) || Self::is_in(outcome, &self.tolerated)
    }

    /// Whether an outcome is among `words`, where a word may have several codes, or name any refusal.
    fn is_in(outcome: &str, words: &[String]) -> bool {
        let (kind, code) = outcome.split_once(':').unwrap_or((outcome, ""));
        words.iter().any(|word| match word.split_once(':') {
            Some((word, codes)) => word == kind && codes.split(',').any(|one| one == code),
            None if word == "any" => true,
            None if word == "pubcomp" => kind == word,
            None if word == "connack_refuse" => kind == "connack" && code != "00",
            None => word == outcome,
        })
    }
}
