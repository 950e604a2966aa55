//! Jetway, an IoT device message gateway for NATS JetStream: devices speak MQTT, services speak NATS.

pub mod auth;
pub mod device;
pub mod jetstream;
pub mod mapping;
pub mod message;
pub mod mqtt;
pub mod session;
pub mod tasks;
pub mod telemetry;
