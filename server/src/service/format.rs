//! Numbers in sentences: binary units with binary names, three significant digits; counted nouns that agree with their verb.

const THIN_SPACE: char = '\u{2009}';

/// `1.5 GiB`, `64 MiB`, `512 bytes`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// `100 000` with thin spaces.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(THIN_SPACE);
        }
        text.push(digit);
    }
    text
}

/// `1 host`, `3 hosts`.
pub fn plural(number: u64, one: &str) -> String {
    let ending = if number == 1 {
        ""
    } else if one.ends_with('x') || one.ends_with("ss") {
        "es"
    } else {
        "s"
    };
    if number != 1 && one.ends_with('y') && !one.ends_with("ay") && !one.ends_with("ey") {
        return format!("{} {}ies", count(number), &one[..one.len() - 1]);
    }
    format!("{} {one}{ending}", count(number))
}

/// How many things a list holds: `1 host`, `3 hosts`.
pub fn plural_of<T>(list: &[T], one: &str) -> String {
    plural(list.len() as u64, one)
}

/// `1 host is absent`, `3 hosts are absent`: the counted noun with the wording that agrees with it, for one and for others.
pub fn plural_that(number: u64, noun: &str, one: &str, others: &str) -> String {
    format!("{} {}", plural(number, noun), if number == 1 { one } else { others })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_zeros_for_show() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(64 << 20), "64 MiB");
        assert_eq!(bytes_text(3 << 29), "1.5 GiB");
        assert_eq!(bytes_text((100 << 30) + (1 << 29)), "100 GiB");
        assert_eq!(bytes_text(u64::MAX), "16384 PiB");
    }

    #[test]
    fn nouns_agree_with_their_number_and_their_verb() {
        assert_eq!(count(1_234_567).replace(THIN_SPACE, " "), "1 234 567");
        for (noun, none, one, two) in [
            ("host", "0 hosts", "1 host", "2 hosts"),
            ("copy", "0 copies", "1 copy", "2 copies"),
            ("day", "0 days", "1 day", "2 days"),
            ("loss", "0 losses", "1 loss", "2 losses"),
        ] {
            assert_eq!([plural(0, noun), plural(1, noun), plural(2, noun)], [none, one, two]);
        }
        assert_eq!(plural_that(1, "host", "is absent", "are absent"), "1 host is absent");
        assert_eq!(plural_that(0, "host", "is absent", "are absent"), "0 hosts are absent");
        assert_eq!(plural_that(2, "disk", "has failed", "have failed"), "2 disks have failed");
    }
}
