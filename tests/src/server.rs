//! A real server in its own folder, and the lab clusters that most tests start from.
use crate::{Api, tools};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

/// The binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("MILLPOND_BIN")
        .map(PathBuf::from)
        .expect("MILLPOND_BIN names the binary under test; tests/run builds it and sets it")
}

/// A running server. Ends with the value.
pub struct Server {
    child: Child,
    /// Data folder.
    pub data: PathBuf,
    /// E.g. `http://127.0.0.1:41234`.
    pub base: String,
    /// The setup link, while no administrator exists.
    pub setup_url: Option<String>,
    /// The setup code, as printed alone on its line.
    pub setup_code: Option<String>,
    stderr_path: PathBuf,
}

impl Server {
    /// Starts `millpond serve` on a free port and waits for the ready line.
    pub fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_with(data, args, &[])
    }

    /// [`Server::start`] with loop devices taken for disks.
    pub fn with_loops(data: &Path, args: &[&str]) -> Self {
        Self::start_with(data, args, &[("MILLPOND_ALLOW_LOOP_DEVICES", "1")])
    }

    /// As [`Server::start`], with more in the environment.
    pub fn start_with(data: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let stderr_path = data.with_extension("log");
        let stderr =
            std::fs::OpenOptions::new().create(true).append(true).open(&stderr_path).expect("open the log");
        let mut child = Command::new(binary())
            .arg("serve")
            .arg("--data")
            .arg(data)
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .env_remove("SSH_CONNECTION")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("start the server");
        let lines = lines_of(child.stdout.take().expect("stdout is piped"));
        let mut setup_url = None;
        let mut setup_code = None;
        let base = loop {
            let line = lines.recv_timeout(std::time::Duration::from_secs(180)).unwrap_or_else(|_| {
                let _ = child.kill();
                panic!("no ready line; log:\n{}", std::fs::read_to_string(&stderr_path).unwrap_or_default())
            });
            if let Some(url) = line.strip_prefix("setup: ") {
                setup_url = Some(url.to_owned());
            } else if let Some(url) = line.strip_prefix("millpond ready on ") {
                break url.to_owned();
            } else if setup_url.is_some() && setup_code.is_none() {
                setup_code = Some(line);
            }
        };
        Self { child, data: data.to_owned(), base, setup_url, setup_code, stderr_path }
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// kill -9, and waits until the process is gone.
    pub fn kill(mut self) {
        kill_process(self.pid(), Signal::KILL).expect("kill the server");
        self.child.wait().expect("the server ends");
    }

    /// SIGTERM; the exit code must be 0.
    pub fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).expect("signal the server");
        let status = self.child.wait().expect("the server ends");
        assert!(status.success(), "SIGTERM ended with {status}; log:\n{}", self.log());
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.stderr_path).unwrap_or_default()
    }

    /// A caller with a new token of `role`.
    pub fn api(&self, role: &str) -> Api {
        Api { base: self.base.clone(), token: token(&self.data, role) }
    }

    /// The unix NBD URI of a volume.
    pub fn nbd_uri(&self, volume: &str) -> String {
        let attach = self.api("viewer").get(&format!("/api/v1/volumes/{volume}"));
        attach["attach"]["nbd_unix_uri"].as_str().expect("a volume has a unix NBD URI").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new API token by the command line.
pub fn token(data: &Path, role: &str) -> String {
    let data = data.to_str().expect("a plain path");
    let binary = binary();
    let name = format!("test-{role}");
    let args = ["token", "create", "--data", data, "--name", &name, "--role", role];
    let printed = tools::ok(binary.to_str().expect("a plain path"), &args);
    printed.trim().to_owned()
}

fn lines_of(stdout: impl std::io::Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                // The receiver is only interested until the ready line; the pipe must still be drained.
            }
        }
    });
    receiver
}

/// A lab in its own folder, served and configured through the API.
pub struct Lab {
    /// The server.
    pub server: Server,
    /// Administrator.
    pub api: Api,
    /// Keeps the folder.
    pub folder: tempfile::TempDir,
}

impl Lab {
    /// The arguments that make this lab.
    pub fn shape(hosts: u32, capacity: &str) -> String {
        format!("hosts={hosts},cache=1x128MiB,capacity={capacity}")
    }

    /// Serves a lab of `hosts` hosts with the given capacity disks (`2x512MiB`), configured with every disk claimed.
    pub fn ready(hosts: u32, capacity: &str, repair_delay_seconds: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
        let delay = repair_delay_seconds.to_string();
        let args = ["--lab", &Self::shape(hosts, capacity), "--repair-delay", &delay];
        let server = Server::start(&folder.path().join("data"), &args);
        let api = server.api("admin");
        let claims = claims(&api);
        api.post(
            "/api/v1/cluster",
            &json!({"name": "lab", "type": "single-site", "fault_domains": [], "claims": claims}),
        );
        api.until("/api/v1/cluster", "the cluster is ready", |cluster| cluster["state"] == "ready");
        Self { server, api, folder }
    }

    /// Makes a volume and answers it.
    pub fn volume(&self, name: &str, size_bytes: u64, policy: Option<&str>) -> Value {
        let mut body = json!({"name": name, "size_bytes": size_bytes});
        if let Some(policy) = policy {
            body["policy"] = policy.into();
        }
        self.api.expect(201, "POST", "/api/v1/volumes", Some(&body))
    }

    /// The object of a volume, with its tree.
    pub fn object(&self, volume: &str) -> Value {
        let uuid =
            self.api.get(&format!("/api/v1/volumes/{volume}"))["uuid"].as_str().expect("uuid").to_owned();
        self.api.get(&format!("/api/v1/objects/{uuid}"))
    }

    /// Injects a fault that must be accepted.
    pub fn fault(&self, target: &str, fault: &str) {
        self.api.post("/api/v1/lab/faults", &json!({"target": target, "fault": fault}));
    }

    /// Waits until the object of a volume has this health.
    pub fn until_health(&self, volume: &str, health: &str) -> Value {
        crate::until(&format!("{volume} is {health}"), || {
            let object = self.object(volume);
            (object["health"] == health).then_some(object)
        })
    }

    /// Stops the server and verifies every byte of the cluster.
    pub fn check_deep(self) {
        let Self { server, folder, .. } = self;
        let data = server.data.clone();
        server.stop();
        let binary = binary();
        let data = data.to_str().expect("plain");
        tools::ok(binary.to_str().expect("plain"), &["check", "--deep", "--data", data]);
        drop(folder);
    }

    /// Stops the server, does something with its disks, and starts it again.
    pub fn restart_with(self, meanwhile: impl FnOnce()) -> Self {
        let Self { server, folder, .. } = self;
        let data = server.data.clone();
        server.stop();
        meanwhile();
        let server = Server::start(&data, &[]);
        let api = server.api("admin");
        Self { server, api, folder }
    }

    /// Restarts the server (after `kill` or `stop`) on the same folder.
    pub fn restart(self, kill: bool, args: &[&str]) -> Self {
        let Self { server, folder, .. } = self;
        let data = server.data.clone();
        if kill {
            server.kill()
        } else {
            server.stop()
        }
        let server = Server::start(&data, args);
        let api = server.api("admin");
        Self { server, api, folder }
    }
}

/// One claim a host, with its cache disks and its capacity disks as the lab named them.
pub fn claims(api: &Api) -> Vec<Value> {
    let disks = api.items("/api/v1/disks?limit=1000");
    let mut hosts: Vec<String> =
        disks.iter().filter_map(|disk| disk["host"].as_str().map(str::to_owned)).collect();
    hosts.sort();
    hosts.dedup();
    let ids = |host: &str, part: &str| -> Vec<Value> {
        disks
            .iter()
            .filter(|disk| {
                disk["host"] == host && disk["path"].as_str().is_some_and(|path| path.contains(part))
            })
            .map(|disk| disk["id"].clone())
            .collect()
    };
    hosts
        .iter()
        .map(|host| json!({"host": host, "cache": ids(host, "-cache"), "capacity": ids(host, "-cap")}))
        .collect()
}

/// Data leaves and witnesses of an object's tree.
pub fn leaves(object: &Value) -> Vec<Value> {
    fn walk(node: &Value, into: &mut Vec<Value>) {
        match node["kind"].as_str() {
            Some("component" | "witness") => into.push(node.clone()),
            _ => node["children"].as_array().into_iter().flatten().for_each(|child| walk(child, into)),
        }
    }
    let mut into = Vec::new();
    walk(&object["tree"], &mut into);
    into
}
