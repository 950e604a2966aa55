//! What the integration tests share: real servers, real clients, and waiting on conditions.
//!
//! Nothing here is a mock. A helper panics with a text that says what was expected and what was seen; a server that
//! belongs to a failed test prints the end of its log. Include it with `#[path = "../support/mod.rs"] mod support;`.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test program uses a part of this module"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed assumption of a test ends the test"
)]

mod backend;
mod client;
mod device;
mod fault_proxy;
mod gateway;
pub mod http;
mod kafka;
mod mariadb;
mod nats_cluster;
mod nats_server;
pub mod packet;
pub mod pki;
mod port;
mod postgres;
mod rabbitmq;
mod reason;
mod redis;
mod scram;
mod server;
mod soak;
mod tools;
mod wait;
mod wire;

pub use backend::{Backend, Stored};
pub use device::{Acked, Closed, Connect, Credentials, Device, Protocol, Publish, Received};
pub use fault_proxy::FaultProxy;
pub use gateway::{DemoDevice, DevOptions, Gateway, Listening, Ready, RunOptions};
pub use http::get as http_get;
pub use kafka::Kafka;
pub use mariadb::MariaDb;
pub use nats_cluster::{NatsCluster, SERVERS};
pub use nats_server::{NatsServer, binary as nats_server_binary};
pub use port::free_ports;
pub use postgres::Postgres;
pub use rabbitmq::RabbitMq;
pub use redis::Redis;
pub use scram::Scram;
pub use server::{Program, Server};
pub use soak::{Random, goes_on, soak};
pub use tools::{jetway, jetway_fails, node, node_packages, old_nats_server, python, succeed};
pub use wait::{DEADLINE, eventually, lasting, within, within_time};
pub use wire::{Stream, Wire, from_hex, to_hex};
