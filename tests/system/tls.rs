//! The console over TLS, by curl, openssl and a browser: certificates, HTTP/2, limits; and what a start says to people.
use crate::journeys::{PASSWORD, journey, set_up};
use harness::{Server, server::binary, tools};
use rustix::process::{Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than the server has patience.
const LONG: Duration = Duration::from_secs(90);

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn address(server: &Server) -> String {
    server.base.trim_start_matches("https://").to_owned()
}

/// SHA-256 of the certificate that the server shows, as openssl prints it.
fn shown(server: &Server, folder: &Path) -> String {
    let pem = folder.join("shown.pem");
    let ask = format!(
        "openssl s_client -connect {} </dev/null 2>/dev/null | openssl x509 -out {}",
        address(server),
        pem.display()
    );
    tools::ok("sh", &["-c", &ask]);
    let printed = tools::ok("openssl", &["x509", "-in", plain(&pem), "-noout", "-fingerprint", "-sha256"]);
    printed.trim().rsplit('=').next().expect("a fingerprint").to_owned()
}

fn curl(args: &[&str]) -> String {
    tools::ok("curl", &[&["-sS", "--max-time", "60"], args].concat())
}

/// A certificate and its key from openssl.
fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (cert, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    let subject = format!("/CN={name}");
    let args = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
        "-subj",
        &subject,
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        plain(&key),
        "-out",
        plain(&cert),
    ];
    tools::ok("openssl", &args);
    (cert, key)
}

#[test]
fn a_certificate_of_its_own_serves_http2_and_http1_and_is_the_one_that_was_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--tls-self-signed"]);
    assert!(server.base.starts_with("https://127.0.0.1:"), "{}", server.base);
    assert!(
        server.setup_url.as_deref().is_some_and(|url| url.starts_with("https://")),
        "{:?}",
        server.setup_url
    );
    let fingerprint = shown(&server, folder.path());
    assert!(server.log().contains(&fingerprint), "{fingerprint} is not in\n{}", server.log());
    let mode = std::fs::metadata(data.join("tls-key.pem")).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let health = format!("{}/healthz", server.base);
    let certificate = data.join("tls-cert.pem");
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let args = [
            "--cacert",
            plain(&certificate),
            option,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{http_version}",
            &health,
        ];
        assert_eq!(curl(&args), format!("200 {version}"));
    }
    let headers = curl(&["-k", "-D", "-", "-o", "/dev/null", &health]).to_lowercase();
    assert!(
        !headers.contains("strict-transport-security"),
        "other ports of this name may speak plain HTTP: {headers}"
    );
    // Plain HTTP on this port is told what to do.
    let plain_http = health.replace("https://", "http://");
    let said = curl(&["-w", "%{http_code}", &plain_http]);
    assert!(said.contains("https://") && said.ends_with("400"), "{said}");
    assert_eq!(server.api("admin").get("/api/v1/cluster")["state"], "unconfigured");
    server.stop();
    let server = Server::start(&data, &["--tls-self-signed"]);
    assert_eq!(shown(&server, folder.path()), fingerprint, "a person compares it once");
    server.stop();
}

#[test]
fn live_parts_come_over_http2_and_a_stop_does_not_wait_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["--tls-self-signed"]);
    let (jar, stream) = (folder.path().join("jar"), folder.path().join("stream"));
    let code = server.setup_code.clone().expect("a code");
    let form = format!("code={code}&name=ada&password={}", PASSWORD.replace(' ', "+"));
    let status = curl(&[
        "-k",
        "-c",
        plain(&jar),
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-d",
        &form,
        &format!("{}/setup", server.base),
    ]);
    assert_eq!(status, "303");
    let cookies = std::fs::read_to_string(&jar).expect("the jar");
    assert!(cookies.contains("__Host-sid") && cookies.contains("TRUE"), "{cookies}");
    let live = format!("{}/live?topics=shell", server.base);
    let mut listener = std::process::Command::new("curl")
        .args(["-sSkN", "--http2", "-D", "-", "-b", plain(&jar), "-o", plain(&stream), &live])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("curl");
    harness::until("a live part arrives", || {
        std::fs::read_to_string(&stream).is_ok_and(|text| text.contains("data:")).then_some(())
    });
    server.stop();
    listener.wait().expect("the stream ends with the server");
    let mut headers = String::new();
    listener.stdout.take().expect("headers").read_to_string(&mut headers).expect("read them");
    assert!(headers.starts_with("HTTP/2 200") && headers.contains("text/event-stream"), "{headers}");
}

#[test]
fn an_own_certificate_is_read_again_when_asked_and_a_wrong_one_is_refused_before_anything_is_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((cert, key), (other_cert, other_key)) = (pair(folder.path(), "one"), pair(folder.path(), "two"));
    let data = folder.path().join("data");
    let missing = folder.path().join("missing.pem");
    let wrong = [
        (vec!["--tls-cert", plain(&cert), "--tls-key", plain(&other_key)], "does not belong to"),
        (vec!["--tls-cert", plain(&missing), "--tls-key", plain(&key)], "cannot read"),
        (vec!["--tls-cert", plain(&key), "--tls-key", plain(&key)], "no certificate"),
        (vec!["--tls-cert", plain(&cert), "--tls-key", plain(&cert)], "no plain private key"),
        (vec!["--tls-cert", plain(&cert)], "--tls-key"),
        (vec!["--tls-self-signed", "--tls-cert", plain(&cert), "--tls-key", plain(&key)], "leave out"),
    ];
    for (args, words) in wrong {
        let args = [&["serve", "--data", plain(&data), "--listen", "127.0.0.1:0"][..], &args].concat();
        let output = tools::run(plain(&binary()), &args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(words) && said.lines().count() == 1,
            "{args:?}: {said}"
        );
        assert!(!data.exists(), "{args:?} made the folder");
    }
    let server = Server::start(&data, &["--tls-cert", plain(&cert), "--tls-key", plain(&key)]);
    let first = shown(&server, folder.path());
    assert!(server.log().contains(&first));
    std::fs::copy(&other_cert, &cert).expect("replace the certificate");
    kill_process(server.pid(), Signal::HUP).expect("signal");
    harness::until("the pair that does not match is told", || {
        server.log().contains("does not belong to").then_some(())
    });
    assert_eq!(shown(&server, folder.path()), first, "the pair in use stays");
    std::fs::copy(&other_key, &key).expect("replace the key");
    kill_process(server.pid(), Signal::HUP).expect("signal");
    let second = harness::until("the new pair is in use", || {
        Some(shown(&server, folder.path())).filter(|shown| *shown != first)
    });
    harness::until("the log has its fingerprint", || server.log().contains(&second).then_some(()));
    server.stop();
}

/// Sends `bytes` and waits until the server closes; what it said.
fn until_closed(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(LONG)).expect("a limit");
    stream.write_all(bytes).expect("send");
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => said,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => said,
        Err(error) => {
            panic!("the server kept a connection that said {:?}: {error}", String::from_utf8_lossy(bytes))
        }
    }
}

#[test]
fn who_says_nothing_or_says_it_slowly_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain_server = Server::start(&folder.path().join("plain"), &[]);
    let tls_server = Server::start(&folder.path().join("tls"), &["--tls-self-signed"]);
    let plain_address = plain_server.base.trim_start_matches("http://").to_owned();
    let cases: Vec<(String, &[u8])> = vec![
        (plain_address.clone(), b""),
        (plain_address.clone(), b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "),
        (plain_address.clone(), b"PRI * HTTP/2.0\r\n"),
        (address(&tls_server), b""),
        (address(&tls_server), &[0x16, 3, 1, 2]),
    ];
    let waiting: Vec<_> = cases
        .into_iter()
        .map(|(address, bytes)| std::thread::spawn(move || until_closed(&address, bytes)))
        .collect();
    for one in waiting {
        one.join().expect("the connection was closed");
    }
    assert_eq!(
        curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{}/healthz", plain_server.base)]),
        "200"
    );
    tls_server.api("admin").get("/api/v1/cluster");
}

#[test]
fn under_ssh_the_start_says_how_to_get_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.9 22"), ("USER", "ada")];
    let server = Server::start_with(&folder.path().join("data"), &[], &environment);
    let port = server.base.rsplit(':').next().expect("a port").to_owned();
    let log = server.log();
    assert!(log.contains(&format!("ssh -L {port}:127.0.0.1:{port} ada@192.0.2.9")), "{log}");
    assert!(log.contains(&format!("--listen 192.0.2.9:{port} --tls-self-signed")), "{log}");
    assert!(server.setup_code.is_some(), "the lines on stdout stay as they are");
    server.stop();
    let server = Server::start(&folder.path().join("data"), &[]);
    assert_eq!(server.log().matches("ssh -L").count(), 1, "the second start is no SSH session");
}

#[test]
fn the_unit_of_a_service_has_the_same_options_and_nothing_is_installed_without_root_or_systemd() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("a b");
    let program = binary();
    let args = ["--data", plain(&data), "--listen", "127.0.0.1:7500", "--tls-self-signed"];
    let printed = tools::ok(plain(&program), &[&["service", "print"][..], &args].concat());
    let command = format!("serve --data \"{}\" --listen 127.0.0.1:7500 --tls-self-signed\n", data.display());
    assert!(printed.contains(&command), "{printed}");
    assert!(!data.exists(), "printing makes nothing");
    if Path::new("/run/systemd/system").is_dir() {
        return;
    }
    let output = tools::run(plain(&program), &[&["service", "install", "--yes"][..], &args].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("systemd") && said.contains("service print"), "{said}");
    assert!(!data.exists());
}

#[test]
fn a_lost_password_is_reset_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let program = binary();
    let user = |verb: &str, password: &str| {
        let said = format!(
            "printf '%s\\n' '{password}' | {} user {verb} --data {} --name ada --password-stdin",
            plain(&program),
            plain(&data)
        );
        tools::ok("sh", &["-c", &said])
    };
    user("add", "the first pass phrase");
    let sign_in = |password: &str, jar: &Path| {
        let form = format!("name=ada&password={}", password.replace(' ', "+"));
        let url = format!("{}/login", server.base);
        curl(&["-c", plain(jar), "-o", "/dev/null", "-w", "%{http_code}", "-d", &form, &url])
    };
    let open = |jar: &Path| {
        curl(&[
            "-b",
            plain(jar),
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &format!("{}/api/v1/cluster", server.base),
        ])
    };
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    // A viewer is no administrator: the setup page is still there and signing in leads to it, so the API says who is in.
    assert_eq!(sign_in("the first pass phrase", &one), "303");
    assert_eq!(open(&one), "200");
    for _ in 0..7 {
        sign_in("wrong", &two);
    }
    assert_eq!(sign_in("the first pass phrase", &two), "429");
    user("reset", "the second pass phrase");
    assert_eq!(open(&one), "401", "every session has ended");
    assert_eq!(sign_in("the second pass phrase", &two), "303", "nobody has to wait");
    assert_eq!(
        curl(&[
            "-b",
            plain(&two),
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            &format!("{}/people", server.base)
        ]),
        "403"
    );
    server.stop();
    user("reset", "the third pass phrase");
}

#[test]
fn a_browser_uses_the_console_over_http2_with_a_certificate_of_its_own() {
    journey(async || {
        let (folder, server, browser) = set_up(&["--tls-self-signed"]).await;
        let protocol = "return performance.getEntriesByType('navigation')[0].nextHopProtocol;";
        browser.open(&format!("{}/account", server.base)).await;
        assert_eq!(browser.script(protocol).await, "h2");
        browser.find("[data-live-mark][data-live=on]").await;
        browser.assert_clean_console().await;
        browser.close().await;
        drop(folder);
    });
}
