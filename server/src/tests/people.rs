//! Setup, sign-in, sessions, throttle: the rules that keep strangers out and people in.
use super::{Bench, recorded, unconfigured};
use crate::db::users::Role;
use crate::error::AppError;
use crate::service::auth;
use axum::http::Method;

const PASSWORD: &str = "correct horse";

async fn sign_in(bench: &Bench, name: &str, password: &str) -> Result<String, AppError> {
    auth::sign_in(&bench.app, name, password, "10.0.0.1", "test", None).await
}

async fn is_open(bench: &Bench, secret: &str) -> bool {
    let cookie = format!("sid={secret}");
    bench.call(Method::GET, "/api/v1/cluster", &[("cookie", &cookie)], "").await.status == 200
}

#[tokio::test]
async fn the_setup_page_makes_one_administrator_and_is_gone() {
    let bench = Bench::new(unconfigured()).await;
    let (app, code) = (&bench.app, bench.app.setup.text().to_owned());
    let set_up = |code: String, name: &'static str| async move {
        auth::set_up(app, &code, name, PASSWORD, "127.0.0.1", "test").await
    };
    assert!(matches!(set_up("AAAA-AAAA-AAAA".into(), "ada").await, Err(AppError::Invalid(_))));
    assert!(auth::setup_is_open(app).await.unwrap());
    assert_eq!(bench.call(Method::GET, "/setup", &[], "").await.status, 200);
    // Two browsers at the same moment: one administrator.
    let (first, second) = tokio::join!(set_up(code.clone(), "ada"), set_up(code.clone(), "bob"));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1);
    let users = crate::db::users::all(&app.console).await.unwrap();
    assert_eq!(users.len(), 1);
    assert_eq!(users[0].role, Role::Admin);
    assert!(matches!(set_up(code, "eve").await, Err(AppError::NotFound(_))));
    assert_eq!(bench.call(Method::GET, "/setup", &[], "").await.status, 404);
}

#[tokio::test]
async fn a_session_ends_with_its_reasons() {
    let bench = Bench::new(recorded()).await;
    let app = &bench.app;
    auth::add_user(&app.console, &app.passwords, app.clock.now(), "ada", Role::Operator, PASSWORD)
        .await
        .unwrap();
    // Sign-out ends one session, and a new sign-in never takes an old cookie over.
    let (one, two) =
        (sign_in(&bench, "ada", PASSWORD).await.unwrap(), sign_in(&bench, "ada", PASSWORD).await.unwrap());
    assert_ne!(one, two);
    let actor = auth::session_actor(app, &one, true).await.unwrap();
    auth::sign_out(app, &actor).await.unwrap();
    assert!(!is_open(&bench, &one).await && is_open(&bench, &two).await);
    // A changed password ends all of them, and gives this browser a new one.
    let actor = auth::session_actor(app, &two, true).await.unwrap();
    let three =
        auth::change_password(app, &actor, PASSWORD, "battery staple", "10.0.0.1", "test").await.unwrap();
    assert!(!is_open(&bench, &two).await && is_open(&bench, &three).await);
    assert!(!auth::still_signed_in(app, &actor).await.unwrap(), "an open stream notices");
    // So do a reset and the end of the user.
    auth::reset_user(&app.console, &app.passwords, "ada", Some(Role::Viewer), PASSWORD).await.unwrap();
    assert!(!is_open(&bench, &three).await);
    let four = sign_in(&bench, "ada", PASSWORD).await.unwrap();
    crate::db::users::delete(&app.console, "ada").await.unwrap();
    assert!(!is_open(&bench, &four).await);
}

#[tokio::test]
async fn a_lost_password_is_reset_without_waiting_and_makes_nobody_more_than_before() {
    let bench = Bench::new(recorded()).await;
    let app = &bench.app;
    let now = app.clock.now();
    for (name, role) in [("ada", Role::Admin), ("bob", Role::Operator)] {
        auth::add_user(&app.console, &app.passwords, now, name, role, PASSWORD).await.unwrap();
    }
    let before = sign_in(&bench, "bob", PASSWORD).await.unwrap();
    for _ in 0..8 {
        sign_in(&bench, "bob", "wrong").await.unwrap_err();
    }
    assert!(matches!(sign_in(&bench, "bob", PASSWORD).await, Err(AppError::TooManyTries { .. })));
    auth::rescue_user(&app.console, &app.passwords, now, "bob", None, "battery staple").await.unwrap();
    assert!(!is_open(&bench, &before).await, "all sessions end");
    sign_in(&bench, "bob", "battery staple").await.expect("neither name nor address has to wait");
    let users = crate::db::users::all(&app.console).await.unwrap();
    let role = |name: &str| users.iter().find(|user| user.name == name).unwrap().role;
    assert_eq!((role("bob"), role("ada")), (Role::Operator, Role::Admin), "no role was asked for");
    let entries: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM audit WHERE action = 'reset-password' AND subject = 'bob' AND actor = 'command line'",
    )
    .fetch_one(&app.console)
    .await
    .unwrap();
    assert_eq!(entries, 1);
    // The last administrator is not made less by it, and nobody comes into being.
    let lower =
        auth::rescue_user(&app.console, &app.passwords, now, "ada", Some(Role::Viewer), PASSWORD).await;
    assert!(matches!(lower, Err(AppError::Conflict(_))), "{lower:?}");
    let nobody =
        auth::rescue_user(&app.console, &app.passwords, now, "eve", Some(Role::Admin), PASSWORD).await;
    assert!(matches!(nobody, Err(AppError::NotFound(_))), "{nobody:?}");
    assert_eq!(crate::db::users::all(&app.console).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_lasts_twelve_hours_at_most_however_busy() {
    let bench = Bench::new(recorded()).await;
    let cookie = bench.cookie(Role::Viewer).await;
    let secret = cookie.trim_start_matches("sid=");
    let mut minutes = 0;
    while is_open(&bench, secret).await {
        bench.later(25 * 60);
        minutes += 25;
        assert!(minutes <= 12 * 60 + 25);
    }
    assert!(minutes >= 12 * 60, "{minutes}");
}

#[tokio::test]
async fn wrong_passwords_cost_time_and_a_right_one_forgets_them() {
    let bench = Bench::new(recorded()).await;
    let app = &bench.app;
    auth::add_user(&app.console, &app.passwords, app.clock.now(), "ada", Role::Admin, PASSWORD)
        .await
        .unwrap();
    for _ in 0..5 {
        assert!(matches!(sign_in(&bench, "ada", "wrong").await, Err(AppError::Invalid(_))));
    }
    // Also the right one waits, whatever the spelling of the name.
    assert!(matches!(sign_in(&bench, "ADA", PASSWORD).await, Err(AppError::TooManyTries { seconds: 2 })));
    bench.later(2);
    assert!(sign_in(&bench, "ada", PASSWORD).await.is_ok());
    assert!(matches!(sign_in(&bench, "ada", "wrong").await, Err(AppError::Invalid(_))));
    // Unknown names say the same sentence.
    let unknown = sign_in(&bench, "nobody", "wrong").await.unwrap_err().to_string();
    assert_eq!(unknown, sign_in(&bench, "ada", "wrong").await.unwrap_err().to_string());
}

#[tokio::test]
async fn no_answer_contains_a_secret() {
    let bench = Bench::new(recorded()).await;
    let token = bench.token(Role::Admin).await;
    let cookie = bench.cookie(Role::Admin).await;
    let secret = cookie.trim_start_matches("sid=");
    for path in ["/api/v1/cluster", "/api/v1/events", "/metrics", "/api/v1/nothing", "/healthz", "/login"] {
        let bearer = format!("Bearer {token}");
        let answer =
            bench.call(Method::GET, path, &[("authorization", &bearer), ("cookie", &cookie)], "").await;
        for secret in [token.as_str(), secret, PASSWORD, bench.app.setup.text(), "$argon2id"] {
            assert!(!answer.text.contains(secret), "{path}");
        }
    }
    // Nor do the files, beyond hashes.
    for file in ["console.db", "console.db-wal", "views.db"] {
        let bytes = std::fs::read(bench.folder.path().join(file)).unwrap_or_default();
        for secret in [token.as_bytes(), secret.as_bytes(), PASSWORD.as_bytes()] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{file}");
        }
    }
}
