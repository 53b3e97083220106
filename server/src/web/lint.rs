//! What no compiler checks about templates and static files: idioms of the old htmx, anything inline, unescaped values, names of
//! files and icons that do not exist, vendored files that were changed.
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn files(folder: &Path, extension: &str, into: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, into);
        } else if path.extension().is_some_and(|found| found == extension) {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            into.push((path, text));
        }
    }
}

fn templates() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join("templates"), "html", &mut found);
    assert!(found.len() > 20, "walked the wrong folder");
    found
}

/// Whether `text` has an event handler attribute (` onclick=`), and which.
fn handler(text: &str) -> Option<&str> {
    text.match_indices(" on").map(|(at, _)| &text[at + 1..]).find_map(|rest| {
        let name = rest.split('=').next().filter(|name| name.len() < rest.len())?;
        let is_name = name.len() > 3 && name.bytes().all(|byte| byte.is_ascii_lowercase());
        is_name.then_some(name)
    })
}

/// What is wrong with a template, in words.
fn faults(text: &str) -> Vec<String> {
    const FORBIDDEN: [(&str, &str); 20] = [
        ("hx-ext=", "htmx 2: extensions are named in the config"),
        ("sse-connect=", "htmx 2: hx-sse:connect"),
        ("sse-swap", "htmx 2: unnamed messages are swapped"),
        ("hx-disabled-elt", "htmx 2: hx-disable"),
        ("hx-inherit", "htmx 2: inheritance is explicit"),
        ("hx-disinherit", "htmx 2: inheritance is explicit"),
        ("hx-params", "htmx 2"),
        ("hx-vars", "htmx 2"),
        ("hx-request=", "htmx 2"),
        ("hx-on", "blocked by the content security policy"),
        ("\"js:", "blocked by the content security policy"),
        ("'js:", "blocked by the content security policy"),
        (" style=", "inline style is ignored under the content security policy"),
        ("<style", "inline style is ignored under the content security policy"),
        ("|safe", "unescaped"),
        ("| safe", "unescaped"),
        ("javascript:", "blocked by the content security policy"),
        ("window.confirm", "consequences are a page"),
        ("http-equiv", "headers are set by the server"),
        ("{% autoescape", "unescaped"),
    ];
    let mut faults: Vec<String> = FORBIDDEN
        .iter()
        .filter(|(word, _)| text.contains(word))
        .map(|(word, why)| format!("{word}: {why}"))
        .collect();
    faults.extend(handler(text).map(|name| format!("{name}=: blocked by the content security policy")));
    if text
        .match_indices("<script")
        .any(|(at, _)| !text[at..].split('>').next().unwrap_or_default().contains("src="))
    {
        faults.push("<script> without src".into());
    }
    let filtered = text
        .match_indices("hx-trigger=\"")
        .any(|(at, word)| text[at + word.len()..].split('"').next().unwrap_or_default().contains('['));
    if filtered {
        faults.push("hx-trigger with a filter: fails silently under the content security policy".into());
    }
    faults
}

#[test]
fn templates_keep_the_rules() {
    let mut found = Vec::new();
    for (path, text) in templates() {
        found.extend(faults(&text).into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_rule_can_fail() {
    for bad in [
        "<p style=\"x\">",
        "<a onclick=\"x\">",
        "<script>x</script>",
        "{{ x|safe }}",
        "<b hx-trigger=\"click[ctrlKey]\">",
        "<b hx-ext=\"sse\">",
        "<b hx-on:click=\"x\">",
    ] {
        assert!(!faults(bad).is_empty(), "{bad}");
    }
    assert!(faults("<script defer src=\"a.js\"></script> <p>based on a=b</p>").is_empty());
}

#[test]
fn names_of_assets_and_icons_exist() {
    let sprite = std::fs::read_to_string(root().join("static/icons.svg")).expect("the sprite");
    let mut missing = Vec::new();
    for (path, text) in templates() {
        for word in ["icon::icon(\"", "icon::small(\"", "icon::large(\""] {
            for (at, _) in text.match_indices(word) {
                let name = text[at + word.len()..].split('"').next().unwrap_or_default();
                if !sprite.contains(&format!("id=\"{name}\"")) {
                    missing.push(format!("{}: icon {name}", path.display()));
                }
            }
        }
        for (at, word) in text.match_indices("assets::asset(\"") {
            let name = text[at + word.len()..].split('"').next().unwrap_or_default();
            if !crate::http::assets::exists(name) {
                missing.push(format!("{}: file {name}", path.display()));
            }
        }
    }
    for tone in crate::web::parts::Tone::ALL {
        assert!(sprite.contains(&format!("id=\"{}\"", tone.icon())), "{tone:?}");
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// `path` and `sha256` of every file that a VENDOR.toml names.
fn vendored(text: &str) -> BTreeMap<&str, &str> {
    let mut listed = BTreeMap::new();
    let mut path = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("path = \"") {
            path = name.trim_end_matches('"');
        } else if let Some(hash) = line.strip_prefix("sha256 = \"") {
            listed.insert(path, hash.trim_end_matches('"'));
        }
    }
    listed
}

#[test]
fn vendored_files_are_those_that_were_fetched() {
    for folder in ["static/vendor", "tests/vendor"] {
        let folder = root().join(folder);
        let text = std::fs::read_to_string(folder.join("VENDOR.toml")).expect("VENDOR.toml");
        let listed = vendored(&text);
        assert!(listed.len() >= 3, "{listed:?}");
        for (path, hash) in &listed {
            let bytes = std::fs::read(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(*hash, found, "{path} is not the file that was fetched");
        }
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            assert!(
                name == "VENDOR.toml" || listed.contains_key(name.as_str()),
                "{name} is not in VENDOR.toml"
            );
        }
    }
}
