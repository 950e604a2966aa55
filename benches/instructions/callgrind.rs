//! Runs this program under callgrind and reads what it counted.
//!
//! Counts do not depend on the machine. valgrind tells the program what the real processor can do, and the C library has a memory
//! copy for each kind: it is told to do without. What is left are the session's hash seeds, which move its counts by less than 1 %.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::baseline::Count;

/// Without these the C library takes the copies that every x86-64 processor can run.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX2,-ERMS";
/// What allocates: the C library's functions below Rust's allocator.
const ALLOCATORS: [&str; 4] = ["malloc", "calloc", "realloc", "posix_memalign"];

/// What each of the cases took, in their order.
pub(crate) fn run(cases: usize, argument: &str) -> Result<Vec<Count>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = std::env::temp_dir().join(format!("jetway-instructions-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let out = folder.join("out");
    let ran = Command::new("valgrind")
        .args(["-q", "--tool=callgrind", "--compress-strings=no"])
        .args(["--dump-before=*::counted", "--dump-after=*::counted"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(argument)
        .env("GLIBC_TUNABLES", TUNABLES)
        .status();
    let counts = match ran {
        Ok(status) if status.success() => (1..=cases)
            // The one before is of what was prepared.
            .map(|number| read(&out.with_extension((2 * number).to_string())))
            .collect(),
        Ok(status) => Err(format!("valgrind ended with {status}")),
        Err(error) => Err(format!("valgrind cannot be started: {error}")),
    };
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    counts
}

fn read(path: &Path) -> Result<Count, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).ok_or_else(|| format!("{}: expected a `totals` line above 0", path.display()))
}

/// Reads the sum of a dump, and the calls of the allocator in it: `cfn=` names a function, the `calls=` after it how often.
fn parse(dump: &str) -> Option<Count> {
    let mut instructions = None;
    let mut allocations = 0;
    let mut called = "";
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix("cfn=") {
            called = name;
        } else if let Some(calls) = line.strip_prefix("calls=")
            && ALLOCATORS.contains(&called)
        {
            allocations += calls.split(' ').next()?.parse::<u64>().ok()?;
        } else if let Some(total) = line.strip_prefix("totals: ") {
            instructions = total.parse().ok();
        }
    }
    instructions
        .filter(|instructions| *instructions > 0)
        .map(|instructions| Count {
            instructions,
            allocations,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_its_sum_and_its_allocations() {
        let dump = "events: Ir\nfn=a\n16 3\ncfn=malloc\ncalls=2 0\n16 40\ncfn=memcpy\ncalls=7 0\n16 9\nfn=b\ncfn=realloc\ncalls=1 0\n\
                    3 8\ntotals: 60\n";
        let expected = Count {
            instructions: 60,
            allocations: 3,
        };
        assert_eq!(parse(dump), Some(expected));
        assert_eq!(parse("totals: 0\n"), None, "nothing was counted");
        assert_eq!(parse("fn=a\n16 3\n"), None);
    }
}
