//! What the product is made of, and how programs speak to it: third-party licences, API reference.
use crate::api::openapi;
use crate::error::AppError;
use crate::http::assets;
use crate::web::html;
use crate::web::shell::{Page, Shell};
use askama::Template;
use axum::response::Response;
use serde_json::Value;

/// Licence texts of the files that the console sends to browsers: name, what it is, its licence, its text in `static/vendor`.
const SENT: [(&str, &str, &str, &str); 5] = [
    ("htmx 4.0.1 and its SSE extension", "updates parts of pages", "0BSD", "vendor/LICENSE-htmx.txt"),
    ("uPlot 1.6.32", "draws charts", "MIT", "vendor/LICENSE-uplot.txt"),
    ("Lucide 1.62.0", "icons", "ISC", "vendor/LICENSE-lucide.txt"),
    ("Inter", "typeface", "OFL-1.1", "vendor/LICENSE-inter.txt"),
    ("JetBrains Mono", "typeface", "OFL-1.1", "vendor/LICENSE-jetbrains-mono.txt"),
];

/// The lock file that the binary was built with.
const LOCK: &str = include_str!("../../../Cargo.lock");

struct Work {
    name: &'static str,
    what: &'static str,
    licence: &'static str,
    text: String,
}

struct Library {
    name: String,
    version: String,
}

#[derive(Template)]
#[template(path = "third_party.html")]
struct ThirdPartyPage {
    shell: Shell,
    works: Vec<Work>,
    libraries: Vec<Library>,
}

/// Libraries from a registry, by name.
fn libraries(lock: &str) -> Vec<Library> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let blocks = lock.split("[[package]]").filter(|block| block.contains("source = "));
    blocks
        .filter_map(|block| Some(Library { name: value(block, "name")?, version: value(block, "version")? }))
        .collect()
}

/// `GET /third-party`.
///
/// # Errors
/// [`AppError::Internal`] when the template fails.
pub async fn third_party(page: Page) -> Result<Response, AppError> {
    let works =
        SENT.map(|(name, what, licence, path)| Work { name, what, licence, text: assets::text(path) });
    html(&ThirdPartyPage { works: works.into(), libraries: libraries(LOCK), shell: page.shell })
}

struct Call {
    id: String,
    method: String,
    path: String,
    summary: String,
    needs: String,
    takes: Vec<Property>,
    answers: Vec<Property>,
    status: String,
    command: String,
}

struct Property {
    name: String,
    kind: String,
    required: bool,
    what: String,
}

struct Section {
    name: String,
    calls: Vec<Call>,
}

#[derive(Template)]
#[template(path = "api_reference.html")]
struct ApiPage {
    shell: Shell,
    sections: Vec<Section>,
    count: usize,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn schema_name(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()?.rsplit('/').next()
}

fn kind(schema: &Value) -> String {
    if let Some(name) = schema_name(schema) {
        return name.to_owned();
    }
    let first = |value: &Value| match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        other => text(other),
    };
    match (schema.get("type").map(first), schema.get("items")) {
        (Some(word), Some(items)) if word.starts_with("array") => format!("list of {}", kind(items)),
        (Some(word), _) => word,
        (None, _) => "any".into(),
    }
}

/// Properties of the schema that a body refers to; lists are looked into.
fn properties(document: &Value, body: &Value) -> Vec<Property> {
    let schema = body.pointer("/content/application~1json/schema").unwrap_or(&Value::Null);
    let named = |schema: &Value| {
        let name = schema_name(schema)?.to_owned();
        document.pointer("/components/schemas")?.get(&name).cloned()
    };
    let found = named(schema).unwrap_or_else(|| schema.clone());
    let required: Vec<&str> = found
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = found.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| Property {
            name: name.clone(),
            kind: kind(schema),
            required: required.contains(&name.as_str()),
            what: text(schema.get("description").unwrap_or(&Value::Null)),
        })
        .collect()
}

fn call(document: &Value, path: &str, method: &str, operation: &Value) -> Call {
    let none = Value::Null;
    let responses = operation.get("responses").and_then(Value::as_object);
    let good = responses.and_then(|all| all.iter().find(|(status, _)| *status != "default"));
    let takes = properties(document, operation.get("requestBody").unwrap_or(&none));
    let upper = method.to_uppercase();
    let body = if takes.is_empty() { "" } else { " -d '{…}'" };
    let verb = if upper == "GET" { String::new() } else { format!("-X {upper} ") };
    Call {
        id: format!("{method}{}", path.replace(['/', '{', '}'], "-")),
        summary: text(operation.get("summary").unwrap_or(&none)),
        needs: text(operation.get("description").unwrap_or(&none)),
        answers: good.map(|(_, response)| properties(document, response)).unwrap_or_default(),
        status: good.map(|(status, _)| status.clone()).unwrap_or_default(),
        command: format!("curl {verb}-H \"Authorization: Bearer $TOKEN\" $MILLPOND{path}{body}"),
        takes,
        method: upper,
        path: path.to_owned(),
    }
}

/// Calls of the default cluster by the first word of their path.
fn sections(document: &Value) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| !path.contains("{cluster}")) {
        let rest = path.strip_prefix("/api/v1/").unwrap_or(path.trim_start_matches('/'));
        let name = rest.split('/').next().unwrap_or_default().to_owned();
        let at = sections.iter().position(|section| section.name == name).unwrap_or_else(|| {
            sections.push(Section { name: name.clone(), calls: Vec::new() });
            sections.len() - 1
        });
        for (method, operation) in item.as_object().into_iter().flatten() {
            if operation.get("responses").is_some() {
                sections[at].calls.push(call(document, path, method, operation));
            }
        }
    }
    sections.sort_by(|left, right| left.name.cmp(&right.name));
    sections
}

/// `GET /api-reference`.
///
/// # Errors
/// [`AppError::Internal`] when the document cannot be read.
pub async fn api_reference(page: Page) -> Result<Response, AppError> {
    let document: Value = serde_json::from_str(openapi::DOCUMENT).map_err(AppError::internal)?;
    let sections = sections(&document);
    let count = sections.iter().map(|section| section.calls.len()).sum();
    html(&ApiPage { sections, count, shell: page.shell })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn licences_are_shipped_with_their_texts() {
        for (name, _, _, path) in SENT {
            assert!(assets::text(path).len() > 200, "{name}");
        }
        let page = Console::sample().await.get("/third-party").await;
        shows(&page, &["Permission is hereby granted", "SIL OPEN FONT LICENSE", "axum", "tokio"]);
    }

    #[tokio::test]
    async fn the_reference_describes_what_is_served() {
        let page = Console::sample().await.get("/api-reference").await;
        shows(
            &page,
            &["/api/v1/volumes/{name}", "size_bytes", "role `operator`", "application/problem+json"],
        );
        assert!(!page.1.contains("{cluster}/"));
    }
}
