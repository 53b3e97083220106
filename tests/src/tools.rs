//! Running other programs, with what they printed in the message when they fail.
use std::process::{Command, Output, Stdio};

/// Runs a program to its end and answers what it printed.
pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{program} cannot be started ({error}); tests/run installs it"))
}

/// Runs a program that must succeed; answers its standard output.
pub fn ok(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {} failed with {}\n{stdout}\n{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// A file of pseudo-random bytes that do not compress, the same for the same seed.
pub fn random_file(path: &std::path::Path, size_bytes: usize, seed: u64) {
    let mut bytes = Vec::with_capacity(size_bytes);
    let mut state = seed | 1;
    while bytes.len() < size_bytes {
        // xorshift64*: enough to tell any two blocks apart.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(size_bytes);
    std::fs::write(path, bytes).expect("write the random file");
}
