//! Takes requests, finds the device, and replies: the device's answer, or why there is none.
//!
//! Whose connection is asked, and where it is, says `holder`. Another node gets the request by `_jw.node.<node>.rpc`, as it is, and
//! replies through this one.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{RequestErrorKind, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::holder::{Asked, Holder};
use super::{Ask, Board, Config, Metrics, Refusal};
use crate::downlink::Delivery;
use crate::jetstream::Link;
use crate::mapping::{Call, Mapping, is_for_services};
use crate::message::{Headers, Message};
use crate::ownership::Ownership;
use crate::registry::{Mailbox, Registry};
use crate::tasks::{OnExit, Tasks};
use crate::telemetry;
use crate::topology;

/// The nodes' queue group: each request goes to one of them.
const QUEUE: &str = "jetway-rpc";
/// The subject of a request that another node passed on.
const SUBJECT: &str = "Jw-Rpc-Subject";
/// Whose connection the other node is to ask: `P.D` of the device, or of its gateway device.
const KEY: &str = "Jw-Rpc-Key";
/// How much longer than the other node this one waits.
const FORWARDING: Duration = Duration::from_millis(500);

/// Serves requests to devices; cheap to clone.
#[derive(Clone)]
pub struct Desk {
    /// Limits.
    pub config: Config,
    /// The connection to NATS.
    pub link: Link,
    /// Subjects and topics.
    pub mapping: Arc<Mapping>,
    /// Who is connected here.
    pub registry: Arc<Registry<Delivery>>,
    /// Who is connected elsewhere.
    pub ownership: Ownership,
    /// Who is behind whom; none without a catalogue.
    pub topology: Option<topology::Desk>,
    /// The way to connections of this node.
    pub board: Board,
    /// This node.
    pub node: Box<str>,
    /// Where requests are served.
    pub tasks: Tasks,
    /// Counts.
    pub metrics: Metrics,
    /// Cancelled when the node stops: nothing is taken any more, and no other node is waited for.
    pub stop: CancellationToken,
}

/// What comes in.
pub struct Requests {
    of_services: Subscriber,
    of_nodes: Subscriber,
}

fn node_subject(node: &str) -> String {
    format!("_jw.node.{node}.rpc")
}

/// Why there is no answer, and more than the word says.
pub(super) type Refused = (Refusal, Option<String>);

impl Desk {
    /// Subscribes to requests; none if this profile's devices cannot be asked.
    ///
    /// # Errors
    /// The client's.
    pub async fn open(&self) -> Result<Option<Requests>, async_nats::SubscribeError> {
        let Some(calls) = self.mapping.calls() else {
            return Ok(None);
        };
        let client = &self.link.client;
        let queue = QUEUE.to_owned();
        Ok(Some(Requests {
            of_services: client.queue_subscribe(calls.to_string(), queue).await?,
            of_nodes: client.subscribe(node_subject(&self.node)).await?,
        }))
    }

    /// Serves until the node stops.
    pub async fn run(self, mut requests: Requests) {
        let places = Arc::new(Semaphore::new(self.config.requests_max));
        loop {
            let (request, passed_on) = tokio::select! {
                () = self.stop.cancelled() => return,
                request = requests.of_services.next() => (request, false),
                request = requests.of_nodes.next() => (request, true),
            };
            let Some(request) = request else { return };
            // A reply elsewhere would do what the service itself may not, such as a request to JetStream.
            let is_answered = |reply: &async_nats::Subject| passed_on || is_for_services(reply);
            let Some(reply) = request.reply.clone().filter(is_answered) else {
                continue;
            };
            let reply = reply.as_str().into();
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                self.metrics.count(Some(Refusal::Busy));
                self.link.publish_now(Refusal::Busy.reply(reply, None));
                continue;
            };
            let desk = self.clone();
            self.tasks.spawn("rpc", OnExit::Log, async move {
                let message = match desk.serve(request, passed_on).await {
                    Ok(message) => Message {
                        subject: reply,
                        ..message
                    },
                    Err((refusal, detail)) => refusal.reply(reply, detail.as_deref()),
                };
                // Who asks again upon the answer finds it.
                drop(place);
                if !desk.link.publish_now(message) {
                    tracing::warn!("reply of a device lost: NATS takes nothing");
                }
            });
        }
    }

    async fn serve(
        &self,
        request: async_nats::Message,
        passed_on: bool,
    ) -> Result<Message, Refused> {
        let (request, asked) = read(request, passed_on);
        let id = format!("{:016x}", telemetry::random_u64());
        let served = match self.mapping.call(&request, &id) {
            Ok(call) => self.ask(&request, call, asked).await,
            Err(error) => Err((Refusal::BadRequest, Some(error.to_string()))),
        };
        if !passed_on {
            self.metrics.count(match &served {
                Ok(reply) => Refusal::of(reply),
                Err((refusal, _)) => Some(*refusal),
            });
        }
        served
    }

    async fn ask(&self, request: &Message, call: Call, asked: Asked) -> Result<Message, Refused> {
        let asked_ms = call.timeout_ms.unwrap_or(self.config.timeout_ms);
        let limit = Duration::from_millis(asked_ms.clamp(1, self.config.timeout_max_ms));
        let answer = match self.holder(&call.device, asked, limit).await? {
            Some(Holder::Here { key, mailbox }) => self.ask_here(&key, &mailbox, call, limit).await,
            Some(Holder::There { key, node }) => self.pass_on(&node, &key, request, limit).await,
            None => Err(Refusal::Offline),
        };
        answer.map_err(|refusal| (refusal, None))
    }

    async fn ask_here(
        &self,
        key: &str,
        mailbox: &Mailbox<Delivery>,
        call: Call,
        limit: Duration,
    ) -> Result<Message, Refusal> {
        let (ask, answer) = Ask::new(call);
        self.board.post(key, ask);
        mailbox.ring();
        let answer = tokio::select! {
            biased;
            answer = timeout(limit, answer) => answer.unwrap_or(Ok(Err(Refusal::Timeout))),
            () = mailbox.left() => Ok(Err(Refusal::Offline)),
        };
        self.board.tidy(key);
        // Dropped with its connection.
        answer.unwrap_or(Err(Refusal::Offline))
    }

    /// Lets another node ask; its reply is the reply, whatever it says.
    async fn pass_on(
        &self,
        node: &str,
        key: &str,
        request: &Message,
        limit: Duration,
    ) -> Result<Message, Refusal> {
        let mut passed_on = request.clone();
        passed_on.headers.push(SUBJECT, &request.subject);
        passed_on.headers.push(KEY, key);
        passed_on.subject = node_subject(node).into();
        let reply = tokio::select! {
            () = self.stop.cancelled() => return Err(Refusal::Unavailable),
            reply = self.link.request(passed_on, limit + FORWARDING) => reply,
        };
        reply.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => Refusal::Offline,
            RequestErrorKind::TimedOut => Refusal::Timeout,
            _ => Refusal::Unavailable,
        })
    }
}

/// The request as its service sent it, and who it came from.
fn read(request: async_nats::Message, passed_on: bool) -> (Message, Asked) {
    let mut message = Link::read(request);
    let mut asked = Asked::ByService;
    if passed_on {
        let said = |name| message.headers.get(name).map(Box::from);
        asked = Asked::ByNode { key: said(KEY) };
        if let Some(subject) = said(SUBJECT) {
            message.subject = subject.into();
        }
    }
    let mut headers = Headers::with_capacity(256);
    let said = message.headers.iter();
    let said = said.filter(|(name, _)| *name != SUBJECT && *name != KEY);
    said.for_each(|(name, value)| headers.push(name, value));
    (Message { headers, ..message }, asked)
}
