//! Shows the pages over recorded data, without an engine: `cargo run --example preview -- ADDRESS DIR generated|sample|empty`.
//! Signs in as `admin` with the password `preview pond`. For looking at pages while they are made.
#![allow(clippy::disallowed_methods, reason = "an example is an edge")]
use millpond::app::{App, Config, NATIVE};
use millpond::edge::{SystemClock, SystemRng};
use millpond::service::auth;
use model::engine::Engine;
use model::recorded::{GenerateSpec, Recorded, generate};
use model::state::ClusterState;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:7401".into()).parse()?;
    let data_dir = std::path::PathBuf::from(arguments.next().unwrap_or_else(|| "preview-data".into()));
    let what = arguments.next().unwrap_or_else(|| "generated".into());
    std::fs::create_dir_all(&data_dir)?;
    let mut snapshot = match what.as_str() {
        "sample" => millpond::web::sample::snapshot(),
        _ => generate(GenerateSpec { seed: 7, hosts: 12, disks_per_host: 3, objects: 300, faults: 1 }),
    };
    if what == "empty" {
        snapshot.hosts.clear();
        snapshot.disks.clear();
        snapshot.objects.clear();
        snapshot.resync = model::view::ResyncView::default();
        snapshot.cluster.name.clear();
        snapshot.cluster.state = ClusterState::Unconfigured;
    }
    let engine: Arc<dyn Engine> = Arc::new(Recorded::new(snapshot));
    let config = Config {
        data_dir,
        listen,
        public_url: None,
        file_disk_dirs: vec!["/tmp".into()],
        lists_devices: true,
        inventory_dir: None,
        allows_loop_devices: false,
        lab: None,
        repair_delay_seconds: None,
        tls_source: None,
        tls: None,
        names: Vec::new(),
        supervised: false,
    };
    let app =
        App::open(config, Arc::new(SystemClock), Arc::new(SystemRng), vec![(NATIVE.to_owned(), engine)])
            .await?;
    let code = app.setup.text().to_owned();
    match auth::set_up(&app, &code, "admin", "preview pond", "local", "preview").await {
        Ok(_) => {}
        Err(error) => eprintln!("{error}"),
    }
    app.start_tasks();
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, millpond::router::build(&app)).await?;
    Ok(())
}
