//! The page, or for htmx the fragment, of a failure: one safe sentence, what to do, the request id.
use crate::error::FieldError;
use crate::http::failure::Failure;
use crate::web::shell::Shell;
use askama::Template;
use axum::http::StatusCode;
use model::placement::Refusal;

#[derive(Template)]
#[template(path = "failure.html")]
struct FailurePage<'a> {
    shell: Shell,
    status: u16,
    title: &'static str,
    detail: &'a str,
    errors: &'a [FieldError],
    refusal: &'a Option<Refusal>,
    request_id: &'a str,
}

#[derive(Template)]
#[template(
    source = r#"<div class="summary" role="alert" tabindex="-1" data-autofocus><h2>{{ title }}</h2><p>{{ detail }}</p><p class="tiny">Request <code>{{ request_id }}</code></p></div>"#,
    ext = "html"
)]
struct FailureFragment<'a> {
    title: &'static str,
    detail: &'a str,
    request_id: &'a str,
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "There is no such page",
        StatusCode::FORBIDDEN => "You may not do this",
        StatusCode::CONFLICT => "This does not fit the present state",
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => "The request is not right",
        StatusCode::METHOD_NOT_ALLOWED => "This address does not take that",
        StatusCode::TOO_MANY_REQUESTS => "Too many tries",
        StatusCode::NOT_IMPLEMENTED => "Not there yet",
        StatusCode::SERVICE_UNAVAILABLE => "The storage engine does not answer",
        _ => "Something went wrong",
    }
}

/// The page (or, for htmx, what goes into the page that it holds) of a failure.
pub fn failure(failure: &Failure, request_id: &str, fragment: bool) -> String {
    let title = title(failure.status);
    let capital: String = failure.detail.chars().take(1).flat_map(char::to_uppercase).collect();
    let detail = format!("{capital}{}", failure.detail.chars().skip(1).collect::<String>());
    let rendered = if fragment {
        FailureFragment { title, detail: &detail, request_id }.render()
    } else {
        let page = FailurePage {
            shell: Shell::bare(),
            status: failure.status.as_u16(),
            title,
            detail: &detail,
            errors: &failure.errors,
            refusal: &failure.refusal,
            request_id,
        };
        page.render()
    };
    rendered.unwrap_or_else(|_| failure.status.to_string())
}
