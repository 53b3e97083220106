//! A real browser: Debian's chromedriver and Chromium, with axe-core and a listener for CSP violations.
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use thirtyfour::prelude::*;

/// The accessibility checker, vendored with its licence.
const AXE: &str = include_str!("../vendor/axe.min.js");

/// A browser with a fresh profile; ends with the value.
pub struct Browser {
    /// The WebDriver session.
    pub driver: WebDriver,
    chromedriver: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts chromedriver on a free port and a browser window of `width` x 900 pixels.
    pub async fn start(width: u32) -> Self {
        let profile = tempfile::Builder::new().prefix("mp-profile-").tempdir().expect("a profile folder");
        let port = free_port();
        let chromedriver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver cannot be started; tests/run installs it");
        let mut capabilities = DesiredCapabilities::chrome();
        for flag in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            // Servers with a certificate of their own making.
            "--ignore-certificate-errors",
        ] {
            capabilities.add_arg(flag).expect("a flag");
        }
        capabilities.add_arg(&format!("--window-size={width},900")).expect("a flag");
        capabilities.add_arg(&format!("--user-data-dir={}", profile.path().display())).expect("a flag");
        let url = format!("http://127.0.0.1:{port}");
        let mut driver = None;
        for _ in 0..600 {
            match WebDriver::new(&url, capabilities.clone()).await {
                Ok(session) => {
                    driver = Some(session);
                    break;
                }
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
        let driver = driver.expect("chromedriver gives a session within a minute");
        // Runs before any script of a page, outside its Content-Security-Policy.
        let listener = "window.__violations = []; document.addEventListener('securitypolicyviolation', event => \
            window.__violations.push(event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sourceFile + ':' + event.lineNumber));";
        driver
            .cdp()
            .page()
            .add_script_to_evaluate_on_new_document(listener)
            .await
            .expect("listen for CSP violations");
        Self { driver, chromedriver, _profile: profile }
    }

    /// Opens a page.
    pub async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap_or_else(|error| panic!("open {url}: {error}"));
    }

    /// Waits until an element that `css` names is there; answers it.
    pub async fn find(&self, css: &str) -> WebElement {
        for _ in 0..1800 {
            if let Ok(element) = self.driver.find(By::Css(css)).await {
                return element;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let page = self.text().await;
        panic!("no element {css} on {:?}:\n{page}", self.driver.current_url().await);
    }

    /// Clicks the element that `css` names.
    pub async fn click(&self, css: &str) {
        let element = self.find(css).await;
        let _ = element.scroll_into_view().await;
        element.click().await.unwrap_or_else(|error| panic!("click {css}: {error}"));
    }

    /// Clicks the first button or link whose text contains `text`.
    pub async fn press(&self, text: &str) {
        let xpath = format!(
            "//*[self::button or self::a or self::summary or self::label][contains(normalize-space(.), \"{text}\")]"
        );
        for _ in 0..1800 {
            if let Ok(element) = self.driver.find(By::XPath(xpath.as_str())).await {
                let _ = element.scroll_into_view().await;
                if element.click().await.is_ok() {
                    return;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("nothing to press called {text:?} on:\n{}", self.text().await);
    }

    /// Types into the field that `css` names, over what it holds.
    pub async fn fill(&self, css: &str, text: &str) {
        let element = self.find(css).await;
        element.clear().await.unwrap_or_else(|error| panic!("clear {css}: {error}"));
        element.send_keys(text).await.unwrap_or_else(|error| panic!("type into {css}: {error}"));
    }

    /// Waits until the page shows `text`.
    pub async fn until_text(&self, text: &str) {
        for _ in 0..3000 {
            if self.text().await.contains(text) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("the page never said {text:?}:\n{}", self.text().await);
    }

    /// All text of the page.
    pub async fn text(&self) -> String {
        match self.driver.find(By::Tag("body")).await {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Path of the page now.
    pub async fn path(&self) -> String {
        self.driver.current_url().await.expect("a URL").path().to_owned()
    }

    /// Fails if the page broke its Content-Security-Policy or logged an error of its own.
    pub async fn assert_clean_console(&self) {
        let log =
            self.driver.execute("return window.__violations || [];", Vec::new()).await.expect("run a script");
        let violations: Vec<String> = log.convert().expect("a list");
        assert!(violations.is_empty(), "CSP violations: {violations:?}");
    }

    /// Runs axe-core over the page; fails on any violation.
    pub async fn assert_accessible(&self, name: &str) {
        self.driver.execute(AXE, Vec::new()).await.expect("load axe-core");
        let script = r#"
            const done = arguments[arguments.length - 1];
            axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
               .then(result => done(result.violations.map(v => v.id + ": " + v.help + " :: " +
                     v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " || " + n.failureSummary.slice(0, 300)).join(" | "))))
               .catch(error => done(["axe failed: " + error]));"#;
        let found = self.driver.execute_async(script, Vec::new()).await.expect("run axe-core");
        let found: Vec<String> = found.convert().expect("a list");
        assert!(found.is_empty(), "{name}: axe-core found\n{}", found.join("\n"));
    }

    /// Checks a page in both themes and at both widths: no violation, accessible, no sideways scrolling. Keeps pictures when asked.
    pub async fn assert_page(&self, url: &str, name: &str) {
        for (theme, width) in [("light", 1366), ("dark", 1366), ("light", 390), ("dark", 390)] {
            self.driver.set_window_rect(0, 0, width, 900).await.expect("resize");
            self.open(url).await;
            let script = format!("document.cookie = 'theme={theme}; path=/; samesite=lax';");
            self.driver.execute(&script, Vec::new()).await.expect("choose the theme");
            self.open(url).await;
            self.find("main").await;
            self.assert_clean_console().await;
            self.assert_accessible(&format!("{name} {theme} {width}")).await;
            let wide = self
                .driver
                .execute(
                    "return document.documentElement.scrollWidth - document.documentElement.clientWidth;",
                    Vec::new(),
                )
                .await
                .expect("measure");
            let wide: i64 = wide.convert().expect("a number");
            assert!(wide <= 1, "{name} at {width} px scrolls sideways by {wide} px");
            self.picture(&format!("{name}-{theme}-{width}")).await;
        }
        self.driver.set_window_rect(0, 0, 1366, 900).await.expect("resize");
    }

    /// Keeps a picture in the folder that MILLPOND_PICTURES names; nothing without it.
    pub async fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("MILLPOND_PICTURES") {
            let path = PathBuf::from(folder).join(format!("{name}.png"));
            self.driver.screenshot(Path::new(&path)).await.expect("take a picture");
        }
    }

    /// Runs a script and answers its value.
    pub async fn script(&self, script: &str) -> Value {
        self.driver.execute(script, Vec::new()).await.expect("run a script").json().clone()
    }

    /// Ends the browser.
    pub async fn close(mut self) {
        let _ = self.driver.clone().quit().await;
        let _ = self.chromedriver.kill();
        let _ = self.chromedriver.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.chromedriver.kill();
        let _ = self.chromedriver.wait();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
