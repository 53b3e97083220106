//! `/live?topics=a,b`: one stream a page. Topics are rendered by `web::live` at most once a second; the session is checked
//! again each minute; every stream ends when the server stops.
use crate::app::App;
use crate::error::AppError;
use crate::http::auth::CurrentUser;
use crate::http::body::Asked;
use crate::service::auth;
use crate::service::live::{Frame, Live, Subscription, Topic};
use axum::extract::State;
use axum::http::HeaderName;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

/// Shortest time between two renders of a topic.
const TICK: Duration = Duration::from_secs(1);
/// How often an open stream looks whether its session is still valid.
const SESSION_CHECK: Duration = Duration::from_secs(60);
/// Topics of one page.
const TOPICS_MAX: usize = 16;
/// A comment so often, so that proxies keep the stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Query of `/live`.
#[derive(serde::Deserialize)]
pub struct LiveQuery {
    /// Comma-separated.
    topics: String,
    /// The default cluster when absent.
    cluster: Option<String>,
}

struct Stream {
    app: App,
    actor: auth::Actor,
    subscription: Subscription,
    ready: VecDeque<Frame>,
    session_check: tokio::time::Interval,
    ended: bool,
}

/// The stream.
///
/// # Errors
/// [`AppError::NotFound`] for another cluster; [`AppError::Invalid`]; [`AppError::Conflict`] when too many are open.
pub async fn stream(
    user: CurrentUser,
    State(app): State<App>,
    Asked(query): Asked<LiveQuery>,
) -> Result<Response, AppError> {
    let cluster = app.cluster(query.cluster.as_deref())?.key.clone();
    let names: Vec<&str> = query.topics.split(',').filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > TOPICS_MAX || names.iter().any(|name| name.len() > 200) {
        return Err(AppError::field("topics", "name 1 to 16 topics"));
    }
    let topics =
        names.iter().map(|name| Topic { cluster: cluster.clone(), name: (*name).to_owned() }).collect();
    let subscription = Live::subscribe(&app, topics);
    let subscription =
        subscription.ok_or_else(|| AppError::Conflict("too many live pages are open".into()))?;
    let session_check = tokio::time::interval_at(tokio::time::Instant::now() + SESSION_CHECK, SESSION_CHECK);
    let ready = subscription.all().into();
    let state = Stream { app, actor: user.0, subscription, ready, session_check, ended: false };
    let events = futures_util::stream::unfold(state, next);
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response())
}

async fn next(mut stream: Stream) -> Option<(Result<Event, Infallible>, Stream)> {
    if stream.ended {
        return None;
    }
    loop {
        if let Some(frame) = stream.ready.pop_front() {
            let event = Event::default().id(frame.id.to_string()).data(frame.html.as_ref());
            return Some((Ok(event), stream));
        }
        let app = stream.app.clone();
        tokio::select! {
            frames = stream.subscription.next() => stream.ready.extend(frames),
            () = app.stopped() => stream.ended = true,
            _ = stream.session_check.tick() => {
                stream.ended = !auth::still_signed_in(&app, &stream.actor).await.unwrap_or(false);
            }
        }
        if stream.ended {
            return Some((Ok(Event::default().event("done").data("bye")), stream));
        }
    }
}

/// Renders every topic that somebody looks at, once a tick, until the server stops.
pub async fn run(app: App) {
    loop {
        tokio::select! {
            () = app.live.wait_for_interest() => {}
            () = app.stopped() => return,
        }
        for topic in app.live.wanted_topics() {
            match crate::web::live(&app, &topic).await {
                Ok(Some(html)) => app.live.publish(&topic, &html),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(topic = %topic.name, cause = %error.cause_chain(), "not rendered")
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = app.stopped() => return,
        }
    }
}
