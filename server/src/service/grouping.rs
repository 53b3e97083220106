//! Ways to divide this machine into failure domains, from the disks that could be claimed and the files that are planned.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::draft::{self, DraftDisk};
use crate::service::{inventory, policies};
use ::inventory::grouping::{Grouping, Member, propose};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Proposals, finest first, each with what every policy gets from it.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn proposals(app: &App, cluster: &Cluster) -> Result<Vec<Grouping>, AppError> {
    let draft = draft::load(app, &cluster.key).await?.draft;
    let seen = inventory::look(app).await;
    let mut members: Vec<Member> =
        seen.disks().filter(|disk| disk.can_be_claimed()).map(Member::from).collect();
    // The files of a lab play hosts of their own; only files of this machine's hosts are its disks.
    if draft.lab.is_none() {
        members.extend(draft.disks.iter().filter(|disk| disk.review.is_none()).map(file_member));
    }
    Ok(propose(&members, &policies::all(app, cluster).await?))
}

/// A file: all files on one file system are one body.
fn file_member(disk: &DraftDisk) -> Member {
    let path = Path::new(&disk.path);
    let meta = path.metadata().or_else(|_| path.parent().unwrap_or(path).metadata());
    Member {
        id: disk.id,
        name: disk.name.clone(),
        size_bytes: disk.size_bytes,
        media: disk.media,
        body: meta.map_or_else(|_| disk.path.clone(), |meta| format!("file system {}", meta.dev())),
        controller: None,
        enclosure: None,
    }
}
