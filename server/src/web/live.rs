//! Live topics: each is rendered once a tick as `<hx-partial>`s, however many people look at it.
use crate::app::App;
use crate::error::AppError;
use crate::service::live::Topic;
use crate::web::{home, lab, performance, resync, tasks, volumes, watch, wizard};

/// Puts rendered blocks into `<hx-partial>`s that morph the elements of those ids.
///
/// # Errors
/// [`AppError::Internal`] when a template failed.
pub fn partials<const N: usize>(blocks: [(&str, askama::Result<String>); N]) -> Result<String, AppError> {
    let mut html = String::new();
    for (id, block) in blocks {
        let block = block.map_err(AppError::internal)?;
        html.push_str(&format!(
            "<hx-partial hx-target=\"#{id}\" hx-swap=\"innerMorph\">{block}</hx-partial>"
        ));
    }
    Ok(html)
}

/// Renders a live topic; `None` for a topic that there is not.
///
/// # Errors
/// Whatever the services say.
pub async fn live(app: &App, topic: &Topic) -> Result<Option<String>, AppError> {
    let cluster = app.cluster(Some(&topic.cluster))?;
    let mut words = topic.name.splitn(3, ':');
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("shell", None, None) => home::live_counts(&cluster).map(Some),
        ("watch", None, None) => watch::live(app, &cluster).await.map(Some),
        ("resync", None, None) => resync::live(app, &cluster).await.map(Some),
        ("tasks", None, None) => tasks::live_list(app, &cluster).await.map(Some),
        ("task", Some(id), None) => tasks::live(app, &cluster, id).await,
        ("lab", None, None) => lab::live(app, &cluster).await.map(Some),
        ("performance", Some(range), Some(entity)) => {
            performance::live(app, &cluster, range, entity).await.map(Some)
        }
        ("dashboard", None, None) => home::live(app, &cluster).await.map(Some),
        ("progress", Some(id), None) => wizard::progress::live(app, &cluster, id).await,
        ("volume", Some(id), show) => volumes::show::live(app, &cluster, id, show.unwrap_or_default()).await,
        _ => Ok(None),
    }
}
