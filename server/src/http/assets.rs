//! Static files, inside the binary. `asset("app.css")` gives an address with a hash of the content, which never changes and
//! may be kept for a year; the plain name is for fonts and icons that other files refer to.
use crate::error::AppError;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(rust_embed::Embed)]
#[folder = "../static/"]
struct Static;

/// Hex digits of the hash in an address.
const HASH_DIGITS: usize = 8;

struct Table {
    /// `app.css` → `app.1a2b3c4d.css`
    hashed: BTreeMap<String, String>,
    /// `app.1a2b3c4d.css` → `app.css`
    plain: BTreeMap<String, String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { hashed: BTreeMap::new(), plain: BTreeMap::new() };
    for name in Static::iter() {
        let Some(file) = Static::get(&name) else { continue };
        let hash = etag(&file);
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, "bin"));
        let hashed = format!("{stem}.{}.{extension}", &hash[..HASH_DIGITS]);
        table.plain.insert(hashed.clone(), name.to_string());
        table.hashed.insert(name.to_string(), hashed);
    }
    table
});

fn etag(file: &rust_embed::EmbeddedFile) -> String {
    file.metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Address of a static file, for templates. A name that does not exist gives its plain address, which answers 404; a test
/// of the templates finds it.
pub fn asset(name: &str) -> String {
    format!("/static/{}", TABLE.hashed.get(name).map_or(name, String::as_str))
}

/// Whether `asset(name)` names a file.
pub fn exists(name: &str) -> bool {
    TABLE.hashed.contains_key(name)
}

/// A static text file as it is; empty when there is none of that name.
pub fn text(name: &str) -> String {
    Static::get(name).map(|file| String::from_utf8_lossy(&file.data).into_owned()).unwrap_or_default()
}

/// Serves `/static/{*path}`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn serve(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, AppError> {
    let plain = TABLE.plain.get(&path);
    let name = plain.map_or(path.as_str(), String::as_str);
    let file = Static::get(name).ok_or_else(|| AppError::NotFound("this file".into()))?;
    let tag = format!("\"{}\"", etag(&file));
    let cache = if plain.is_some() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if known == Some(tag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let mime = mime_guess::from_path(name).first_or_octet_stream().to_string();
    let headers =
        [(header::CONTENT_TYPE, mime), (header::ETAG, tag), (header::CACHE_CONTROL, cache.to_owned())];
    Ok((headers, file.data).into_response())
}
