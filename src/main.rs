//! The `jetway` program: arguments, then the command that they name.

use std::process::ExitCode;

use clap::Parser;
use jetway::cli;

/// Returns freed memory and counts what is held; idle connections are most of a gateway's memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> ExitCode {
    cli::execute(cli::Cli::parse()).await
}
