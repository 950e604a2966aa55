//! The whole gateway from outside: real sockets, real devices (rumqttc for MQTT 3.1.1 and 5), a real nats-server and the
//! program as an operator starts it. A file per flow; names in comments (G05, G-STORE) are the promises that are tested.

#[path = "../support/mod.rs"]
mod support;

mod downlink;
mod downlink_limits;
mod login;
mod site;
mod storing;
mod subscribe;
mod uplink;
mod uplink_refused;
