//! Certificates that are right, wrong, old and mixed up; each wrong one is a sentence with the remedy.
use super::*;
use std::os::unix::fs::PermissionsExt;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// 2027-01-15.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn names() -> Vec<String> {
    ["localhost", "pond", "127.0.0.1", "::1", "10.0.0.7"].map(str::to_owned).to_vec()
}

fn made(folder: &Path) -> Tls {
    Tls::open(Source::SelfSigned, folder, names(), NOW).unwrap()
}

fn files(folder: &Path) -> Source {
    Source::Files { certificate: folder.join(CERTIFICATE), key: folder.join(KEY) }
}

#[test]
fn a_certificate_is_made_once_for_the_names_of_the_machine_and_its_key_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let first = made(folder.path()).pair();
    assert_eq!(first.fingerprint().len(), 95);
    assert_eq!(first.fingerprint(), made(folder.path()).pair().fingerprint(), "it is kept");
    for name in names() {
        assert!(first.is_for(&name), "{name}");
    }
    assert!(!first.is_for("evil.example") && !first.is_for("") && !first.is_for("10.0.0.8"));
    let mode = std::fs::metadata(folder.path().join(KEY)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(first.server.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
}

#[test]
fn it_is_renewed_before_its_end_and_not_earlier() {
    let folder = tempfile::tempdir().unwrap();
    let tls = made(folder.path());
    let (first, until) = (tls.pair().fingerprint(), tls.pair().until);
    assert!((395 * DAY_MS..398 * DAY_MS).contains(&(until.0 - NOW.0)), "{until:?}");
    assert!(!tls.refresh(Timestamp(until.0 - 31 * DAY_MS)).unwrap());
    assert_eq!(tls.pair().fingerprint(), first);
    assert!(tls.refresh(Timestamp(until.0 - 29 * DAY_MS)).unwrap());
    assert_ne!(tls.pair().fingerprint(), first);
    assert!(tls.pair().until > until);
}

#[test]
fn a_pair_of_files_is_served_and_a_wrong_one_is_a_sentence() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mine, other) = (made(one.path()), made(two.path()));
    let source = files(one.path());
    let open = |source: &Source, now| source.open(one.path(), &[], now).map(|pair| pair.fingerprint());
    assert_eq!(open(&source, NOW).unwrap(), mine.pair().fingerprint());
    let says = |source: &Source, now: Timestamp, words: &[&str]| {
        let said = open(source, now).unwrap_err().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    let until = mine.pair().until;
    says(&source, Timestamp(until.0 + 1), &["ended at 2028-02-", "renew it"]);
    says(&source, Timestamp(NOW.0 - 3 * DAY_MS), &["begins at 2027-01-", "clock"]);
    std::fs::copy(two.path().join(KEY), one.path().join(KEY)).unwrap();
    says(&source, NOW, &["does not belong to", CERTIFICATE, KEY]);
    std::fs::write(
        one.path().join(KEY),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    says(&source, NOW, &["no plain private key", "openssl pkey"]);
    std::fs::remove_file(one.path().join(KEY)).unwrap();
    says(&source, NOW, &["cannot read", KEY]);
    std::fs::write(one.path().join(CERTIFICATE), "hello").unwrap();
    std::fs::copy(two.path().join(KEY), one.path().join(KEY)).unwrap();
    says(&source, NOW, &["no certificate in PEM", "openssl x509"]);
    let junk = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    std::fs::write(one.path().join(CERTIFICATE), junk).unwrap();
    says(&source, NOW, &["cannot be used", "make a new one"]);
    drop(other);
}

#[test]
fn a_wrong_pair_never_replaces_the_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let before = made(folder.path()).pair().fingerprint();
    let tls = Tls::open(files(folder.path()), folder.path(), names(), NOW).unwrap();
    std::fs::write(folder.path().join(CERTIFICATE), "half a fi").unwrap();
    tls.refresh(NOW).unwrap_err();
    assert_eq!(tls.pair().fingerprint(), before);
    // One of our own that is broken is made again.
    let again = made(folder.path());
    assert_ne!(again.pair().fingerprint(), before);
    assert!(tls.refresh(NOW).unwrap());
    assert_eq!(tls.pair().fingerprint(), again.pair().fingerprint());
}
