//! The HTTP API through `curl`, as a script would use it.
use crate::tools;
use serde_json::Value;

/// One caller: a base URL and a token.
#[derive(Clone, Debug)]
pub struct Api {
    /// E.g. `http://127.0.0.1:41234`.
    pub base: String,
    /// Bearer token; empty sends none.
    pub token: String,
}

/// Status and body of an answer; `Null` when the body is not JSON.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Value,
    /// Body as text.
    pub text: String,
}

impl Api {
    /// Sends one request; the body, if any, goes as JSON.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let url = format!("{}{path}", self.base);
        let authorization = format!("Authorization: Bearer {}", self.token);
        let mut args = vec![
            "-sS",
            "--max-time",
            "120",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            "-H",
            "Accept: application/json",
        ];
        if self.base.starts_with("https:") {
            args.push("--insecure");
        }
        if !self.token.is_empty() {
            args.extend(["-H", &authorization]);
        }
        let text = body.map(Value::to_string);
        if let Some(text) = &text {
            args.extend(["-H", "Content-Type: application/json", "--data-binary", text]);
        }
        args.push(&url);
        let printed = tools::ok("curl", &args);
        let (text, status) = printed.rsplit_once('\n').expect("curl prints the status last");
        Answer {
            status: status.trim().parse().expect("a status"),
            body: serde_json::from_str(text).unwrap_or(Value::Null),
            text: text.to_owned(),
        }
    }

    /// GET that must answer 200.
    pub fn get(&self, path: &str) -> Value {
        self.expect(200, "GET", path, None)
    }

    /// POST that must answer one of 200, 201, 202; waits for the task of a 202.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.done("POST", path, Some(body))
    }

    /// PUT, as [`Api::post`].
    pub fn put(&self, path: &str, body: &Value) -> Value {
        self.done("PUT", path, Some(body))
    }

    /// PATCH, as [`Api::post`].
    pub fn patch(&self, path: &str, body: &Value) -> Value {
        self.done("PATCH", path, Some(body))
    }

    /// A call that must answer `status`.
    pub fn expect(&self, status: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, path, body);
        assert_eq!(answer.status, status, "{method} {path} answered {}", answer.text);
        answer.body
    }

    fn done(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, path, body);
        assert!(
            matches!(answer.status, 200..=204),
            "{method} {path} answered {} {}",
            answer.status,
            answer.text
        );
        if answer.status == 202 {
            let task = answer.body["task"].as_str().expect("a 202 names its task").to_owned();
            return self.finished(&task);
        }
        answer.body
    }

    /// Waits until a task has succeeded.
    pub fn finished(&self, task: &str) -> Value {
        crate::until(&format!("task {task}"), || {
            let task = self.get(&format!("/api/v1/tasks/{task}"));
            match task["state"].as_str() {
                Some("running") => None,
                Some("succeeded") => Some(task),
                _ => panic!("the task did not succeed: {task}"),
            }
        })
    }

    /// Waits until `GET path` answers something that `holds`; answers it.
    pub fn until(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        crate::until(what, || {
            let answer = self.call("GET", path, None);
            (answer.status == 200 && holds(&answer.body)).then_some(answer.body)
        })
    }

    /// The items of a list.
    pub fn items(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().expect("a list has items").clone()
    }
}
