//! Prints what the newest checkpoint of a disk says, as JSON for people. Writes nothing.
use super::label::Label;
use super::load::{self, Loading};
use super::state::{Loaded, State};
use super::{CapDisk, CapError};
use crate::fmt::bitmap::{Bitmap, ExtentState};
use crate::fmt::leaf::{LEAF_EXTENTS, LeafEntry};
use serde_json::{Value, json};

impl CapDisk {
    /// Checkpoint, allocation groups, components with their maps (checksums left out), and what is wrong, of the disk with this label
    /// ([`Label::read_only`] is enough).
    ///
    /// # Errors
    /// As [`CapDisk::open`].
    pub async fn dump(label: &Label) -> Result<Value, CapError> {
        let Loading { state, findings, .. } = load::load(label).await?;
        Ok(json!({
            "checkpoint": label.superblock().checkpoint,
            "usage": state.usage(),
            "allocation_groups": state.extents.groups().iter().map(group).collect::<Vec<_>>(),
            "components": state.components.values().map(|loaded| component(&state, loaded)).collect::<Vec<_>>(),
            "findings": findings,
        }))
    }
}

fn group(page: &Bitmap) -> Value {
    json!({
        "first_extent": page.first(),
        "extents": page.extents(),
        "free": page.count(ExtentState::Free),
        "data": page.count(ExtentState::Data),
        "metadata": page.count(ExtentState::Metadata),
        "bad": page.count(ExtentState::Bad),
    })
}

fn component(state: &State, loaded: &Loaded) -> Value {
    let leaves = loaded.leaves.iter().map(|(index, node)| {
        let pointer = loaded.map.get((*index).into());
        let first = u64::from(*index) * LEAF_EXTENTS as u64;
        let written = (first..).zip(&node.leaf.entries).filter(|(_, entry)| **entry != LeafEntry::default());
        json!({
            "index": index,
            "page": pointer,
            "extents": written.map(|(index, entry)| extent(state, index, entry)).collect::<Vec<_>>(),
        })
    });
    json!({
        "header": loaded.header,
        "header_offset_bytes": state.table.get(loaded.slot).page_offset_bytes,
        "descriptor_bytes": loaded.descriptor.len(),
        "descriptor_page_offsets_bytes": loaded.chain,
        "damaged": loaded.damaged,
        "leaves": leaves.collect::<Vec<_>>(),
    })
}

fn extent(state: &State, index: u64, entry: &LeafEntry) -> Value {
    json!({
        "index": index,
        "offset_bytes": entry.extent.map(|extent| state.offset_bytes(extent)),
        "oseq": entry.oseq,
        "valid_blocks": format!("{:016b}", entry.valid.reverse_bits()),
        "bad": entry.bad,
    })
}
