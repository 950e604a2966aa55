//! The devices behind a gateway device: what it asks about them, one request after the other, and which of them are online.
//!
//! What a gateway device may do for its sub-devices is part of its identity, and is looked up again when the catalogue changed: from
//! then on nothing is taken for, and nothing handed over to, one that is not bound any more (G22, G23).
//!
//! Invariant: a sub-device that was said to be connected is said to be disconnected, at the latest behind the gateway device itself.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Shared;
use super::driver::Driver;
use crate::device::{Connection, Device, DeviceId};
use crate::mqtt::Publish;
use crate::registry::Rebound;
use crate::session::CloseReason;
use crate::status::Status;
use crate::tasks::OnExit;
use crate::telemetry;
use crate::topology::{Bound, Code, Desk, Named, Request, Verb};

/// Requests that wait; a device that asks for more at once is not answered.
const REQUESTS_MAX: usize = 16;
/// How long until a catalogue that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the catalogue is asked for the sub-devices of a gateway device that is gone.
const LOST_MAX: Duration = Duration::from_secs(30);

/// Sub-devices that are online, and the connections that they are said to have.
pub(super) type Online = BTreeMap<DeviceId, Arc<Connection>>;

type Working = Pin<Box<dyn Future<Output = Worked> + Send>>;

/// What is behind a device; nothing takes no room.
#[derive(Default)]
pub(super) struct Behind(Option<Box<SubDevices>>);

#[derive(Default)]
struct SubDevices {
    jobs: VecDeque<Job>,
    working: Option<Working>,
    online: Online,
    /// Sub-devices that were said to be connected so far.
    count: u64,
}

enum Job {
    Request(Request),
    /// The catalogue has changed.
    LookUp,
    /// Those are not bound any more.
    Lost(Vec<Arc<Connection>>),
}

/// A job that is done.
pub(super) struct Worked {
    /// What the gateway device may act for now; none where that is as it was.
    sub_devices: Option<Arc<[DeviceId]>>,
    /// The verb that is answered, and the answer, if the device wants one.
    request: Option<(Verb, Option<bytes::Bytes>)>,
}

impl Behind {
    pub(super) fn poll_worked(&mut self, context: &mut Context<'_>) -> Poll<Worked> {
        let Some(sub_devices) = &mut self.0 else {
            return Poll::Pending;
        };
        let Some(working) = &mut sub_devices.working else {
            return Poll::Pending;
        };
        let worked = ready!(working.as_mut().poll(context));
        sub_devices.working = None;
        Poll::Ready(worked)
    }

    /// Those that are online, to be said disconnected.
    pub(super) fn into_online(self) -> Online {
        self.0.map_or_else(Online::new, |behind| behind.online)
    }
}

impl Driver {
    /// A message is on its way to the stream: does what a gateway device asks in it.
    pub(super) fn ask_topology(&mut self, publish: &Publish) {
        let Some(kind) = publish.topic.strip_prefix("$gateway/up/") else {
            return;
        };
        let kind = kind.split('/').next().unwrap_or_default();
        let address = self.shared.mapping.address(&publish.topic);
        let id = &self.sender.device.id;
        // What it says on the topics of a sub-device is the sub-device's, which has nobody behind it.
        let is_own = address
            .is_some_and(|address| (address.product, address.name) == (id.product(), id.name()));
        if !is_own || !self.shared.desk.as_ref().is_some_and(Desk::answers) {
            return;
        }
        let Some(request) = Request::read(kind, &publish.payload) else {
            return;
        };
        let behind = self.behind.0.get_or_insert_default();
        if behind.jobs.len() < REQUESTS_MAX {
            behind.jobs.push_back(Job::Request(request));
            self.work();
        }
    }

    /// The bindings of the device have changed, or may have.
    pub(super) fn handle_rebound(&mut self, rebound: Rebound) {
        if rebound == Rebound::Perhaps && self.sender.device.sub_devices.is_empty() {
            return;
        }
        let behind = self.behind.0.get_or_insert_default();
        // One look-up tells of all changes before it.
        if !behind.jobs.iter().any(|job| matches!(job, Job::LookUp)) {
            behind.jobs.push_back(Job::LookUp);
        }
        self.work();
    }

    pub(super) fn handle_worked(&mut self, worked: Worked) {
        if let Some(sub_devices) = worked.sub_devices {
            self.set_sub_devices(sub_devices);
        }
        if let (Some((verb, Some(answer))), Some(desk)) = (worked.request, &self.shared.desk) {
            let (desk, id) = (desk.clone(), self.sender.device.id.clone());
            let number = telemetry::random_u64();
            let answer = async move {
                desk.answer(&id, verb, &format!("{number:016x}"), answer)
                    .await;
            };
            let tasks = &self.shared.tasks;
            tasks.spawn("topology answer", OnExit::Log, answer);
        }
        self.work();
    }

    /// Begins what waits, unless something is under way.
    fn work(&mut self) {
        let (Some(behind), Some(desk)) = (&mut self.behind.0, &self.shared.desk) else {
            return;
        };
        if behind.working.is_some() {
            return;
        }
        let Some(job) = behind.jobs.pop_front() else {
            // An ordinary device keeps no room for what it asked once.
            self.behind.0.take_if(|behind| behind.online.is_empty());
            return;
        };
        let (desk, status) = (desk.clone(), self.shared.status.clone());
        let id = self.sender.device.id.clone();
        behind.working = Some(match job {
            Job::LookUp => Box::pin(look_up(desk, id)),
            Job::Lost(lost) => Box::pin(say_lost(status, lost)),
            Job::Request(request) => match (request.verb, &request.devices) {
                (Verb::Online | Verb::Offline, Some(named)) => {
                    let bound = &self.sender.device.sub_devices;
                    let (said, code) = behind.say(request.verb, named, bound, &self.connection);
                    Box::pin(say(status, request, said, code))
                }
                _ => Box::pin(async move {
                    let Bound {
                        answer,
                        sub_devices,
                    } = desk.handle(&id, &request).await;
                    Worked {
                        sub_devices,
                        request: Some((request.verb, answer)),
                    }
                }),
            },
        });
    }

    /// Acts for these sub-devices from now on, and for no others.
    fn set_sub_devices(&mut self, sub_devices: Arc<[DeviceId]>) {
        if self.sender.device.sub_devices == sub_devices {
            return;
        }
        self.set_device(Device {
            sub_devices,
            ..self.sender.device.clone()
        });
        self.withdraw_asks();
        let bound = &self.sender.device.sub_devices;
        if let Some(behind) = &mut self.behind.0 {
            let lost = behind.online.extract_if(.., |id, _| !bound.contains(id));
            let lost: Vec<_> = lost.map(|(_, connection)| connection).collect();
            if !lost.is_empty() {
                behind.jobs.push_front(Job::Lost(lost));
            }
        }
    }
}

impl SubDevices {
    /// Notes which sub-devices are online and which are not, as far as the gateway device may say so; gives those that were not so before.
    fn say(
        &mut self,
        verb: Verb,
        named: &[Named],
        bound: &[DeviceId],
        gateway: &Connection,
    ) -> (Vec<Arc<Connection>>, Code) {
        let (mut said, mut code) = (Vec::new(), Code::Ok);
        for Named { device, .. } in named {
            if !bound.contains(device) {
                code = Code::NotBound;
            } else if verb == Verb::Offline {
                said.extend(self.online.remove(device));
            } else if !self.online.contains_key(device) {
                self.count += 1;
                let connection = Arc::new(Connection {
                    device: device.clone(),
                    connection_id: format!("{}/{}", gateway.connection_id, self.count).into(),
                    connected_at_ms: telemetry::now_unix_ms(),
                    ..gateway.clone()
                });
                said.push(Arc::clone(&connection));
                self.online.insert(device.clone(), connection);
            }
        }
        (said, code)
    }
}

/// A gateway device was lost with its node, which alone knew who was online behind it: all that are bound to it are said to be gone.
pub(super) async fn lose(shared: &Shared, gateway: &Connection) {
    let Some(sub_devices) = find(shared, &gateway.device).await else {
        tracing::error!(gateway = %gateway.device, "sub-devices of a lost gateway device not told disconnected");
        return;
    };
    let lost = sub_devices.iter().map(|device| Connection {
        device: device.clone(),
        connection_id: format!("{}/lost", gateway.connection_id).into(),
        ..gateway.clone()
    });
    let lost: Vec<_> = lost.map(Arc::new).collect();
    shared
        .status
        .all_disconnected(&lost, CloseReason::GatewayLost)
        .await;
}

/// The sub-devices of a gateway device that is not connected; none if the catalogue does not answer for long.
pub(super) async fn find(shared: &Shared, gateway: &DeviceId) -> Option<Arc<[DeviceId]>> {
    let Some(desk) = &shared.desk else {
        return Some([].into());
    };
    let found = look_up(desk.clone(), gateway.clone());
    let found = timeout(LOST_MAX, found).await.ok()?;
    found.sub_devices
}

async fn look_up(desk: Desk, gateway: DeviceId) -> Worked {
    loop {
        match desk.sub_devices(&gateway).await {
            Ok(sub_devices) => {
                return Worked {
                    sub_devices: Some(sub_devices),
                    request: None,
                };
            }
            Err(error) => {
                tracing::warn!(%gateway, %error, "sub-devices not known yet");
                sleep(RETRY).await;
            }
        }
    }
}

async fn say(status: Status, request: Request, said: Vec<Arc<Connection>>, code: Code) -> Worked {
    match request.verb {
        Verb::Offline => status.all_disconnected(&said, CloseReason::Normal).await,
        _ => {
            for connection in &said {
                let [slot] = status.slots().await;
                status.connected(slot, connection);
            }
        }
    }
    let named = request.devices.iter().flatten();
    let named: Vec<_> = named.map(|named| named.device.clone()).collect();
    Worked {
        sub_devices: None,
        request: Some((request.verb, request.answer(code, &named))),
    }
}

async fn say_lost(status: Status, lost: Vec<Arc<Connection>>) -> Worked {
    status.all_disconnected(&lost, CloseReason::Revoked).await;
    Worked {
        sub_devices: None,
        request: None,
    }
}
