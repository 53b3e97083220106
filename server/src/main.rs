//! Millpond: console, API, storage engine and command line in one program.
fn main() -> std::process::ExitCode {
    millpond::cli::main()
}
