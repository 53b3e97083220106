//! The oracle itself: what a read may show after each kind of crash.
use super::super::content::filled;
use super::*;

fn zeros() -> Vec<u8> {
    vec![0; SECTOR as usize]
}

fn read(reference: &mut Reference, bytes: &[u8]) -> Result<(), Violation> {
    let start = reference.begin_read();
    reference.check_read(start, 0, bytes)
}

fn write(reference: &mut Reference) -> u64 {
    let version = reference.begin_write(0..1, false);
    reference.end_write(version, false);
    version
}

fn shows(reference: &mut Reference, version: u64) -> Result<(), Violation> {
    read(reference, &filled(version, 0, 1))
}

#[test]
fn live_read_shows_the_last_acknowledged_write() {
    let mut reference = Reference::new(1);
    read(&mut reference, &zeros()).expect("blank");
    let first = write(&mut reference);
    let second = write(&mut reference);
    assert!(read(&mut reference, &zeros()).is_err());
    assert!(shows(&mut reference, first).is_err());
    shows(&mut reference, second).expect("last");
    assert!(read(&mut reference, &filled(second, 1, 1)).is_err(), "content of another place");
}

#[test]
fn write_under_way_once_seen_stays_seen() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let second = reference.begin_write(0..1, false);
    shows(&mut reference, first).expect("before");
    shows(&mut reference, second).expect("after");
    assert!(shows(&mut reference, first).is_err(), "never back");
}

#[test]
fn read_beside_a_write_and_its_flush_may_show_the_old_value() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let start = reference.begin_read();
    let second = write(&mut reference);
    let flush = reference.begin_flush();
    reference.end_flush(flush);
    reference.check_read(start, 0, &filled(first, 0, 1)).expect("began before");
    assert!(shows(&mut reference, first).is_err());
    shows(&mut reference, second).expect("last");
}

#[test]
fn two_writes_at_once_end_in_either_order_and_then_stay() {
    let mut reference = Reference::new(1);
    let first = reference.begin_write(0..1, false);
    let second = reference.begin_write(0..1, false);
    reference.end_write(second, false);
    reference.end_write(first, false);
    shows(&mut reference, second).expect("either");
    assert!(shows(&mut reference, first).is_err());
    let flush = reference.begin_flush();
    reference.end_flush(flush);
    reference.crash(Outage::Power);
    assert!(shows(&mut reference, first).is_err(), "its successor is durable");
    shows(&mut reference, second).expect("durable");
}

#[test]
fn kill_keeps_acknowledged_writes_and_leaves_open_those_under_way() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let second = reference.begin_write(0..1, false);
    reference.crash(Outage::Kill);
    assert!(read(&mut reference, &zeros()).is_err());
    shows(&mut reference, first).expect("acknowledged");
    assert!(shows(&mut reference, second).is_err(), "the first read decides");
    reference.crash(Outage::Power);
    shows(&mut reference, first).expect("decided for good");
}

#[test]
fn power_cut_keeps_flushed_writes() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let flush = reference.begin_flush();
    let second = write(&mut reference);
    reference.end_flush(flush);
    for version in [first, second] {
        let mut after = Reference::new(1);
        after.sectors = reference.sectors.clone();
        after.crash(Outage::Power);
        shows(&mut after, version).expect("flushed or later");
    }
    reference.crash(Outage::Power);
    assert!(read(&mut reference, &zeros()).is_err(), "older than the flushed one");
}

#[test]
fn durable_write_needs_no_flush_and_trims_read_as_zeros() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let trim = reference.begin_write(0..1, true);
    reference.end_write(trim, true);
    reference.crash(Outage::Power);
    assert!(shows(&mut reference, first).is_err());
    read(&mut reference, &zeros()).expect("trimmed");
}

#[test]
fn weakened_writes_may_be_gone_and_flushed_ones_not() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let flush = reference.begin_flush();
    reference.end_flush(flush);
    let second = write(&mut reference);
    assert!(shows(&mut reference, first).is_err(), "overwritten");
    reference.weaken();
    shows(&mut reference, first).expect("what replaced it may be lost");
    assert!(shows(&mut reference, second).is_err(), "it was shown to be lost");
    assert!(read(&mut reference, &zeros()).is_err(), "older than the flushed one");
    let third = write(&mut reference);
    assert!(shows(&mut reference, first).is_err(), "overwritten again");
    shows(&mut reference, third).expect("acknowledged since");
}

#[test]
fn write_under_way_is_weakened_until_a_flush() {
    let mut reference = Reference::new(1);
    let first = write(&mut reference);
    let flush = reference.begin_flush();
    reference.end_flush(flush);
    let second = reference.begin_write(0..1, false);
    reference.weaken();
    reference.end_write(second, false);
    shows(&mut reference, first).expect("the copy that took it may be the one that was lost");
    let third = reference.begin_write(0..1, false);
    reference.weaken();
    reference.end_write(third, false);
    let flush = reference.begin_flush();
    reference.end_flush(flush);
    reference.crash(Outage::Power);
    assert!(shows(&mut reference, first).is_err(), "older than the flushed one");
    shows(&mut reference, third).expect("flushed");
}
