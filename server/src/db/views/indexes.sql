-- Made after the first fill: building them row by row takes many times as long.
CREATE INDEX objects_by_name ON objects (cluster, name, uuid);
CREATE INDEX objects_by_size ON objects (cluster, size_bytes, uuid);
CREATE INDEX objects_by_used ON objects (cluster, used_bytes, uuid);
CREATE INDEX objects_by_health ON objects (cluster, health_rank, uuid);
CREATE INDEX objects_by_policy ON objects (cluster, policy);
CREATE INDEX components_by_object ON components (cluster, object);
CREATE INDEX components_by_host ON components (cluster, host, uuid);
CREATE INDEX components_by_disk ON components (cluster, disk, uuid);
CREATE INDEX disks_by_host ON disks (cluster, host, name);
