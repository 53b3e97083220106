//! Tests of the front over socket pairs with an export in memory.
