//! Jetway, an IoT device message gateway for NATS JetStream: devices speak MQTT, services speak NATS.

pub mod device;
pub mod message;
pub mod mqtt;
pub mod session;
