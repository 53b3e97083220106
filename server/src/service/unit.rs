//! The systemd unit that serves a data folder with the options of this process: pure text, shown before it is written anywhere.
//!
//! Invariants: the unit runs what was asked for and nothing more; it may write only the data folder, the folders of file disks, and block
//! devices; every argument is quoted, so that no name of a folder becomes an option or a directive.
use crate::app::Config;
use crate::service::lab;
use crate::tls::Source;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How long a stop may take, seconds: 10 for open requests, 30 for connections of volumes, 30 to write back, and a margin.
const STOP_SECONDS: u32 = 100;
/// Below this port a process needs a capability. Source: ip(7), `ip_unprivileged_port_start`.
const PORT_FREE_FOR_ALL: u16 = 1024;

/// The options that start what this process serves, `serve` first. A port that was picked freely is the one that was picked.
pub fn arguments(config: &Config) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut arguments = vec!["serve".to_owned(), "--data".into(), path(&config.data_dir)];
    arguments.extend(["--listen".into(), config.listen.to_string()]);
    for folder in &config.file_disk_dirs {
        arguments.extend(["--file-disks".into(), path(folder)]);
    }
    if let Some(shape) = &config.lab {
        arguments.extend(["--lab".into(), lab::shape_text(shape)]);
    }
    if let Some(seconds) = config.repair_delay_seconds {
        arguments.extend(["--repair-delay".into(), seconds.to_string()]);
    }
    if config.lists_devices {
        arguments.push("--devices".into());
    }
    if let Some(folder) = &config.inventory_dir {
        arguments.extend(["--inventory".into(), path(folder)]);
    }
    if let Some(url) = &config.public_url {
        arguments.extend(["--public-url".into(), url.clone()]);
    }
    match &config.tls_source {
        Some(Source::Files { certificate, key }) => {
            arguments.extend(["--tls-cert".into(), path(certificate), "--tls-key".into(), path(key)]);
        }
        Some(Source::SelfSigned) => arguments.push("--tls-self-signed".into()),
        None => {}
    }
    arguments
}

/// One argument as a shell takes it.
pub fn for_shell(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,[]".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// One argument as `ExecStart` and the lists of paths take it: no specifier, no variable, no escape, no line of its own.
fn for_unit(argument: &str) -> String {
    let escape = |letter: char| match letter {
        '\\' | '"' => format!("\\{letter}"),
        '%' | '$' => format!("{letter}{letter}"),
        control if control.is_ascii_control() => format!("\\x{:02x}", u32::from(control)),
        other => other.to_string(),
    };
    let escaped: String = argument.chars().map(escape).collect();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@+,[]%".contains(&byte);
    if !escaped.is_empty() && escaped.bytes().all(plain) { escaped } else { format!("\"{escaped}\"") }
}

/// A path in a list of paths, where a dollar stands for itself.
fn path_for_unit(path: &Path) -> String {
    for_unit(&path.display().to_string()).replace("$$", "$")
}

/// Who owns the data folder, or who runs this when there is none yet: the name, or the number when it has none.
///
/// # Errors
/// When the folder is there and cannot be looked at.
pub fn owner(data_dir: &Path) -> std::io::Result<String> {
    let uid = match std::fs::metadata(data_dir) {
        Ok(meta) => meta.uid(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => rustix::process::geteuid().as_raw(),
        Err(error) => return Err(error),
    };
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    Ok(name.unwrap_or_else(|| uid.to_string()))
}

/// What a unit is made of.
pub struct UnitPlan {
    /// The program, absolute.
    pub program: PathBuf,
    /// Its arguments, `serve` first.
    pub arguments: Vec<String>,
    /// The data folder, absolute.
    pub data_dir: PathBuf,
    /// Other folders that it writes to.
    pub writes: Vec<PathBuf>,
    /// Files and folders that it reads beside them.
    pub reads: Vec<PathBuf>,
    /// Who it runs as: the owner of the data folder.
    pub user: String,
    /// The port that it listens on.
    pub port: u16,
}

impl UnitPlan {
    /// The unit that goes on with what this process serves.
    pub fn new(config: &Config, program: PathBuf, user: String) -> Self {
        let mut reads: Vec<PathBuf> = config.inventory_dir.iter().cloned().collect();
        if let Some(Source::Files { certificate, key }) = &config.tls_source {
            reads.extend([certificate.clone(), key.clone()]);
        }
        let (arguments, writes) = (arguments(config), config.file_disk_dirs.clone());
        Self {
            program,
            arguments,
            data_dir: config.data_dir.clone(),
            writes,
            reads,
            user,
            port: config.listen.port(),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.data_dir).chain(&self.writes)
    }

    fn is_below(&self, folders: &[&str]) -> bool {
        self.paths()
            .chain(&self.reads)
            .chain([&self.program])
            .any(|path| folders.iter().any(|folder| path.starts_with(folder)))
    }

    /// The text of the unit.
    pub fn text(&self) -> String {
        let list = |paths: Vec<String>| paths.join(" ");
        let command: Vec<String> = std::iter::once(self.program.display().to_string())
            .chain(self.arguments.iter().cloned())
            .map(|argument| for_unit(&argument))
            .collect();
        let paths = list(self.paths().map(|path| path_for_unit(path)).collect());
        let home = if self.is_below(&["/home", "/root", "/run/user"]) { "read-only" } else { "yes" };
        let tmp = if self.is_below(&["/tmp", "/var/tmp"]) { "no" } else { "yes" };
        // Block devices belong to the group `disk`; root needs no group, and only root may ask a disk for its health.
        let bind = if self.port < PORT_FREE_FOR_ALL { "CAP_NET_BIND_SERVICE" } else { "" };
        let (groups, capabilities, ambient) = match self.user == "root" {
            true => (String::new(), format!("CAP_SYS_ADMIN CAP_SYS_RAWIO CAP_DAC_OVERRIDE {bind}"), ""),
            false => ("SupplementaryGroups=disk\n".into(), bind.to_owned(), bind),
        };
        let (user, command, capabilities) = (&self.user, list(command), capabilities.trim_end());
        format!(
            "[Unit]\nDescription=Millpond storage cluster\nAfter=local-fs.target network-online.target\n\
             Wants=network-online.target\nRequiresMountsFor={paths}\n\n\
             [Service]\nType=notify\nUser={user}\n{groups}ExecStart={command}\nExecReload=/bin/kill -HUP $MAINPID\n\
             Restart=on-failure\nRestartSec=2\nTimeoutStartSec=300\nTimeoutStopSec={STOP_SECONDS}\n\
             LimitNOFILE=65536\nLimitMEMLOCK=infinity\nOOMScoreAdjust=-500\nUMask=0077\n\n\
             # It writes its folders and block devices, and nothing else.\n\
             ReadWritePaths={paths}\nProtectSystem=strict\nProtectHome={home}\nPrivateTmp={tmp}\n\
             DevicePolicy=closed\nDeviceAllow=block-* rw\nDeviceAllow=char-nvme rw\n\
             CapabilityBoundingSet={capabilities}\nAmbientCapabilities={ambient}\n\
             NoNewPrivileges=yes\nProtectClock=no\nProtectHostname=yes\n\
             ProtectKernelLogs=yes\nProtectKernelModules=yes\nProtectKernelTunables=yes\nProtectControlGroups=yes\n\
             RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\nRestrictNamespaces=yes\nRestrictRealtime=yes\n\
             RestrictSUIDSGID=yes\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\nSystemCallArchitectures=native\n\
             SystemCallFilter=@system-service\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        )
    }
}

#[cfg(test)]
pub mod tests {
    //! The unit runs the same options, quotes every name, and is one that systemd itself finds right.
    use super::*;

    /// A command line.
    pub fn config() -> Config {
        Config {
            data_dir: "/srv/pond".into(),
            listen: "127.0.0.1:7400".parse().unwrap(),
            public_url: None,
            file_disk_dirs: Vec::new(),
            lists_devices: false,
            allows_loop_devices: false,
            inventory_dir: None,
            lab: None,
            repair_delay_seconds: None,
            tls_source: None,
            tls: None,
            names: Vec::new(),
            supervised: false,
        }
    }

    fn plan(config: &Config) -> UnitPlan {
        UnitPlan::new(config, "/usr/local/bin/millpond".into(), "root".into())
    }

    #[test]
    fn the_unit_runs_the_options_of_this_process() {
        let config = Config {
            file_disk_dirs: vec!["/mnt/nas".into()],
            lists_devices: true,
            public_url: Some("https://mill.example".into()),
            ..config()
        };
        let text = plan(&config).text();
        let command = "ExecStart=/usr/local/bin/millpond serve --data /srv/pond --listen 127.0.0.1:7400 \
                       --file-disks /mnt/nas --devices --public-url https://mill.example\n";
        assert!(text.contains(command), "{text}");
        assert!(text.contains("\nReadWritePaths=/srv/pond /mnt/nas\n"), "{text}");
        assert!(text.contains("\nProtectHome=yes\n") && text.contains("\nPrivateTmp=yes\n"), "{text}");
        let at_home = Config { data_dir: "/home/ada/pond".into(), ..config };
        let unit = UnitPlan { user: "ada".into(), ..plan(&at_home) };
        assert!(unit.text().contains("ProtectHome=read-only\n") && unit.text().contains("User=ada\n"));
        assert!(unit.text().contains("SupplementaryGroups=disk\n"));
    }

    #[test]
    fn a_lab_stays_one_and_a_low_port_can_be_taken() {
        let shape = lab::parse_shape("hosts=5,cache=0,capacity=2x1GiB").unwrap();
        assert_eq!(lab::parse_shape(&lab::shape_text(&shape)), Ok(shape.clone()));
        let listen = "0.0.0.0:443".parse().unwrap();
        let config = Config { lab: Some(shape), repair_delay_seconds: Some(90), listen, ..config() };
        let text = plan(&config).text();
        let options = "--lab hosts=5,cache=0,capacity=2x1073741824 --repair-delay 90\n";
        assert!(text.contains(options) && text.contains("CAP_DAC_OVERRIDE CAP_NET_BIND_SERVICE\n"), "{text}");
        let unit = UnitPlan { user: "ada".into(), ..plan(&config) }.text();
        assert!(
            unit.contains(
                "\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n"
            ),
            "{unit}"
        );
        let high = UnitPlan { port: 7400, user: "ada".into(), ..plan(&config) }.text();
        assert!(high.contains("\nCapabilityBoundingSet=\nAmbientCapabilities=\n"), "{high}");
    }

    #[test]
    fn no_name_becomes_an_option_or_a_directive() {
        let odd = "/srv/a b$HOME%h\"\\";
        let text = plan(&Config { data_dir: odd.into(), ..config() }).text();
        assert!(text.contains(r#"--data "/srv/a b$$HOME%%h\"\\" --listen"#), "{text}");
        assert!(text.contains(r#"ReadWritePaths="/srv/a b$HOME%%h\"\\""#), "{text}");
        let text = plan(&Config { data_dir: "/srv/a\nExecStartPre=/bin/false".into(), ..config() }).text();
        assert!(!text.lines().any(|line| line.starts_with("ExecStartPre")), "{text}");
        assert_eq!(for_shell("/srv/pond"), "/srv/pond");
        assert_eq!(for_shell("/srv/a b's"), r"'/srv/a b'\''s'");
    }

    #[test]
    fn systemd_itself_finds_the_unit_right() {
        let folder = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let config = Config { data_dir: folder.path().join("a b"), lists_devices: true, ..config() };
        std::fs::create_dir(&config.data_dir).unwrap();
        let unit = UnitPlan::new(&config, program, "root".into());
        let path = folder.path().join("millpond.service");
        std::fs::write(&path, unit.text()).unwrap();
        let verified = std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output();
        // Nothing to ask where there is no systemd.
        let Ok(verified) = verified else { return };
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("millpond")).collect();
        assert!(verified.status.success() && ours.is_empty(), "{said}\n{}", unit.text());
    }
}
