//! Jetway, an IoT device message gateway for NATS JetStream: devices speak MQTT, services speak NATS.
//!
#![doc = include_str!("ARCHITECTURE.md")]

// In the order of the data flow.
pub mod net;

pub mod mqtt;

pub mod session;

pub mod auth;
pub mod catalogue;

pub mod mapping;

pub mod thing;

pub mod position;

pub mod broker;
pub mod jetstream;

pub mod connection;
pub mod protection;
pub mod registry;
pub mod router;

pub mod dlq;
pub mod downlink;
pub mod events;
pub mod expiry;
pub mod gps;
pub mod health;
pub mod jobs;
pub mod outbox;
pub mod ownership;
pub mod rpc;
pub mod status;
pub mod topology;
pub mod uplink;

pub mod consumer;

pub mod admin;
pub mod cli;
pub mod config;
pub mod gateway;

pub mod access;
pub mod database;
pub mod delivery;
pub mod device;
pub mod event;
pub mod message;
pub mod schema;
pub mod tasks;
pub mod telemetry;
