//! Room on the capacity disks for what is in the log and not applied yet.
//!
//! Map: [`Dg::admit`] promises room, the only place that refuses for lack of space · [`Token`] the promise for some extents.
//! Invariants: an extent for which a living token stands is not promised again, nor freed when a trim of its last block is applied
//! before the write that the token was made for (then nothing would be set aside for that write); a token gives its room back
//! by drop, when the last record that holds it is applied, superseded or refused.
use super::core::{Comp, Core};
use super::{Dg, DgError};
use crate::cap;
use crate::fmt::LocalId;
use model::units::{BLOCK_BYTES, EXTENT_BYTES};
use std::rc::{Rc, Weak};

/// Blocks of one extent.
pub(super) const EXTENT_BLOCKS: u64 = EXTENT_BYTES / BLOCK_BYTES;

/// Tokens of one component that are kept without a look whether they live.
pub(super) const TOKENS_MIN: usize = 64;

/// Room for some extents of one component.
pub(super) struct Token {
    /// Locked while a destage takes from it; none when every extent was there.
    pub room: Option<tokio::sync::Mutex<cap::Reservation>>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Room on a capacity disk for one append; goes into [`super::Append`], or back by drop.
#[derive(Debug, Default)]
pub struct Reservation {
    pub(super) tokens: Vec<Rc<Token>>,
}

impl Dg {
    /// Promises room for a write of these blocks.
    ///
    /// # Errors
    /// `Capacity(NoSpace)` when the disk is full: nothing has changed; [`Dg::make_room`] may help. `OutOfRange`, `NoComponent`.
    pub fn admit(&self, local: LocalId, block: u64, nblk: u32) -> Result<Reservation, DgError> {
        self.core().admit(local, block, nblk)
    }

    /// Applies what is stable on the disk of `local` and makes a checkpoint, so that what was freed can be used again.
    ///
    /// # Errors
    /// `NoComponent`, `DiskFailed`, `Gone`, `Failed`.
    pub async fn make_room(&self, local: LocalId) -> Result<(), DgError> {
        let index = self.core().member_of(local)?;
        self.core().drain_member(index).await;
        self.core().check()
    }
}

impl Comp {
    /// Seldom enough to cost nothing: when their number has doubled.
    fn forget_dead_tokens(&mut self) {
        if self.tokens.len() >= self.tokens_max {
            self.tokens.retain(|_, token| token.strong_count() > 0);
            self.tokens_max = TOKENS_MIN.max(self.tokens.len() * 2);
        }
    }
}

impl Core {
    pub fn admit(&self, local: LocalId, block: u64, nblk: u32) -> Result<Reservation, DgError> {
        let index = self.member_of_range(local, block, nblk)?;
        let cap = &self.members[index].cap;
        let extents = block / EXTENT_BLOCKS..(block + u64::from(nblk)).div_ceil(EXTENT_BLOCKS);
        let mut tokens: Vec<Rc<Token>> = Vec::new();
        let mut need = cap::Need::default();
        let mut uncovered = Vec::new();
        let mut state = self.state.borrow_mut();
        let comp = state.comps.get_mut(&local).ok_or(DgError::NoComponent(local))?;
        for extent in extents {
            if let Some(token) = comp.tokens.get(&extent).and_then(Weak::upgrade) {
                if !tokens.iter().any(|known| Rc::ptr_eq(known, &token)) {
                    tokens.push(token);
                }
                continue;
            }
            need.join(cap.need(local, extent * EXTENT_BLOCKS, EXTENT_BLOCKS));
            uncovered.push(extent);
        }
        if !uncovered.is_empty() {
            let room =
                if need.is_nothing() { None } else { Some(tokio::sync::Mutex::new(cap.reserve(need)?)) };
            let token = Rc::new(Token { room });
            for extent in uncovered {
                comp.tokens.insert(extent, Rc::downgrade(&token));
            }
            tokens.push(token);
            comp.forget_dead_tokens();
        }
        Ok(Reservation { tokens })
    }

    /// The token that stands for `extent`, if one is alive.
    pub fn token(&self, local: LocalId, extent: u64) -> Option<Rc<Token>> {
        self.state.borrow().comps.get(&local)?.tokens.get(&extent).and_then(Weak::upgrade)
    }
}
