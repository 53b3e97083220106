//! Numbers in sentences: binary units with binary names, three significant digits.

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

#[cfg(test)]
mod tests {
    use super::bytes_text;

    #[test]
    fn three_digits_and_no_zeros_for_show() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(64 << 20), "64 MiB");
        assert_eq!(bytes_text(3 << 29), "1.5 GiB");
        assert_eq!(bytes_text((100 << 30) + (1 << 29)), "100 GiB");
        assert_eq!(bytes_text(u64::MAX), "16384 PiB");
    }
}
