//! Compiles the protobuf schemas beside this file, in Rust: no `protoc` is needed. Messages become Rust, events descriptors.

use std::error::Error;
use std::path::PathBuf;

const MESSAGES: [&str; 1] = ["proto/jetway/v1/device_message.proto"];
const EVENTS: &str = "proto/jetway/v1/events.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(MESSAGES, ["proto"])?;
    prost_build::Config::new()
        .bytes(["."]) // payloads are not copied out of the message
        .compile_fds(descriptors)?;
    let events = protox::Compiler::new(["proto"])?
        .include_imports(true)
        .include_source_info(true) // comments are the descriptions of fields
        .open_file(EVENTS)?
        .encode_file_descriptor_set();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("events.fds"), events)?;
    Ok(())
}
