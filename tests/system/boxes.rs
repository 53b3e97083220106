//! Four ordinary boxes, each from its disks to a protected volume, or to the one sentence that says what to buy, in a real browser:
//! loop devices stand for disks (told to rotate where they should), a mounted one for the boot disk, a file system in memory for a
//! share. Clicks and seconds are counted and printed; nothing but what the pages offer is used, and no page is a dead end.
use crate::journeys::PASSWORD;
use harness::loops::{self, Loop};
use harness::{Server, browser::Browser, tools};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// A folder with a file system of its own; unmounted when its value ends.
struct Mount(PathBuf);

impl Mount {
    /// A new ext4 on a loop device: what a boot disk with room is.
    fn boot(folder: &Path, device: &Loop) -> Self {
        tools::ok("mkfs.ext4", &["-q", &device.path]);
        Self::new(folder, &[&device.path])
    }

    /// Memory: like a share, it lies on no local disk.
    fn share(folder: &Path) -> Self {
        Self::new(folder, &["-t", "tmpfs", "-o", "size=300m", "tmpfs"])
    }

    fn new(folder: &Path, what: &[&str]) -> Self {
        std::fs::create_dir(folder).expect("a folder");
        let mut args = what.to_vec();
        args.push(folder.to_str().expect("a plain path"));
        tools::ok("mount", &args);
        Self(folder.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// Tells a loop device to be a rotating disk, or flash.
fn rotates(device: &Loop, rotates: bool) {
    let path = format!("/sys/block/{}/queue/rotational", device.name());
    std::fs::write(&path, if rotates { "1" } else { "0" }).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Somebody before a browser, and how often they clicked.
struct Person {
    browser: Browser,
    server: Server,
    clicks: u32,
    began: Instant,
    ours: Vec<String>,
}

impl Person {
    /// Signed in, at the question what they have; `dirs` are where files may be made.
    async fn before(data: &Path, dirs: &[&Path], ours: &[&Loop]) -> Self {
        let mut args: Vec<String> = Vec::new();
        for dir in dirs {
            args.extend(["--file-disks".into(), dir.display().to_string()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let server = Server::with_loops(data, &args);
        let browser = Browser::start(1366).await;
        browser.open(&server.setup_url.clone().expect("the setup link is printed")).await;
        browser.fill("#name", "ada").await;
        browser.fill("#password", PASSWORD).await;
        browser.press("Make the administrator").await;
        browser.until_text("What do you have?").await;
        #[allow(
            clippy::disallowed_methods,
            reason = "seconds are printed for people, nothing is decided by them"
        )]
        let began = Instant::now();
        let ours = ours.iter().map(|device| device.name().to_owned()).collect();
        Self { browser, server, clicks: 0, began, ours }
    }

    async fn press(&mut self, text: &str) {
        self.clicks += 1;
        self.browser.press(text).await;
    }

    async fn click(&mut self, css: &str) {
        self.clicks += 1;
        self.browser.click(css).await;
    }

    /// To the step that groups disks.
    async fn group_disks(&mut self) {
        self.press("Plan a cluster step by step").await;
        self.browser.find("#wizard #name").await;
        self.click("#wizard .foot button[value=next]").await;
        self.browser.until_text("Ways to divide it").await;
    }

    async fn add_file(&mut self, path: &Path, size: &str) {
        self.press("Use a file as a disk").await;
        self.browser.fill("#file_path", path.to_str().expect("a plain path")).await;
        self.browser.fill("#file_size", size).await;
        self.press("Add the file").await;
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        self.browser.find(&format!("[aria-label='Failure domain of {name}']")).await;
    }

    /// Takes the proposal whose title contains these words. Other loop devices of the machine that runs the test are left out.
    async fn take(&mut self, words: &str) {
        self.click(&format!("button[value^='take:'][value*='{words}']")).await;
        self.browser.find("button[aria-pressed=true]").await;
        let ours = self.ours.join(",");
        let script = format!(
            "const ours = '{ours}'.split(','); let changed = 0; \
             document.querySelectorAll('select[name^=\"g.\"]').forEach(select => {{ \
                const name = select.getAttribute('aria-label').split(' ').pop(); \
                if (name.startsWith('loop') && !ours.includes(name) && select.value) {{ select.value = ''; changed += 1; }} }}); \
             return changed;"
        );
        if self.browser.script(&script).await.as_u64() != Some(0) {
            self.browser.press("Apply the changes").await;
            self.browser.until_text("Left out").await;
        }
    }

    /// From the grouping to a volume that is protected; answers what the page of the volume says.
    async fn reach_a_volume(&mut self, name: &str) {
        let url = self.browser.driver.current_url().await.expect("a URL").to_string();
        self.browser.assert_page(&url, &format!("box-{name}-group")).await;
        self.browser
            .assert_page(&format!("{}/survives", self.server.base), &format!("box-{name}-survives"))
            .await;
        self.browser.open(&url).await;
        self.press("Review at once").await;
        self.browser.until_text("What is written").await;
        let url = self.browser.driver.current_url().await.expect("a URL").to_string();
        self.browser.assert_page(&url, &format!("box-{name}-review")).await;
        self.click("#wizard .foot button[value=next]").await;
        self.press("Make the first volume").await;
        self.browser.fill("#name", "db").await;
        self.browser.fill("#size", "16").await;
        self.browser.script("const unit = document.querySelector('#unit'); unit.value = [...unit.options].find(o => o.text === 'MiB').value; return 1;").await;
        self.press("Make the volume").await;
        self.browser.until_text("Where it lies").await;
        self.browser.assert_clean_console().await;
        let api = self.server.api("viewer");
        let uuid = api.get("/api/v1/volumes/db")["uuid"].as_str().expect("uuid").to_owned();
        let object = api.get(&format!("/api/v1/objects/{uuid}"));
        assert_eq!((&object["health"], &object["tolerates_now"]), (&"healthy".into(), &1.into()), "{object}");
        let uri = self.server.nbd_uri("db");
        tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x5a 0 1M", "-c", "read -P 0x5a 0 1M", &uri]);
        self.browser
            .assert_page(&format!("{}/survives", self.server.base), &format!("box-{name}-lives"))
            .await;
        self.browser.assert_page(&format!("{}/hosts", self.server.base), &format!("box-{name}-hosts")).await;
    }

    async fn done(self, name: &str, end: &str) {
        harness::say(&format!("{name}: {end}, {} clicks, {} s", self.clicks, self.began.elapsed().as_secs()));
        self.browser.close().await;
    }
}

fn journey(body: impl AsyncFnOnce(PathBuf)) {
    if loops::problem().is_some() {
        return;
    }
    let _turn = loops::alone();
    let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
    crate::journeys::journey(async || body(folder.path().to_owned()).await);
}

fn device(folder: &Path, name: &str, mib: u64, is_rotating: bool) -> Loop {
    let device = Loop::new(&folder.join(format!("{name}.img")), mib * MIB, 512);
    rotates(&device, is_rotating);
    device
}

#[test]
fn a_boot_nvme_and_three_hard_disks() {
    journey(async |folder| {
        let boot = device(&folder, "boot", 400, false);
        let mount = Mount::boot(&folder.join("boot"), &boot);
        let hard: Vec<Loop> =
            (0..3).map(|index| device(&folder, &format!("hdd{index}"), 160, true)).collect();
        let ours: Vec<&Loop> = hard.iter().collect();
        let mut person = Person::before(&folder.join("data"), &[&mount.0], &ours).await;
        person.group_disks().await;
        let text = person.browser.text().await;
        assert!(
            !text.contains(&format!("Failure domain of {}", boot.name())),
            "the boot disk is not offered"
        );
        // A file on the boot disk becomes the cache of all three, in slices: the page says what that means.
        person.add_file(&mount.0.join("log.img"), "128MiB").await;
        person.take("slice").await;
        person.browser.until_text("shared fate").await;
        person.browser.until_text("Does not survive the loss of cache disk log").await;
        person.reach_a_volume("boot-nvme-3-hdd").await;
        let disks = person.server.api("viewer").items("/api/v1/disks?limit=1000");
        let cache = disks.iter().filter(|disk| disk["role"] == "cache").count();
        assert_eq!(cache, 1, "one file carries the logs of all");
        person.done("boot NVMe + 3 hard disks", "a protected volume").await;
        drop((hard, mount, boot));
    });
}

#[test]
fn three_equal_ssds() {
    journey(async |folder| {
        let disks: Vec<Loop> =
            (0..3).map(|index| device(&folder, &format!("ssd{index}"), 160, false)).collect();
        let ours: Vec<&Loop> = disks.iter().collect();
        let mut person = Person::before(&folder.join("data"), &[], &ours).await;
        person.group_disks().await;
        person.take("each disk is").await;
        person.browser.until_text("Survives the loss of any one disk").await;
        person.reach_a_volume("3-ssd").await;
        person.done("3 equal SSDs", "a protected volume").await;
    });
}

#[test]
fn an_nvme_and_two_sata_disks() {
    journey(async |folder| {
        let disks = [
            device(&folder, "nvme", 128, false),
            device(&folder, "sata0", 192, true),
            device(&folder, "sata1", 192, true),
        ];
        let ours: Vec<&Loop> = disks.iter().collect();
        let mut person = Person::before(&folder.join("data"), &[], &ours).await;
        person.group_disks().await;
        person.take("each disk is").await;
        person.browser.until_text("Survives the loss of any one disk").await;
        person.reach_a_volume("nvme-2-sata").await;
        person.done("NVMe + 2 SATA", "a protected volume").await;
    });
}

#[test]
fn one_ssd_and_a_file_on_a_share() {
    journey(async |folder| {
        let ssd = device(&folder, "ssd", 160, false);
        let share = Mount::share(&folder.join("nas"));
        let mut person = Person::before(&folder.join("data"), &[&share.0], &[&ssd]).await;
        person.group_disks().await;
        person.add_file(&share.0.join("nas.img"), "128MiB").await;
        person.take("each disk is").await;
        let text = person.browser.find("#gives").await.text().await.expect("text");
        let lone = [
            "needs 3 fault domains, 2 available",
            "To buy: 1 more disk of at least",
            "even a file of 67.11 MB on another device is enough",
        ];
        // Another test's loop device may stand beside ours: then there is a third domain, and nothing to buy.
        if person.browser.script("return document.querySelectorAll('select[name^=\"g.\"]').length").await == 2
        {
            assert!(lone.iter().all(|words| text.contains(words)), "{text}");
        }
        let url = person.browser.driver.current_url().await.expect("a URL").to_string();
        person.browser.assert_page(&url, "box-ssd-nas-group").await;
        // No dead end: the way back, and onwards without protection, are both there.
        person.browser.open(&url).await;
        person.press("Review at once").await;
        person.browser.until_text("Review and create").await;
        person.browser.assert_clean_console().await;
        person.done("1 SSD + 1 NAS file", "one sentence: what to buy").await;
        drop((ssd, share));
    });
}
