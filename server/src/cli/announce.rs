//! What a start says: the lines of the contract on stdout, and on stderr what helps the person who started it: the fingerprint of the
//! certificate, the way in over SSH. A service manager that waits is told, too.
use super::people::sentence;
use crate::app::{App, Config};
use crate::service::{auth, unit};
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that everything answers. A closed stdout is no reason to stop.
pub(super) async fn ready(app: &App) -> Result<(), String> {
    let mut text = String::new();
    if auth::setup_is_open(app).await.map_err(|error| sentence(&error))? {
        let code = app.setup.text();
        text = format!("setup: {}/setup#{code}\n{code}\n", app.config.shown());
    }
    text.push_str(&format!("millpond ready on {}\n", app.config.base()));
    let said = [certificate(&app.config), ssh(&app.config, &SshFacts::of_this_process())];
    said.into_iter().flatten().for_each(|lines| eprintln!("{lines}"));
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    tell_service_manager();
    Ok(())
}

/// The fingerprint, so that a person can compare it with the one that the browser shows.
fn certificate(config: &Config) -> Option<String> {
    let fingerprint = config.tls.as_ref()?.pair().fingerprint();
    Some(format!("certificate SHA-256 fingerprint (compare it with the browser's): {fingerprint}"))
}

/// How the person who started this came to the machine.
#[derive(Default)]
struct SshFacts {
    /// `SSH_CONNECTION`: client address and port, server address and port.
    connection: Option<String>,
    user: Option<String>,
}

impl SshFacts {
    fn of_this_process() -> Self {
        let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
        Self { connection: std::env::var("SSH_CONNECTION").ok(), user: user.ok() }
    }
}

/// Under SSH the browser is elsewhere: the tunnel to type there, and the start that needs none.
fn ssh(config: &Config, facts: &SshFacts) -> Option<String> {
    let connection = facts.connection.as_deref()?;
    let fields: Vec<&str> = connection.split_whitespace().collect();
    let &[_, _, server, ssh_port] = &fields[..] else { return None };
    if !config.listen.ip().is_loopback() {
        return None;
    }
    let user = facts.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let port = config.listen.port();
    let other_port = if ssh_port == "22" { String::new() } else { format!(" -p {ssh_port}") };
    let tunnel = format!("ssh -L {port}:{}{other_port} {user}{server}", config.listen);
    let bracketed = if server.contains(':') { format!("[{server}]") } else { server.to_owned() };
    let mut arguments = unit::arguments(config);
    let place = arguments.iter().position(|argument| argument == "--listen").map(|index| index + 1);
    if let Some(listen) = place.and_then(|place| arguments.get_mut(place)) {
        *listen = format!("{bracketed}:{port}");
    }
    if config.tls_source.is_none() {
        arguments.push("--tls-self-signed".into());
    }
    let direct: Vec<String> = arguments.iter().map(|argument| unit::for_shell(argument)).collect();
    Some(format!(
        "this is an SSH session. To open the console in the browser of your own computer, type there:\n  {tunnel}\n\
         or stop this, and let it be reached from the network over TLS:\n  millpond {}",
        direct.join(" ")
    ))
}

/// `READY=1` to the socket that a service manager named, if one did. It does its own waiting: an error here is its affair.
fn tell_service_manager() {
    let Some(name) = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()) else { return };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager could not be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str) -> Config {
        Config { listen: listen.parse().unwrap(), ..unit::tests::config() }
    }

    fn facts(connection: &str) -> SshFacts {
        SshFacts { connection: Some(connection.into()), user: Some("ada".into()) }
    }

    #[test]
    fn under_ssh_the_tunnel_and_the_start_without_one_are_shown() {
        let said = ssh(&config("127.0.0.1:7400"), &facts("10.0.0.2 50000 10.0.0.7 22")).unwrap();
        assert!(said.contains("\n  ssh -L 7400:127.0.0.1:7400 ada@10.0.0.7\n"), "{said}");
        assert!(said.contains("\n  millpond serve --data /srv/pond --listen 10.0.0.7:7400"), "{said}");
        assert!(said.ends_with(" --tls-self-signed"), "{said}");
        let said = ssh(&config("127.0.0.1:8000"), &facts("fd00::2 50000 fd00::7 2222")).unwrap();
        assert!(said.contains("ssh -L 8000:127.0.0.1:8000 -p 2222 ada@fd00::7\n"), "{said}");
        assert!(said.contains("--listen [fd00::7]:8000"), "{said}");
    }

    #[test]
    fn without_ssh_or_with_the_network_there_is_nothing_to_say() {
        assert_eq!(ssh(&config("127.0.0.1:7400"), &SshFacts::default()), None);
        assert_eq!(ssh(&config("127.0.0.1:7400"), &facts("what")), None);
        assert_eq!(ssh(&config("0.0.0.0:7400"), &facts("10.0.0.2 50000 10.0.0.7 22")), None);
    }
}
