//! The console as people use it every day: counts that follow without a reload, charts, users and tokens.
use crate::journeys::{PASSWORD, journey, set_up};
use harness::browser::Browser;
use serde_json::json;

/// A one-click lab, made from the first screen, when its run has ended.
async fn lab(browser: &Browser) {
    browser.press("Make a lab and watch it lose a host").await;
    browser.until_text("acknowledged writes lost").await;
}

#[test]
fn counts_of_every_page_follow_without_a_reload_and_charts_are_drawn_from_samples() {
    journey(async || {
        let (folder, server, browser) = set_up(&[]).await;
        lab(&browser).await;
        // A page without a live part of its own.
        browser.open(&format!("{}/licence", server.base)).await;
        browser.find("[data-live-mark][data-live=on]").await;
        browser.script("window.__same = 1; return 1;").await;
        assert_eq!(browser.script("return document.querySelectorAll('#top-alerts .count').length;").await, 0);
        let api = server.api("operator");
        api.post("/api/v1/lab/faults", &json!({"target": "host:h1", "fault": "power-off"}));
        browser.find("#top-alerts .count").await;
        api.post("/api/v1/lab/faults", &json!({"target": "host:h1", "fault": "power-on"}));
        for _ in 0..600 {
            if browser.script("return document.querySelectorAll('#top-alerts .count').length;").await == 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(browser.script("return document.querySelectorAll('#top-alerts .count').length;").await, 0);
        assert_eq!(browser.script("return window.__same;").await, 1, "the page was not loaded again");
        // The fault was somebody's: the event says whose, on the page and in the API.
        let events = api.get("/api/v1/events?subject=host:h1");
        let mine = events["items"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|event| event["kind"] == "fault-injected");
        assert_eq!(mine.expect("the fault is an event")["user"], "token:test-operator", "{events}");
        // Charts: drawn by uPlot from the samples, with a table for everybody.
        browser.open(&format!("{}/performance", server.base)).await;
        browser.find("[data-chart=iops][data-drawn] canvas").await;
        browser.assert_clean_console().await;
        browser.press("Show as table").await;
        browser.find("[data-chart=iops] tbody tr").await;
        browser.assert_page(&format!("{}/performance", server.base), "performance").await;
        browser.close().await;
        drop(folder);
    });
}

#[test]
fn people_and_tokens_are_managed_in_the_browser() {
    journey(async || {
        let (folder, server, browser) = set_up(&[]).await;
        lab(&browser).await;
        let people = format!("{}/people", server.base);
        browser.open(&people).await;
        browser.fill("#name", "bob").await;
        browser.fill("#password", "short").await;
        browser.press("Add the user").await;
        browser.find("#form-error").await;
        browser.fill("#password", PASSWORD).await;
        browser.press("Add the user").await;
        browser.find("#user-bob").await;
        // The secret of a token is on one page, once, and works.
        browser.fill("#token", "backup").await;
        browser.press("Make the token").await;
        let secret = browser.find(".uri code").await.text().await.expect("text");
        let api = harness::Api { base: server.base.clone(), token: secret.clone() };
        assert_eq!(api.get("/api/v1/cluster")["state"], "ready");
        browser.assert_clean_console().await;
        browser.open(&people).await;
        assert!(!browser.text().await.contains(&secret), "the secret is shown once");
        // The only administrator stays.
        browser.open(&format!("{people}/users/ada/remove")).await;
        browser.until_text("This is the only administrator").await;
        for (path, name) in [
            ("people", "people"),
            ("people/users/bob", "user"),
            ("people/users/bob/remove", "user-remove"),
            ("people/tokens/backup/revoke", "token-revoke"),
            ("account", "account"),
        ] {
            browser.assert_page(&format!("{}/{path}", server.base), name).await;
        }
        browser.open(&format!("{people}/tokens/backup/revoke")).await;
        browser.press("Revoke the token backup").await;
        browser.find("#user-bob").await;
        assert_eq!(api.call("GET", "/api/v1/cluster", None).status, 401, "a revoked token is refused");
        // A viewer does not get there.
        browser.click("[popovertarget=user-menu]").await;
        browser.press("Sign out").await;
        browser.find("form[action='/login']").await;
        browser.fill("#name", "bob").await;
        browser.fill("#password", PASSWORD).await;
        browser.press("Sign in").await;
        browser.find("#user-menu").await;
        browser.open(&people).await;
        browser.until_text("admin").await;
        assert!(!browser.text().await.contains("Add the user"), "{}", browser.text().await);
        browser.close().await;
        drop(folder);
    });
}
