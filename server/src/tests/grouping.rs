//! The step that groups disks, as a browser without script uses it: take, move, rename, add, remove; mistakes lose nothing.
use super::{Answer, Bench, unconfigured};
use crate::app::NATIVE;
use crate::db::users::Role;
use crate::service::draft::{self, Draft};
use crate::service::{grouping, inventory};
use axum::http::Method;
use std::path::Path;

const STEP: &str = "/setup-cluster/native/group";

struct Desk {
    bench: Bench,
    cookie: String,
    folder: tempfile::TempDir,
}

impl Desk {
    /// Before a recorded machine with six disks in docks, of which four can be claimed and two are halves of one drive.
    async fn new() -> Self {
        Self::before(&[("E2_lsblk_usb_dock.json", "lsblk.json"), ("E2_by_path.json", "by-path.json")]).await
    }

    /// Before the machine that these files record.
    async fn before(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/inventory/fixtures");
        for (from, name) in files {
            std::fs::copy(fixtures.join(from), folder.path().join(name)).unwrap();
        }
        let path = folder.path().canonicalize().unwrap();
        let bench = Bench::with(unconfigured(), |config| config.inventory_dir = Some(path)).await;
        let cookie = bench.cookie(Role::Admin).await;
        Self { bench, cookie, folder }
    }

    async fn get(&self, path: &str) -> Answer {
        self.bench.call(Method::GET, path, &[("cookie", &self.cookie)], "").await
    }

    async fn draft(&self) -> Draft {
        draft::load(&self.bench.app, NATIVE).await.unwrap().draft
    }

    /// Everything that the form holds now, with some fields changed and a button pressed, as a browser would send it.
    async fn press(&self, go: &str, changes: &[(&str, &str)]) -> Answer {
        let page = self.get(STEP).await.text;
        self.press_on(&page, go, changes).await
    }

    /// As [`Desk::press`] on a page that was shown before.
    async fn press_on(&self, page: &str, go: &str, changes: &[(&str, &str)]) -> Answer {
        let mut fields = fields(page);
        for (name, value) in changes {
            fields.retain(|(known, _)| known != name);
            fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        fields.push(("go".into(), go.into()));
        let encode = |text: &str| crate::web::format::encoded(text);
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let headers =
            [("cookie", self.cookie.as_str()), ("content-type", "application/x-www-form-urlencoded")];
        self.bench.call(Method::POST, STEP, &headers, &body.join("&")).await
    }

    /// The recorded machine changes, and is looked at again.
    async fn machine(&self, change: impl Fn(&mut serde_json::Value)) {
        let path = self.folder.path().join("lsblk.json");
        let mut listing = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut listing);
        std::fs::write(&path, listing.to_string()).unwrap();
        inventory::expire(&self.bench.app).await;
    }

    async fn take(&self, title: &str) {
        let answer = self.press(&format!("take:{title}"), &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
    }
}

/// Value of an attribute in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let from = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[from..].split('"').next()
}

/// Fields that a browser would send: hidden and text fields, chosen radio buttons, selected options.
fn fields(page: &str) -> Vec<(String, String)> {
    let form = &page
        [page.find("<form id=\"wizard\"").expect("a form")..page.find("</form></main>").expect("its end")];
    let mut fields = Vec::new();
    let mut select = String::new();
    for tag in form.split('<').map(|rest| format!("<{}", rest.split('>').next().unwrap_or_default())) {
        let name = attribute(&tag, "name").map(ToOwned::to_owned);
        let value = attribute(&tag, "value").unwrap_or_default().to_owned();
        if tag.starts_with("<input") {
            let kind = attribute(&tag, "type").unwrap_or("text");
            let is_sent = !matches!(kind, "radio" | "checkbox") || tag.contains(" checked");
            fields.extend(name.filter(|_| is_sent).map(|name| (name, value)));
        } else if tag.starts_with("<select") {
            select = name.unwrap_or_default();
        } else if tag.starts_with("<option") && tag.contains(" selected") {
            fields.push((select.clone(), value));
        }
    }
    fields
}

/// The name of the select of a disk.
fn select_of(page: &str, disk: &str) -> String {
    let tag = page.split('<').find(|tag| tag.contains(&format!("aria-label=\"Failure domain of {disk}\"")));
    attribute(tag.expect("a select"), "name").expect("a name").to_owned()
}

#[tokio::test]
async fn a_grouping_is_taken_changed_and_said_again() {
    let desk = Desk::new().await;
    let page = desk.get(STEP).await.text;
    assert!(page.contains("Nothing is in a failure domain yet") && page.contains("Recommended"), "{page}");
    desk.take("each disk is a failure domain").await;
    let draft = desk.draft().await;
    assert_eq!((draft.hosts.len(), draft.claims.len(), draft.disks.len()), (3, 3, 4));
    let page = desk.get(STEP).await.text;
    for words in
        ["Taken", "Survives the loss of any one disk", "usable under default", "controller 0000:00:14.0"]
    {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    // Another split of the halves changes nothing: they are one device.
    desk.press("add-domain", &[("new_domain", "half")]).await;
    let page = desk.get(STEP).await.text;
    desk.press("update", &[(&select_of(&page, "sdg"), "d3")]).await;
    let draft = desk.draft().await;
    assert_eq!(draft.claims.len(), 4);
    assert_eq!(draft.fault_domains.len(), 1, "{:?}", draft.fault_domains);
    let page = desk.get(STEP).await.text;
    assert!(page.contains("lie on one device and fail together: 2 count as 1"), "{page}");
    // What survives says the same, loss by loss.
    let survives = desk.get("/survives").await;
    assert_eq!(survives.status, 200);
    for words in ["the device with sdf, sdg", "Group your disks", "lie on one device", "Two losses at once"] {
        assert!(survives.text.contains(words), "no {words:?} in {}", survives.text);
    }
}

#[tokio::test]
async fn mistakes_are_said_and_nothing_typed_is_lost() {
    let desk = Desk::new().await;
    let answer = desk.press("next", &[]).await;
    assert_eq!(answer.status, 422);
    assert!(answer.text.contains("take one of the groupings"), "{}", answer.text);
    desk.take("each disk is a failure domain").await;
    let before = desk.draft().await;
    let answer = desk.press("next", &[("n.0", "../etc"), ("n.1", "left")]).await;
    assert_eq!(answer.status, 422);
    assert!(
        answer.text.contains("value=\"../etc\"") && answer.text.contains("value=\"left\""),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("id=\"n.0-error\""), "the field says what is wrong");
    assert_eq!(desk.draft().await, before, "nothing half right is stored");
    let answer = desk.press("add-domain", &[("new_domain", "a b")]).await;
    assert_eq!(answer.status, 422);
    assert!(
        answer.text.contains("value=\"a b\"") && answer.text.contains("new_domain-error"),
        "{}",
        answer.text
    );
    let answer = desk.press("take:no such grouping", &[]).await;
    assert_eq!(answer.status, 422);
    assert!(answer.text.contains("the disks have changed meanwhile"), "{}", answer.text);
    // A recorded machine can be divided, and never claimed from here.
    let answer = desk.press("review", &[]).await;
    assert_eq!(answer.status, 422);
    assert!(answer.text.contains("nothing of them can be claimed here"), "{}", answer.text);
}

#[tokio::test]
async fn domains_are_renamed_removed_and_a_rename_keeps_the_host() {
    let desk = Desk::new().await;
    desk.take("each disk is a failure domain").await;
    let before = desk.draft().await;
    assert_eq!(desk.press("update", &[("n.0", "attic")]).await.status, 303);
    let draft = desk.draft().await;
    assert_eq!((draft.hosts[0].id, draft.hosts[0].name.as_str()), (before.hosts[0].id, "attic"));
    assert_eq!(draft.claims[0].host, "attic");
    desk.press("remove-domain:0", &[]).await;
    let draft = desk.draft().await;
    assert_eq!(draft.hosts.len(), 2);
    assert!(draft.claims.iter().all(|claim| claim.host != "attic"));
    let page = desk.get(STEP).await.text;
    assert!(page.contains("Left out") && page.contains("needs 3 fault domains, 2 available"), "{page}");
    assert!(
        page.contains("To buy: 1 more disk of at least")
            && page.contains("even a file of 67.11 MB on another"),
        "{page}"
    );
}

#[tokio::test]
async fn files_on_one_device_are_one_domain_and_a_wrong_path_is_kept() {
    let bench = Bench::new(unconfigured()).await;
    let cookie = bench.cookie(Role::Admin).await;
    let desk = Desk { bench, cookie, folder: tempfile::tempdir().unwrap() };
    let folder = desk.bench.folder.path().canonicalize().unwrap();
    let answer =
        desk.press("file", &[("kind", "disk"), ("file_path", "/nowhere/a.img"), ("file_size", "1GiB")]).await;
    assert_eq!(answer.status, 422);
    assert!(answer.text.contains("value=\"/nowhere/a.img\""), "{}", answer.text);
    assert!(desk.draft().await.hosts.is_empty(), "no empty domain stays behind");
    for name in ["a", "b", "c"] {
        let path = folder.join(format!("{name}.img")).display().to_string();
        let answer =
            desk.press("file", &[("kind", "disk"), ("file_path", &path), ("file_size", "1GiB")]).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
    }
    let draft = desk.draft().await;
    assert_eq!((draft.hosts.len(), draft.claims.len(), draft.fault_domains.len()), (3, 3, 1));
    let page = desk.get(STEP).await.text;
    // No other way of telling makes three of them.
    assert_eq!(draft.fault_domains[0].hosts, ["a", "b", "c"]);
    let headers = [("cookie", desk.cookie.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    let step = "/setup-cluster/native/fault-domains";
    let split = desk.bench.call(Method::POST, step, &headers, "go=next&fd.a=x&fd.b=y&fd.c=").await;
    assert_eq!(split.status, 422, "{}", split.text);
    assert!(split.text.contains("a and b and c lie on one device and fail together"), "{}", split.text);
    assert_eq!(desk.bench.call(Method::POST, step, &headers, "go=clear").await.status, 303);
    let shown = desk.get(step).await.text;
    assert!(shown.contains("one fault domain, whatever stands here"), "{shown}");
    assert_eq!(shown.matches("value=\"device-of-a\"").count(), 3, "{shown}");
    assert_eq!(desk.bench.call(Method::POST, step, &headers, "go=next&fd.b=shelf").await.status, 303);
    let draft = desk.draft().await;
    let settled = grouping::together::settled(&draft);
    assert_eq!((settled.len(), settled[0].name.as_str(), settled[0].hosts.len()), (1, "shelf", 3));
    let token = desk.bench.token(Role::Admin).await;
    let body = r#"[{"name": "x", "hosts": ["a"]}, {"name": "y", "hosts": ["b"]}]"#;
    let refused = desk.bench.api(&token, Method::PUT, "/api/v1/fault-domains", body).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(page.contains("3 count as 1") && page.contains("needs 3 fault domains, 1 available"), "{page}");
}

/// The value of the tick that lets a disk be erased.
fn tick_of(page: &str, select: &str) -> (String, String) {
    let name = select.replace("g.", "e.");
    let tag = page.split('<').find(|tag| attribute(tag, "name") == Some(&name)).expect("a tick");
    (name.clone(), attribute(tag, "value").expect("a mark").to_owned())
}

#[tokio::test]
async fn what_nobody_saw_is_not_erased() {
    let desk = Desk::before(&[("E9_lsblk_signatures.json", "lsblk.json")]).await;
    desk.press("add-domain", &[("new_domain", "vault")]).await;
    let shown = desk.get(STEP).await.text;
    let select = select_of(&shown, "sdf");
    let (name, mark) = tick_of(&shown, &select);
    let ticked = [(select.as_str(), "d0"), (name.as_str(), mark.as_str())];
    // Meanwhile something else was written to the disk: the tick was for what was shown.
    desk.machine(|listing| listing["blockdevices"][5]["fstype"] = "LVM2_member".into()).await;
    let answer = desk.press_on(&shown, "update", &ticked).await;
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert!(answer.text.contains("sdf was changed since it was listed"), "{}", answer.text);
    assert!(!fields(&answer.text).contains(&(name.clone(), mark.clone())), "the tick is dropped");
    assert!(desk.draft().await.claims.is_empty(), "nothing is claimed with it");
    // A tick for what is shown now counts.
    let shown = desk.get(STEP).await.text;
    let (name, mark) = tick_of(&shown, &select);
    let ticked = [(select.as_str(), "d0"), (name.as_str(), mark.as_str())];
    assert_eq!(desk.press("update", &ticked).await.status, 303);
    let claim = desk.draft().await.claims[0].clone();
    assert_eq!((claim.erase.len(), claim.expected.values().next()), (1, Some(&mark)));
    let review = desk.get("/setup-cluster/native/review").await.text;
    for words in ["sdf, /dev/sdf, 3.64 TiB: LVM", "data and its own log, vault; erases LVM"] {
        assert!(review.contains(words), "no {words:?} in {review}");
    }
    // It changes again: other forms of the step do not carry the old tick along.
    desk.machine(|listing| listing["blockdevices"][5]["fstype"] = "crypto_LUKS".into()).await;
    let page = desk.get(STEP).await.text;
    assert!(!fields(&page).iter().any(|(field, _)| *field == name), "the tick is off in {page}");
    desk.press("update", &[]).await;
    assert!(desk.draft().await.claims[0].erase.is_empty());
}

#[tokio::test]
async fn an_erasure_asked_for_over_the_api_can_name_what_was_seen() {
    let desk = Desk::before(&[("E9_lsblk_signatures.json", "lsblk.json")]).await;
    let token = desk.bench.token(Role::Admin).await;
    let disks = desk.bench.api(&token, Method::GET, "/api/v1/disks", "").await.json();
    let sdf = disks["items"].as_array().unwrap().iter().find(|disk| disk["name"] == "sdf").unwrap().clone();
    let id: model::ids::DiskId = sdf["id"].as_str().unwrap().parse().unwrap();
    let mark = sdf["mark"].as_str().unwrap();
    let mut claim = draft::Claim { host: "vault".into(), capacity: vec![id], ..draft::Claim::default() };
    claim.tick(id, mark);
    let seen = inventory::look(&desk.bench.app).await;
    let named = crate::service::disks::named_by(&[claim.clone()]);
    assert_eq!(named[0].expected.as_deref(), Some(mark));
    desk.machine(|listing| listing["blockdevices"][5]["fstype"] = "LVM2_member".into()).await;
    let now = inventory::look(&desk.bench.app).await;
    let refusal = |seen: &inventory::Seen| {
        let mut draft = Draft::new(&crate::edge::SystemRng, None);
        let snapshot = unconfigured();
        crate::service::disks::adopt(&desk.bench.app, seen, &snapshot, &mut draft, &named)
            .unwrap_err()
            .to_string()
    };
    assert!(!refusal(&seen).contains("was changed"), "{}", refusal(&seen));
    let body = serde_json::json!({"name": "c", "claims": [claim]}).to_string();
    let answer = desk.bench.api(&token, Method::POST, "/api/v1/cluster", &body).await;
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert!(answer.text.contains("was changed since it was listed"), "{}", answer.text);
    assert!(refusal(&now).contains("holds LVM"), "{}", refusal(&now));
}

#[tokio::test]
async fn a_disk_that_vanished_is_named() {
    let desk = Desk::new().await;
    desk.take("each disk is a failure domain").await;
    let before = desk.draft().await;
    let shown = desk.get(STEP).await.text;
    let gone = before.disks.iter().find(|disk| disk.name == "sdh").unwrap_or(&before.disks[0]).name.clone();
    desk.machine(|listing| {
        listing["blockdevices"].as_array_mut().unwrap().retain(|disk| disk["name"] != gone.as_str());
    })
    .await;
    let answer = desk.press_on(&shown, "next", &[]).await;
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert!(answer.text.contains(&format!("{gone} is not there any more, or in use")), "{}", answer.text);
    assert_eq!(desk.draft().await, before, "nothing is lost without a word");
    let page = desk.get(STEP).await.text;
    assert!(page.contains(&format!("{gone} of the failure domain")), "the page says so too");
}
