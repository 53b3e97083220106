-- People, settings, drafts and history of the console. Times are milliseconds since 1970 UTC.
-- Nothing here is needed to serve, repair or import a cluster.

CREATE TABLE users (
    id            INTEGER PRIMARY KEY,
    name          TEXT    NOT NULL UNIQUE COLLATE NOCASE CHECK (length(name) BETWEEN 1 AND 80),
    role          TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    password_phc  TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    signed_in_at  INTEGER
) STRICT;

-- `id` is the SHA-256 of the cookie: the cookie itself is nowhere on disk.
CREATE TABLE sessions (
    id          BLOB    PRIMARY KEY CHECK (length(id) = 32),
    user_id     INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    address     TEXT    NOT NULL,
    agent       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_user ON sessions (user_id);

CREATE TABLE tokens (
    id          INTEGER PRIMARY KEY,
    hash        BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix      TEXT    NOT NULL,
    name        TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    role        TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at  INTEGER NOT NULL,
    used_at     INTEGER,
    expires_at  INTEGER
) STRICT;

-- `k` is `u:NAME` or `ip:ADDRESS`.
CREATE TABLE throttle (
    k            TEXT    PRIMARY KEY,
    fails        INTEGER NOT NULL,
    retry_at     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    time     INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    detail   TEXT    NOT NULL,
    outcome  TEXT    NOT NULL CHECK (outcome IN ('accepted', 'refused', 'failed'))
) STRICT;

CREATE TABLE settings (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One draft of a cluster that does not exist yet, and of disks that are not claimed yet. `body` is JSON.
CREATE TABLE drafts (
    cluster     TEXT    PRIMARY KEY,
    body        TEXT    NOT NULL CHECK (json_valid(body)),
    version     INTEGER NOT NULL,
    updated_by  TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
    id                TEXT    PRIMARY KEY CHECK (length(id) = 36),
    cluster           TEXT    NOT NULL,
    kind              TEXT    NOT NULL,
    subject           TEXT    NOT NULL,
    state             TEXT    NOT NULL CHECK (state IN ('running', 'succeeded', 'failed', 'cancelled')),
    progress_percent  INTEGER NOT NULL CHECK (progress_percent BETWEEN 0 AND 100),
    step              TEXT    NOT NULL,
    started_by        TEXT    NOT NULL,
    started_at        INTEGER NOT NULL,
    finished_at       INTEGER,
    error             TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_running ON tasks (cluster, state) WHERE state = 'running';

CREATE TABLE events (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster   TEXT    NOT NULL,
    time      INTEGER NOT NULL,
    severity  TEXT    NOT NULL CHECK (severity IN ('info', 'warning', 'error')),
    kind      TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    text      TEXT    NOT NULL,
    actor     TEXT
) STRICT;
CREATE INDEX events_by_subject ON events (cluster, subject, id);
CREATE INDEX events_by_severity ON events (cluster, severity, id);

-- One row for each entity and sample: rates over the time since the sample before.
CREATE TABLE samples (
    cluster                   TEXT    NOT NULL,
    entity                    TEXT    NOT NULL,
    time                      INTEGER NOT NULL,
    read_iops                 REAL    NOT NULL,
    write_iops                REAL    NOT NULL,
    read_bytes_per_second     REAL    NOT NULL,
    written_bytes_per_second  REAL    NOT NULL,
    read_latency_us           REAL,
    write_latency_us          REAL,
    outstanding               REAL    NOT NULL,
    resync_bytes_per_second   REAL    NOT NULL,
    PRIMARY KEY (cluster, entity, time)
) STRICT, WITHOUT ROWID;
CREATE INDEX samples_by_time ON samples (time);
