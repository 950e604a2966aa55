//! The codec alone: the module imports nothing of the project, and without the rest the sanitizer has little to build.

#[path = "../../src/mqtt/mod.rs"]
pub mod mqtt;
