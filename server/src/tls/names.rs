//! The names and addresses under which people reach this machine: what a certificate of ours is made for.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All of them: `localhost` and the loopback addresses, the host's name, and its addresses except those that need a zone.
pub fn of_this_machine() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut names = vec!["localhost".to_owned()];
    names.extend(host_name(&read("/proc/sys/kernel/hostname")));
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    addresses.extend(ipv4(&read("/proc/net/fib_trie")).into_iter().map(IpAddr::V4));
    addresses.extend(ipv6(&read("/proc/net/if_inet6")).into_iter().map(IpAddr::V6));
    names.extend(addresses.iter().map(ToString::to_string));
    let mut once = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

/// The address that others most likely use: the first that is not loopback, else the host's name.
pub fn from_elsewhere(names: &[String]) -> Option<&String> {
    let reachable = |name: &&String| name.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback());
    names
        .iter()
        .find(reachable)
        .or_else(|| names.iter().find(|name| name.parse::<IpAddr>().is_err() && *name != "localhost"))
}

/// A host's name that can stand in a certificate.
fn host_name(text: &str) -> Option<String> {
    let name = text.trim().to_ascii_lowercase();
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    (plain && !name.is_empty() && !name.starts_with(['-', '.'])).then_some(name)
}

/// Local addresses out of the kernel's table of routes: an address on its own line, `/32 host LOCAL` on the next.
fn ipv4(table: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in table.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            found.extend(last);
        }
    }
    found
}

/// Addresses out of the kernel's table of interfaces: `ADDRESS INDEX PREFIX SCOPE FLAGS NAME`, all in hex; scope 20 is the link's.
fn ipv6(table: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let mut fields = line.split_whitespace();
        let bits = u128::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(2)? != "20").then(|| Ipv6Addr::from(bits))
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_read_from_the_tables_of_the_kernel() {
        let trie = "Local:\n  +-- 0.0.0.0/0 2 0 2\n     +-- 10.0.0.0/24 2 0 2\n        |-- 10.0.0.0\n           /24 link UNICAST\n        |-- 10.0.0.7\n           /32 host LOCAL\n        |-- 10.0.0.255\n           /32 link BROADCAST\n     |-- 127.0.0.1\n           /32 host LOCAL\n";
        assert_eq!(ipv4(trie), [Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::LOCALHOST]);
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfe800000000000000000000000000007 02 40 20 80     eth0\nfd000000000000000000000000000007 02 40 00 80     eth0\nnot a line\n";
        assert_eq!(ipv6(table), [Ipv6Addr::LOCALHOST, "fd00::7".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn names_that_no_certificate_takes_are_left_out() {
        assert_eq!(host_name("Pond-1\n"), Some("pond-1".into()));
        for name in ["", "-x", "my box", "(none)"] {
            assert_eq!(host_name(name), None, "{name:?}");
        }
        let names = of_this_machine();
        assert!(names.contains(&"localhost".into()) && names.contains(&"127.0.0.1".into()), "{names:?}");
        assert_eq!(names.iter().filter(|name| *name == "127.0.0.1").count(), 1);
    }

    #[test]
    fn an_address_of_the_network_is_shown_first() {
        let names = ["localhost", "pond", "127.0.0.1", "::1", "10.0.0.7"].map(str::to_owned);
        assert_eq!(from_elsewhere(&names).map(String::as_str), Some("10.0.0.7"));
        assert_eq!(from_elsewhere(&names[..4]).map(String::as_str), Some("pond"));
        assert_eq!(from_elsewhere(&names[..1]), None);
    }
}
