-- Projections of what engines report; rebuilt at every start. Words are those of the contract.
CREATE TABLE clusters (
    cluster   TEXT PRIMARY KEY,
    version   INTEGER NOT NULL,
    taken_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE hosts (
    cluster TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, role TEXT NOT NULL,
    state TEXT NOT NULL, fault_domain TEXT, site TEXT, disk_groups INTEGER NOT NULL, components INTEGER NOT NULL,
    components_max INTEGER NOT NULL, state_since INTEGER NOT NULL, faults TEXT NOT NULL,
    PRIMARY KEY (cluster, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE disks (
    cluster TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL, path TEXT NOT NULL,
    size_bytes INTEGER NOT NULL, media TEXT NOT NULL, role TEXT NOT NULL, disk_group TEXT, used_bytes INTEGER NOT NULL,
    reserved_bytes INTEGER NOT NULL, metadata_bytes INTEGER NOT NULL, state TEXT NOT NULL, components INTEGER NOT NULL,
    checksum_errors INTEGER NOT NULL, faults TEXT NOT NULL,
    PRIMARY KEY (cluster, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE objects (
    cluster TEXT NOT NULL, uuid TEXT NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    used_bytes INTEGER NOT NULL, used_raw_bytes INTEGER NOT NULL, policy TEXT NOT NULL, compliance TEXT NOT NULL,
    health TEXT NOT NULL, health_rank INTEGER NOT NULL, reason TEXT, accessible INTEGER NOT NULL,
    votes_total INTEGER NOT NULL, votes_present INTEGER NOT NULL, tolerates_now INTEGER NOT NULL, repair_at INTEGER,
    PRIMARY KEY (cluster, uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE components (
    cluster TEXT NOT NULL, uuid TEXT NOT NULL, object TEXT NOT NULL, is_witness INTEGER NOT NULL, state TEXT NOT NULL,
    votes INTEGER NOT NULL, host TEXT NOT NULL, fault_domain TEXT NOT NULL, disk TEXT NOT NULL,
    used_bytes INTEGER NOT NULL, bytes_to_sync INTEGER NOT NULL, reason TEXT,
    PRIMARY KEY (cluster, uuid)
) STRICT, WITHOUT ROWID;

CREATE TABLE resync (
    cluster TEXT NOT NULL, component TEXT NOT NULL, object TEXT NOT NULL, object_name TEXT NOT NULL,
    reason TEXT NOT NULL, state TEXT NOT NULL, from_host TEXT NOT NULL, to_host TEXT NOT NULL,
    bytes_total INTEGER NOT NULL, bytes_done INTEGER NOT NULL, bytes_per_second INTEGER, started_at INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (cluster, component)
) STRICT, WITHOUT ROWID;
