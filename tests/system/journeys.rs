//! Journeys in a real browser: from the printed link to a volume that outlives a host, and the whole wizard.
//!
//! Each page that a journey looks at is checked in both themes at 1366 and 390 pixels: no violation of the Content-Security-Policy, no
//! finding of axe-core, no sideways scrolling.
use harness::{Server, browser::Browser, tools};

pub const PASSWORD: &str = "a long enough pass phrase 7";

pub fn journey(body: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(body());
}

/// Starts a server in an empty folder and makes the administrator by following the printed link.
pub async fn set_up(args: &[&str]) -> (tempfile::TempDir, Server, Browser) {
    let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), args);
    let browser = Browser::start(1366).await;
    let link = server.setup_url.clone().expect("the setup link is printed");
    browser.assert_page(&link, "setup").await;
    browser.open(&link).await;
    let code = browser.find("#code").await.prop("value").await.expect("a property").unwrap_or_default();
    assert_eq!(Some(code), server.setup_code, "following the link fills in the code");
    browser.fill("#name", "ada").await;
    browser.fill("#password", PASSWORD).await;
    browser.press("Make the administrator").await;
    browser.until_text("What do you have?").await;
    browser.assert_clean_console().await;
    (folder, server, browser)
}

#[test]
fn one_click_makes_a_lab_that_loses_a_host_and_nothing_else() {
    journey(async || {
        let (folder, server, browser) = set_up(&[]).await;
        browser.assert_page(&format!("{}/", server.base), "first-screen").await;
        browser.open(&format!("{}/", server.base)).await;
        browser.press("Make a lab and watch it lose a host").await;
        browser.until_text("Watch it lose a host").await;
        browser.until_text("0 of ").await;
        browser.until_text("acknowledged writes lost").await;
        browser.assert_clean_console().await;
        let url = browser.driver.current_url().await.expect("a URL").to_string();
        browser.assert_page(&url, "watch").await;
        browser.assert_page(&format!("{}/", server.base), "dashboard").await;
        // The API says the same as the page.
        let api = server.api("viewer");
        assert_eq!(api.get("/api/v1/cluster")["state"], "ready");
        assert_eq!(api.items("/api/v1/hosts").len(), 6);
        let volumes = api.items("/api/v1/volumes");
        assert!(
            !volumes.is_empty() && volumes.iter().all(|volume| volume["health"] == "healthy"),
            "{volumes:?}"
        );
        browser.close().await;
        drop(folder);
    });
}

#[test]
fn the_whole_wizard_ends_at_the_placement_of_a_volume() {
    journey(async || {
        let (folder, server, browser) = set_up(&[]).await;
        browser.press("Plan a lab step by step").await;
        for step in ["Hosts", "Group your disks", "Cluster type", "Services", "Fault domains", "Claim disks"]
        {
            browser.find("#wizard").await;
            look_at_step(&browser, step).await;
            next(&browser).await;
        }
        // Policies: author one, make it the default.
        look_at_step(&browser, "Policies").await;
        browser.fill("#name", "gold").await;
        browser.fill("#stripe_width", "2").await;
        browser.press("Add this policy").await;
        browser.find("input[name=default_policy][value=gold]").await;
        browser.press("gold").await;
        next(&browser).await;
        look_at_step(&browser, "Licence").await;
        browser.until_text("Continue with Community").await;
        next(&browser).await;
        look_at_step(&browser, "Review").await;
        browser.until_text("Nothing is erased").await;
        assert!(!server.data.join("lab").exists(), "nothing is written before the last step");
        next(&browser).await;
        browser.until_text("Make the first volume").await;
        browser.assert_clean_console().await;
        browser.press("Make the first volume").await;
        browser.fill("#name", "db").await;
        browser.fill("#size", "64").await;
        browser.script("const unit = document.querySelector('#unit'); unit.value = [...unit.options].find(o => o.text === 'MiB').value; return 1;").await;
        browser.press("Make the volume").await;
        browser.until_text("Where it lies").await;
        assert_eq!(browser.path().await, "/volumes/db");
        browser.assert_clean_console().await;
        browser.assert_page(&format!("{}/volumes/db", server.base), "placement").await;
        browser.assert_page(&format!("{}/volumes", server.base), "volumes").await;
        let api = server.api("viewer");
        let volume = api.get("/api/v1/volumes/db");
        assert_eq!((&volume["policy"], &volume["health"]), (&"gold".into(), &"healthy".into()), "{volume}");
        let uri = server.nbd_uri("db");
        tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x5a 0 1M", "-c", "read -P 0x5a 0 1M", &uri]);
        every_page_is_clean(&server, &browser).await;
        browser.close().await;
        drop(folder);
    });
}

async fn next(browser: &Browser) {
    let path = browser.path().await;
    browser.click("#wizard .foot button[value=next]").await;
    for _ in 0..600 {
        if browser.path().await != path {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the step {path} did not end:\n{}", browser.text().await);
}

async fn look_at_step(browser: &Browser, name: &str) {
    let url = browser.driver.current_url().await.expect("a URL").to_string();
    browser.assert_page(&url, &format!("wizard-{}", name.to_lowercase().replace(' ', "-"))).await;
}

/// The other pages of a configured cluster.
async fn every_page_is_clean(server: &Server, browser: &Browser) {
    for path in [
        "hosts",
        "policies",
        "policies/new",
        "capacity",
        "resync",
        "tasks",
        "events",
        "health",
        "licence",
        "lab",
        "fault-domains",
    ] {
        browser.assert_page(&format!("{}/{path}", server.base), &path.replace('/', "-")).await;
    }
}

#[test]
fn wrong_login_is_told_apart_from_nothing_and_a_session_ends_with_logout() {
    journey(async || {
        let (folder, server, browser) = set_up(&[]).await;
        browser.click("[popovertarget=user-menu]").await;
        browser.press("Sign out").await;
        browser.find("#password").await;
        browser.fill("#name", "ada").await;
        browser.fill("#password", "wrong pass phrase").await;
        browser.press("Sign in").await;
        browser.find("#form-error").await;
        assert_eq!(
            browser.find("#name").await.prop("value").await.expect("a property").as_deref(),
            Some("ada"),
            "the name is kept"
        );
        browser.fill("#password", PASSWORD).await;
        browser.press("Sign in").await;
        browser.until_text("What do you have?").await;
        browser.open(&format!("{}/setup", server.base)).await;
        assert!(!browser.text().await.contains("Make the administrator"), "setup is over");
        browser.close().await;
        drop(folder);
    });
}
