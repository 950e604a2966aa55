//! The whole gateway from outside: real sockets, real devices (rumqttc for MQTT 3.1.1 and 5), a real nats-server and the
//! program as an operator starts it. A file per flow; names in comments (G05, G-STORE) are the promises that are tested.

#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod authentication;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod downlink;
#[cfg(test)]
mod downlink_limits;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod events;
#[cfg(test)]
mod exactly_once;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod explained;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod login;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod open;
#[cfg(test)]
mod open_delivery;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod packet_size;
#[cfg(test)]
mod reauthentication;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod retained;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod rpc;
#[cfg(test)]
mod rpc_sub_devices;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod session_present;
#[cfg(test)]
mod site;
#[cfg(test)]
mod status;
#[cfg(test)]
mod storing;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod sub_devices;
#[cfg(test)]
mod subscribe;
#[cfg(test)]
mod too_large;
#[cfg(test)]
mod topic_alias;
#[cfg(test)]
mod uplink;
#[cfg(test)]
mod uplink_refused;
#[cfg(test)]
mod will;
