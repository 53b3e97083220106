//! Style that no compiler checks: lengths, layering, leftovers, licences and duplicates of dependencies.
//!
//! Each rule is a line of a table; a finding names file, line and reason.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 140;

/// (path prefix, forbidden text, why). Comments do not count.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("engine/model/src", "tokio", "model does no I/O"),
    ("engine/model/src", "std::fs", "model does no I/O"),
    ("engine/model/src", "std::net", "model does no I/O"),
    ("engine/model/src", "sqlx", "model knows no SQL"),
    ("engine/inventory/src", "tokio", "the inventory is plain blocking code"),
    ("engine/inventory/src", "axum", "the inventory knows no HTTP"),
    ("engine/inventory/src", "sqlx", "the inventory knows no SQL"),
    ("engine/inventory/src", ".write(true)", "the inventory never writes"),
    ("engine/native/src", "axum", "the engine knows no HTTP"),
    ("engine/native/src", "sqlx", "the engine never reads SQLite"),
    ("server/src/web", "sqlx", "SQL lives in server/src/db"),
    ("server/src/api", "sqlx", "SQL lives in server/src/db"),
    ("server/src/service", "sqlx", "SQL lives in server/src/db"),
    ("server/src/service", "axum", "services know no HTTP"),
    ("server/src/db", "axum", "the database knows no HTTP"),
    ("", concat!("db", "g!("), "leftover"),
    ("", concat!("to", "do!("), "leftover"),
    ("", concat!("unimple", "mented!("), "leftover"),
    ("", concat!("FIX", "ME"), "leftover"),
];

/// Layers of the native engine, bottom up: a module uses only those before it. `sim` may use all, nothing uses it.
const NATIVE_LAYERS: &[&str] = &["fmt", "io", "cap", "dg", "nbd", "obj", "cluster", "sim"];

/// Crates of ours and what they may import of ours.
const CRATES: &[(&str, &[&str])] = &[
    ("millpond-model", &[]),
    ("millpond-inventory", &["millpond-model"]),
    ("millpond-native", &["millpond-model"]),
    ("millpond", &["millpond-inventory", "millpond-model", "millpond-native"]),
    ("millpond-tests", &[]),
];

/// Licences that may be linked into the binary.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "Unicode-3.0",
    "BSL-1.0",
    "MIT-0",
    "CDLA-Permissive-2.0",
    "BlueOak-1.0.0",
];

/// Crates that stand twice in the lock file because two dependencies of ours want different ones. Anything else is a finding.
const DUPLICATES_MAX: usize = 24;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn sources() -> Vec<(String, String)> {
    fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("read a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("vendor") && !path.ends_with("target") {
                collect(&path, into);
            } else if path.extension().is_some_and(|extension| {
                ["rs", "css", "js", "html", "sql"].iter().any(|known| extension == *known)
            }) {
                into.push(path);
            }
        }
    }
    let root = root();
    let mut files = Vec::new();
    for folder in ["engine", "server", "tests", "templates", "static", "migrations"] {
        collect(&root.join(folder), &mut files);
    }
    assert!(files.len() > 30, "walked the wrong folder");
    files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, text)
        })
        .collect()
}

fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

fn report(faults: &[String]) {
    assert!(faults.is_empty(), "{} findings\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{name}: {lines} lines, at most {LINES_MAX}"));
        }
        if name.ends_with(".rs") {
            if !text.trim_start().starts_with("//!") {
                faults.push(format!("{name}: no module comment"));
            }
            for (index, line) in text.lines().enumerate() {
                if line.chars().count() > COLUMNS_MAX && !line.contains("http") && !line.contains('"') {
                    faults.push(format!("{name}:{}: longer than {COLUMNS_MAX} columns", index + 1));
                }
            }
        }
    }
    report(&faults);
}

#[test]
fn layers_are_kept_and_nothing_is_left_over() {
    let mut faults = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| name.ends_with(".rs") && name != "tests/tidy.rs")
    {
        for (index, line) in text.lines().enumerate() {
            let code = code_of(line);
            for (prefix, word, why) in FORBIDDEN {
                if name.starts_with(prefix) && code.contains(word) {
                    faults.push(format!("{name}:{}: `{word}`: {why}", index + 1));
                }
            }
            if name.starts_with("server/src") && name != "server/src/engines.rs" && code.contains("native::")
            {
                faults.push(format!("{name}:{}: only engines.rs names an engine crate", index + 1));
            }
        }
    }
    report(&faults);
}

#[test]
fn modules_of_the_native_engine_never_look_up() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let Some(rest) = name.strip_prefix("engine/native/src/") else { continue };
        let layer = rest.split('/').next().unwrap_or_default();
        let Some(height) = NATIVE_LAYERS.iter().position(|known| *known == layer) else { continue };
        // Tests stand beside the code and may look anywhere.
        if rest.contains("test") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            for upper in &NATIVE_LAYERS[height + 1..] {
                if code_of(line).contains(&format!("crate::{upper}::")) {
                    faults.push(format!(
                        "{name}:{}: `{layer}` uses `{upper}`, which stands above it",
                        index + 1
                    ));
                }
            }
        }
    }
    report(&faults);
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // What other systems need is not there when only this one was built.
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn crates_import_only_what_the_charter_allows() {
    let metadata = metadata();
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else { continue };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            if used.starts_with("millpond") && !allowed.contains(&used) {
                faults.push(format!("{name} imports {used}"));
            }
        }
    }
    report(&faults);
}

#[test]
fn dependencies_have_known_licences() {
    let metadata = metadata();
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let expression = package["license"].as_str().unwrap_or_default();
        // Any of the alternatives will do; of a conjunction all must be known.
        let fine = expression
            .replace('/', " OR ")
            .replace(['(', ')'], "")
            .split(" OR ")
            .any(|alternative| alternative.split(" AND ").all(|one| LICENCES.contains(&one.trim())));
        if !fine {
            faults.push(format!("{name}: licence {expression:?} is not on the list"));
        }
    }
    report(&faults);
}

#[test]
fn few_dependencies_stand_twice() {
    let metadata = metadata();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        versions.entry(name).or_default().insert(package["version"].as_str().expect("a version"));
    }
    let twice: Vec<String> = versions
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| format!("{name} {versions:?}"))
        .collect();
    assert!(twice.len() <= DUPLICATES_MAX, "{} crates stand twice:\n{}", twice.len(), twice.join("\n"));
}
