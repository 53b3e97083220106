//! Console users.
use super::{DbError, failed, word};
use model::units::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

/// What a person or token may do; each role may do all that the lower ones may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Works: volumes, policies, repair, lab faults.
    Operator,
    /// Changes the cluster and its people.
    Admin,
}

impl Role {
    /// The word of the contract.
    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "viewer" => Ok(Self::Viewer),
            "operator" => Ok(Self::Operator),
            "admin" => Ok(Self::Admin),
            _ => Err("the role is viewer, operator or admin".into()),
        }
    }
}

/// A console user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Key.
    pub id: i64,
    /// Name, unique without regard to case.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Argon2id hash in PHC form.
    pub password_phc: String,
    /// When the user was made.
    pub created_at: Timestamp,
    /// Last sign-in.
    pub signed_in_at: Option<Timestamp>,
}

/// What became of a change to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is done.
    Done,
    /// There is no such user.
    NoSuchUser,
    /// It would have left nobody who may change the cluster; nothing was changed.
    LastAdmin,
}

/// True for a user without whom an administrator remains; `?1` is the name.
macro_rules! others_remain {
    () => {
        "(role <> 'admin' OR EXISTS (SELECT 1 FROM users o WHERE o.role = 'admin' AND o.id <> users.id))"
    };
}

type Row = (i64, String, String, String, i64, Option<i64>);

fn user((id, name, role, password_phc, created_at, signed_in_at): Row) -> Result<User, DbError> {
    let role = word("users", &name, &role)?;
    let (created_at, signed_in_at) = (Timestamp(created_at), signed_in_at.map(Timestamp));
    Ok(User { id, name, role, password_phc, created_at, signed_in_at })
}

/// Whether an administrator exists.
///
/// # Errors
/// [`DbError::Query`].
pub async fn admin_exists(db: &SqlitePool) -> Result<bool, DbError> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin')")
        .fetch_one(db)
        .await
        .map_err(failed("admin_exists"))
}

/// Makes the first administrator; `None` when there is one already (checked inside the transaction that inserts).
///
/// # Errors
/// [`DbError::Query`], also when the name is taken by a user who is no administrator.
pub async fn insert_first_admin(
    db: &SqlitePool,
    name: &str,
    password_phc: &str,
    now: Timestamp,
) -> Result<Option<i64>, DbError> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed("insert_first_admin"))?;
    let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin')")
        .fetch_one(&mut *tx)
        .await
        .map_err(failed("insert_first_admin"))?;
    if exists {
        return Ok(None);
    }
    let done = sqlx::query(
        "INSERT INTO users (name, role, password_phc, created_at) VALUES (?, 'admin', ?, ?)
         ON CONFLICT (name) DO UPDATE SET role = 'admin', password_phc = excluded.password_phc",
    )
    .bind(name)
    .bind(password_phc)
    .bind(now.0)
    .execute(&mut *tx)
    .await
    .map_err(failed("insert_first_admin"))?;
    let id: i64 = sqlx::query_scalar("SELECT id FROM users WHERE name = ?")
        .bind(name)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed("insert_first_admin"))?;
    debug_assert_eq!(done.rows_affected(), 1);
    tx.commit().await.map_err(failed("insert_first_admin"))?;
    Ok(Some(id))
}

/// Adds a user; false when the name is taken.
///
/// # Errors
/// [`DbError::Query`].
pub async fn insert(
    db: &SqlitePool,
    name: &str,
    role: Role,
    password_phc: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "INSERT INTO users (name, role, password_phc, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(name)
    .bind(role.word())
    .bind(password_phc)
    .bind(now.0)
    .execute(db)
    .await
    .map_err(failed("insert_user"))?;
    Ok(done.rows_affected() == 1)
}

/// Changes password and role, when given; ends all sessions of the user. The last administrator stays one (checked in the
/// statement that changes).
///
/// # Errors
/// [`DbError::Query`]; nothing has changed then.
pub async fn update(
    db: &SqlitePool,
    name: &str,
    role: Option<Role>,
    password_phc: Option<&str>,
) -> Result<Changed, DbError> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed("update_user"))?;
    let done = sqlx::query(concat!(
        "UPDATE users SET password_phc = coalesce(?2, password_phc), role = coalesce(?3, role)
         WHERE name = ?1 AND (coalesce(?3, 'admin') = 'admin' OR ",
        others_remain!(),
        ")"
    ))
    .bind(name)
    .bind(password_phc)
    .bind(role.map(Role::word))
    .execute(&mut *tx)
    .await
    .map_err(failed("update_user"))?;
    if done.rows_affected() == 0 {
        return why_not(&mut tx, name).await;
    }
    sqlx::query("DELETE FROM sessions WHERE user_id = (SELECT id FROM users WHERE name = ?)")
        .bind(name)
        .execute(&mut *tx)
        .await
        .map_err(failed("update_user"))?;
    sqlx::query("DELETE FROM throttle WHERE k = 'u:' || lower(?)")
        .bind(name)
        .execute(&mut *tx)
        .await
        .map_err(failed("update_user"))?;
    tx.commit().await.map_err(failed("update_user"))?;
    Ok(Changed::Done)
}

/// Why a change of a user found no row.
async fn why_not(db: &mut sqlx::SqliteConnection, name: &str) -> Result<Changed, DbError> {
    let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users WHERE name = ?)")
        .bind(name)
        .fetch_one(db)
        .await
        .map_err(failed("user_exists"))?;
    Ok(if known { Changed::LastAdmin } else { Changed::NoSuchUser })
}

/// A better hash of the same password: sessions stay.
///
/// # Errors
/// [`DbError::Query`].
pub async fn rehash(db: &SqlitePool, id: i64, password_phc: &str) -> Result<(), DbError> {
    sqlx::query("UPDATE users SET password_phc = ? WHERE id = ?")
        .bind(password_phc)
        .bind(id)
        .execute(db)
        .await
        .map(|_| ())
        .map_err(failed("rehash"))
}

/// Removes a user and all sessions, except the last administrator (checked in the statement that removes).
///
/// # Errors
/// [`DbError::Query`].
pub async fn delete(db: &SqlitePool, name: &str) -> Result<Changed, DbError> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed("delete_user"))?;
    let done = sqlx::query(concat!("DELETE FROM users WHERE name = ?1 AND ", others_remain!()))
        .bind(name)
        .execute(&mut *tx)
        .await
        .map_err(failed("delete_user"))?;
    if done.rows_affected() == 0 {
        return why_not(&mut tx, name).await;
    }
    tx.commit().await.map_err(failed("delete_user"))?;
    Ok(Changed::Done)
}

/// The user of a name.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn by_name(db: &SqlitePool, name: &str) -> Result<Option<User>, DbError> {
    sqlx::query_as::<_, Row>(
        "SELECT id, name, role, password_phc, created_at, signed_in_at FROM users WHERE name = ?",
    )
    .bind(name)
    .fetch_optional(db)
    .await
    .map_err(failed("user_by_name"))?
    .map(user)
    .transpose()
}

/// All users by name.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn all(db: &SqlitePool) -> Result<Vec<User>, DbError> {
    sqlx::query_as::<_, Row>(
        "SELECT id, name, role, password_phc, created_at, signed_in_at FROM users ORDER BY name",
    )
    .fetch_all(db)
    .await
    .map_err(failed("all_users"))?
    .into_iter()
    .map(user)
    .collect()
}
