//! One newtype per kind of id, so that a disk id cannot be passed where a host id belongs.
//!
//! Ids are minted by whoever creates the thing (randomness is a parameter) and never change.

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub uuid::Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }

        impl $name {
            /// Makes an id from sixteen bytes of randomness (version 4 and variant bits are set).
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }
        }
    };
}

typed_id!(
    /// A cluster: the unit of configuration, and what import finds on disks.
    ClusterId
);
typed_id!(
    /// A host: one failure domain with a kind (machine, enclosure, disk, lab host).
    HostId
);
typed_id!(
    /// A disk: known by its superblock once claimed, fixed at first sight before.
    DiskId
);
typed_id!(
    /// One log and the capacity disks that it serves.
    DiskGroupId
);
typed_id!(
    /// What is placed: a volume is an object.
    ObjectId
);
typed_id!(
    /// One leaf of an object's RAID tree, on exactly one disk.
    ComponentId
);
typed_id!(
    /// Long work that the person can follow. Minted by the server, the idempotency key of its intent.
    TaskId
);
