//! The little of X.509 that no dependency of ours tells: from when until when a certificate is valid.
//!
//! Invariant: any bytes give an answer or `None`, never a panic; nothing else of the certificate is trusted because of it.
use crate::edge::parse_rfc3339;
use model::units::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, when it is given.
const VERSION: u8 = 0xA0;

/// One element: its tag, its content, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match usize::from(first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (length, rest) = rest.split_at_checked(long - 0x80)?;
            // Four bytes of length are more than any certificate has.
            let known = (1..=4).contains(&length.len());
            known.then(|| (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest))?
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// First and last moment of a certificate in DER.
pub(super) fn validity(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (signed, _) = expect(SEQUENCE, certificate)?;
    let rest = expect(VERSION, signed).map_or(signed, |(_, rest)| rest);
    let (_serial, rest) = expect(INTEGER, rest)?;
    let (_algorithm, rest) = expect(SEQUENCE, rest)?;
    let (_issuer, rest) = expect(SEQUENCE, rest)?;
    let (validity, _) = expect(SEQUENCE, rest)?;
    let (tag, from, rest) = element(validity)?;
    let from = time(tag, from)?;
    let (tag, until, _) = element(rest)?;
    Some((from, time(tag, until)?))
}

/// `YYMMDDHHMMSSZ` (years 1950 to 2049) or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let full = match (tag, text.len()) {
        (UTC_TIME, 13) => format!("{}{text}", if text < "5" { "20" } else { "19" }),
        (GENERALIZED_TIME, 15) => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &full[from..to];
    let (date, clock) = ([part(0, 4), part(4, 6), part(6, 8)], [part(8, 10), part(10, 12), part(12, 14)]);
    parse_rfc3339(&format!("{}T{}{}", date.join("-"), clock.join(":"), part(14, 15)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::rfc3339;

    fn sequence(parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = u16::try_from(content.len()).unwrap();
        [&[SEQUENCE, 0x82], &length.to_be_bytes()[..], &content].concat()
    }

    fn certificate(version: &[u8], from: &[u8], until: &[u8]) -> Vec<u8> {
        let serial = [INTEGER, 1, 7];
        let signed = [version, &serial, &sequence(&[]), &sequence(&[]), &sequence(&[from, until])];
        sequence(&[&sequence(&signed)])
    }

    #[test]
    fn both_forms_of_time_are_read_in_both_versions() {
        let short = [&[UTC_TIME, 13], &b"261130141103Z"[..]].concat();
        let old = [&[UTC_TIME, 13], &b"991231235959Z"[..]].concat();
        let long = [&[GENERALIZED_TIME, 15], &b"20511130141103Z"[..]].concat();
        for version in [&[VERSION, 3, INTEGER, 1, 2][..], &[]] {
            let (from, until) = validity(&certificate(version, &short, &long)).unwrap();
            assert_eq!(rfc3339(from), "2026-11-30T14:11:03.000Z");
            assert_eq!(rfc3339(until), "2051-11-30T14:11:03.000Z");
        }
        let (from, _) = validity(&certificate(&[], &old, &short)).unwrap();
        assert_eq!(rfc3339(from), "1999-12-31T23:59:59.000Z");
    }

    #[test]
    fn whatever_is_cut_or_changed_never_panics() {
        let short = [&[UTC_TIME, 13], &b"261130141103Z"[..]].concat();
        let whole = certificate(&[], &short, &short);
        for length in 0..whole.len() {
            assert_eq!(validity(&whole[..length]), None, "{length}");
        }
        for index in 0..whole.len() {
            for byte in [0, 0x80, 0xFF] {
                let mut changed = whole.clone();
                changed[index] = byte;
                validity(&changed);
            }
        }
    }
}
