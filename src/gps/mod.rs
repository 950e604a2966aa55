//! FLOW: where devices say that they are (stream `DEVICE_UP`) to rows and outbox rows in one transaction, each exactly once.

pub mod store;
