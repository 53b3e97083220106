//! Reads of the projections: keyset pages with allow-lists of sorts and filters. The cursor is opaque to callers.
use super::Views;
use crate::db::{DbError, failed, to_word, word};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::state::{
    Compliance, ComponentState, DiskState, HostState, ObjectHealth, ResyncReason, ResyncState,
};
use model::units::Timestamp;
use model::view::{DiskView, HostView, ResyncItem, Votes};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

/// An object in a list: everything but its tree.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectRow {
    /// Identity.
    pub uuid: model::ids::ObjectId,
    /// Name.
    pub name: String,
    /// The word of its type.
    pub object_type: String,
    /// Size that a client sees.
    pub size_bytes: u64,
    /// Bytes held, counted once.
    pub used_bytes: u64,
    /// Bytes on all disks.
    pub used_raw_bytes: u64,
    /// Policy.
    pub policy: String,
    /// As the policy says?
    pub compliance: Compliance,
    /// Health.
    pub health: ObjectHealth,
    /// Why it is not healthy.
    pub reason: Option<String>,
    /// Readable and writable?
    pub accessible: bool,
    /// Votes.
    pub votes: Votes,
    /// Failures it survives from now on.
    pub tolerates_now: u32,
    /// When repair starts by itself.
    pub repair_at: Option<Timestamp>,
}

/// A component in the list of a host or disk.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentRow {
    /// Identity.
    pub uuid: model::ids::ComponentId,
    /// Its object.
    pub object: model::ids::ObjectId,
    /// Name of the object.
    pub object_name: String,
    /// Only votes?
    pub is_witness: bool,
    /// State.
    pub state: ComponentState,
    /// Host.
    pub host: String,
    /// Disk.
    pub disk: model::ids::DiskId,
    /// Bytes allocated.
    pub used_bytes: u64,
}

/// What lists of objects are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectSort {
    /// By name.
    #[default]
    Name,
    /// Smallest first.
    Size,
    /// Least used first.
    Used,
    /// Worst first.
    Health,
}

impl ObjectSort {
    fn column(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size_bytes",
            Self::Used => "used_bytes",
            Self::Health => "health_rank",
        }
    }
}

/// What lists of objects are narrowed to and sorted by.
#[derive(Clone, Debug, Default)]
pub struct ObjectQuery {
    /// Only this health.
    pub health: Option<ObjectHealth>,
    /// Only this compliance.
    pub compliance: Option<Compliance>,
    /// Only this policy.
    pub policy: Option<String>,
    /// Only names that contain this.
    pub search: Option<String>,
    /// Only objects with a component on this host.
    pub host: Option<String>,
    /// Order.
    pub sort: ObjectSort,
    /// The other way round.
    pub descending: bool,
}

/// Where a page begins, and how long it is.
#[derive(Clone, Debug)]
pub struct Window {
    /// Cursor of the page before.
    pub after: Option<String>,
    /// Rows, 1..=1000.
    pub limit: u32,
}

/// A cursor that is not ours.
#[derive(Debug, thiserror::Error)]
#[error("this cursor is not one that this list gave")]
pub struct BadCursor;

/// Makes a cursor of the last row's sort key and id.
pub fn cursor(key: &serde_json::Value, id: &str) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::json!([key, id]).to_string())
}

/// Reads a cursor.
///
/// # Errors
/// [`BadCursor`].
pub fn read_cursor(text: &str) -> Result<(serde_json::Value, String), BadCursor> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
    let (key, id): (serde_json::Value, String) = serde_json::from_slice(&json).map_err(|_| BadCursor)?;
    if key.is_string() || key.is_i64() { Ok((key, id)) } else { Err(BadCursor) }
}

fn bytes(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(column).map(|value| u64::try_from(value).unwrap_or_default())
}

fn id<T: std::str::FromStr>(table: &'static str, text: &str) -> Result<T, DbError> {
    text.parse().map_err(|_| DbError::Inconsistent { table, row: text.to_owned() })
}

fn read<T>(
    table: &'static str,
    rows: &[SqliteRow],
    one: impl Fn(&SqliteRow) -> Result<Result<T, DbError>, sqlx::Error>,
) -> Result<Vec<T>, DbError> {
    rows.iter().map(|row| one(row).map_err(failed(table))?).collect()
}

/// Cuts the one row too many that says whether there is a next page.
fn page<T>(mut items: Vec<T>, limit: u32, key: impl Fn(&T) -> (serde_json::Value, String)) -> Page<T> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| {
        let (key, id) = key(last);
        cursor(&key, &id)
    });
    Page { items, next }
}

fn push_after(
    sql: &mut QueryBuilder<Sqlite>,
    window: &Window,
    (column, id): (&str, &str),
    descending: bool,
) -> Result<(), BadCursor> {
    let order = if descending { "DESC" } else { "ASC" };
    if let Some(after) = &window.after {
        let (key, last) = read_cursor(after)?;
        let sign = if descending { "<" } else { ">" };
        sql.push(format!(" AND ({column}, {id}) {sign} ("));
        match key.as_i64() {
            Some(number) => sql.push_bind(number),
            None => sql.push_bind(key.as_str().unwrap_or_default().to_owned()),
        };
        sql.push(", ").push_bind(last).push(")");
    }
    sql.push(format!(" ORDER BY {column} {order}, {id} {order} LIMIT "));
    sql.push_bind(i64::from(window.limit) + 1);
    Ok(())
}

/// What a list can fail with.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The cursor is not ours.
    #[error(transparent)]
    Cursor(#[from] BadCursor),
    /// The query failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl Views {
    /// A page of objects.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn objects(
        &self,
        cluster: &str,
        query: &ObjectQuery,
        window: &Window,
    ) -> Result<Page<ObjectRow>, ListError> {
        let mut sql = QueryBuilder::new("SELECT * FROM objects WHERE cluster = ");
        sql.push_bind(cluster.to_owned());
        if let Some(health) = &query.health {
            sql.push(" AND health = ").push_bind(to_word(health));
        }
        if let Some(compliance) = &query.compliance {
            sql.push(" AND compliance = ").push_bind(to_word(compliance));
        }
        if let Some(policy) = &query.policy {
            sql.push(" AND policy = ").push_bind(policy.clone());
        }
        if let Some(search) = &query.search {
            sql.push(" AND instr(lower(name), lower(").push_bind(search.clone()).push(")) > 0");
        }
        if let Some(host) = &query.host {
            sql.push(" AND uuid IN (SELECT object FROM components WHERE cluster = ")
                .push_bind(cluster.to_owned());
            sql.push(" AND host = ").push_bind(host.clone()).push(")");
        }
        push_after(&mut sql, window, (query.sort.column(), "uuid"), query.descending)?;
        let rows = sql.build().fetch_all(&self.pool).await.map_err(failed("object_page"))?;
        let items = read("object_page", &rows, object_row)?;
        let key = |row: &ObjectRow| match query.sort {
            ObjectSort::Name => row.name.clone().into(),
            ObjectSort::Size => row.size_bytes.into(),
            ObjectSort::Used => row.used_bytes.into(),
            ObjectSort::Health => (row.health as u8).into(),
        };
        Ok(page(items, window.limit, |row| (key(row), row.uuid.to_string())))
    }

    /// A page of hosts by name, natural for `h1`, `h2`, … `h10`: shorter names first.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn hosts(&self, cluster: &str, window: &Window) -> Result<Page<HostView>, ListError> {
        let mut sql = QueryBuilder::new("SELECT * FROM hosts WHERE cluster = ");
        sql.push_bind(cluster.to_owned());
        push_after(&mut sql, window, ("length(name)", "name"), false)?;
        let rows = sql.build().fetch_all(&self.pool).await.map_err(failed("host_page"))?;
        let items = read("host_page", &rows, host_row)?;
        Ok(page(items, window.limit, |row: &HostView| (row.name.len().into(), row.name.clone())))
    }

    /// A page of claimed disks by id; only those of `host` when given.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn disks(
        &self,
        cluster: &str,
        host: Option<&str>,
        window: &Window,
    ) -> Result<Page<DiskView>, ListError> {
        let mut sql = QueryBuilder::new("SELECT * FROM disks WHERE cluster = ");
        sql.push_bind(cluster.to_owned());
        if let Some(host) = host {
            sql.push(" AND host = ").push_bind(host.to_owned());
        }
        push_after(&mut sql, window, ("name", "id"), false)?;
        let rows = sql.build().fetch_all(&self.pool).await.map_err(failed("disk_page"))?;
        let items = read("disk_page", &rows, disk_row)?;
        Ok(page(items, window.limit, |row: &DiskView| (row.name.clone().into(), row.id.to_string())))
    }

    /// A page of components on a host, or on one disk.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn components(
        &self,
        cluster: &str,
        host: Option<&str>,
        disk: Option<model::ids::DiskId>,
        window: &Window,
    ) -> Result<Page<ComponentRow>, ListError> {
        let mut sql = QueryBuilder::new(
            "SELECT c.*, o.name AS object_name FROM components c JOIN objects o ON o.cluster = c.cluster
             AND o.uuid = c.object WHERE c.cluster = ",
        );
        sql.push_bind(cluster.to_owned());
        if let Some(host) = host {
            sql.push(" AND c.host = ").push_bind(host.to_owned());
        }
        if let Some(disk) = disk {
            sql.push(" AND c.disk = ").push_bind(disk.to_string());
        }
        push_after(&mut sql, window, ("c.uuid", "c.uuid"), false)?;
        let rows = sql.build().fetch_all(&self.pool).await.map_err(failed("component_page"))?;
        let items = read("component_page", &rows, component_row)?;
        Ok(page(items, window.limit, |row: &ComponentRow| {
            (row.uuid.to_string().into(), row.uuid.to_string())
        }))
    }

    /// A page of resyncs by component.
    ///
    /// # Errors
    /// [`ListError`].
    pub async fn resync(&self, cluster: &str, window: &Window) -> Result<Page<ResyncItem>, ListError> {
        let mut sql = QueryBuilder::new("SELECT * FROM resync WHERE cluster = ");
        sql.push_bind(cluster.to_owned());
        push_after(&mut sql, window, ("started_at", "component"), false)?;
        let rows = sql.build().fetch_all(&self.pool).await.map_err(failed("resync_page"))?;
        let items = read("resync_page", &rows, resync_row)?;
        let key = |row: &ResyncItem| (row.started_at.0.into(), row.component.to_string());
        Ok(page(items, window.limit, key))
    }

    /// Objects by health: count of each that is not zero.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn health_counts(&self, cluster: &str) -> Result<Vec<(ObjectHealth, u64)>, DbError> {
        let sql = "SELECT health, count(*) FROM objects WHERE cluster = ? GROUP BY health_rank ORDER BY health_rank";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(sql).bind(cluster).fetch_all(&self.pool).await.map_err(failed("health_counts"))?;
        rows.iter()
            .map(|(health, count)| Ok((word("objects", health, health)?, u64::try_from(*count).unwrap_or(0))))
            .collect()
    }
}

fn object_row(row: &SqliteRow) -> Result<Result<ObjectRow, DbError>, sqlx::Error> {
    let uuid: String = row.try_get("uuid")?;
    let (compliance, health): (String, String) = (row.try_get("compliance")?, row.try_get("health")?);
    let votes = Votes { total: row.try_get("votes_total")?, present: row.try_get("votes_present")? };
    let (name, object_type) = (row.try_get("name")?, row.try_get("type")?);
    let (size_bytes, used_bytes) = (bytes(row, "size_bytes")?, bytes(row, "used_bytes")?);
    let used_raw_bytes = bytes(row, "used_raw_bytes")?;
    let (policy, reason) = (row.try_get("policy")?, row.try_get("reason")?);
    let (accessible, tolerates_now) = (row.try_get("accessible")?, row.try_get("tolerates_now")?);
    let repair_at = row.try_get::<Option<i64>, _>("repair_at")?.map(Timestamp);
    Ok((|| {
        let (compliance, health) = (word("objects", &uuid, &compliance)?, word("objects", &uuid, &health)?);
        let uuid = id("objects", &uuid)?;
        Ok(ObjectRow {
            uuid,
            name,
            object_type,
            size_bytes,
            used_bytes,
            used_raw_bytes,
            policy,
            compliance,
            health,
            reason,
            accessible,
            votes,
            tolerates_now,
            repair_at,
        })
    })())
}

fn host_row(row: &SqliteRow) -> Result<Result<HostView, DbError>, sqlx::Error> {
    let name: String = row.try_get("name")?;
    let words: [String; 5] = [
        row.try_get("id")?,
        row.try_get("kind")?,
        row.try_get("role")?,
        row.try_get("state")?,
        row.try_get("faults")?,
    ];
    let (fault_domain, site) = (row.try_get("fault_domain")?, row.try_get("site")?);
    let (disk_groups, components) = (row.try_get("disk_groups")?, row.try_get("components")?);
    let (components_max, since) = (row.try_get("components_max")?, row.try_get::<i64, _>("state_since")?);
    Ok((|| {
        let state: HostState = word("hosts", &name, &words[3])?;
        Ok(HostView {
            id: id("hosts", &words[0])?,
            kind: word("hosts", &name, &words[1])?,
            role: word("hosts", &name, &words[2])?,
            state,
            state_since: Timestamp(since),
            fault_domain,
            site,
            disk_groups,
            components,
            components_max,
            faults: serde_json::from_str(&words[4]).unwrap_or_default(),
            name,
        })
    })())
}

fn disk_row(row: &SqliteRow) -> Result<Result<DiskView, DbError>, sqlx::Error> {
    let key: String = row.try_get("id")?;
    let words: [String; 4] =
        [row.try_get("media")?, row.try_get("role")?, row.try_get("state")?, row.try_get("faults")?];
    let group: Option<String> = row.try_get("disk_group")?;
    let (name, host, path) = (row.try_get("name")?, row.try_get("host")?, row.try_get("path")?);
    let (size_bytes, used_bytes) = (bytes(row, "size_bytes")?, bytes(row, "used_bytes")?);
    let (reserved_bytes, metadata_bytes) = (bytes(row, "reserved_bytes")?, bytes(row, "metadata_bytes")?);
    let (components, checksum_errors) = (row.try_get("components")?, bytes(row, "checksum_errors")?);
    Ok((|| {
        let state: DiskState = word("disks", &key, &words[2])?;
        Ok(DiskView {
            id: id("disks", &key)?,
            media: word("disks", &key, &words[0])?,
            role: word("disks", &key, &words[1])?,
            state,
            disk_group: group.map(|group| id("disks", &group)).transpose()?,
            serves: Vec::new(),
            faults: serde_json::from_str(&words[3]).unwrap_or_default(),
            name,
            host,
            path,
            size_bytes,
            used_bytes,
            reserved_bytes,
            metadata_bytes,
            components,
            checksum_errors,
        })
    })())
}

fn component_row(row: &SqliteRow) -> Result<Result<ComponentRow, DbError>, sqlx::Error> {
    let ids: [String; 4] =
        [row.try_get("uuid")?, row.try_get("object")?, row.try_get("disk")?, row.try_get("state")?];
    let (object_name, host) = (row.try_get("object_name")?, row.try_get("host")?);
    let (is_witness, used_bytes) = (row.try_get("is_witness")?, bytes(row, "used_bytes")?);
    Ok((|| {
        let (uuid, object) = (id("components", &ids[0])?, id("components", &ids[1])?);
        let (disk, state) = (id("components", &ids[2])?, word("components", &ids[0], &ids[3])?);
        Ok(ComponentRow { uuid, object, object_name, is_witness, state, host, disk, used_bytes })
    })())
}

fn resync_row(row: &SqliteRow) -> Result<Result<ResyncItem, DbError>, sqlx::Error> {
    let ids: [String; 4] =
        [row.try_get("component")?, row.try_get("object")?, row.try_get("reason")?, row.try_get("state")?];
    let (object_name, from, to) =
        (row.try_get("object_name")?, row.try_get("from_host")?, row.try_get("to_host")?);
    let (bytes_total, bytes_done) = (bytes(row, "bytes_total")?, bytes(row, "bytes_done")?);
    let rate: Option<i64> = row.try_get("bytes_per_second")?;
    let (started_at, run) = (Timestamp(row.try_get("started_at")?), row.try_get("run")?);
    Ok((|| {
        let reason: ResyncReason = word("resync", &ids[0], &ids[2])?;
        let state: ResyncState = word("resync", &ids[0], &ids[3])?;
        Ok(ResyncItem {
            component: id("resync", &ids[0])?,
            object: id("resync", &ids[1])?,
            bytes_per_second: rate.and_then(|rate| u64::try_from(rate).ok()),
            object_name,
            from,
            to,
            bytes_total,
            bytes_done,
            started_at,
            run,
            reason,
            state,
        })
    })())
}
