//! Serves a volume in memory on a unix socket, to try NBD clients against the front alone.
//!
//! `nbd_mem SOCKET NAME SIZE_BYTES`; it runs until it is killed.

use native::nbd::listener::Listener;
use native::nbd::mem::{MemDirectory, MemExport};
use native::nbd::{Front, Limits};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [socket, name, size] = args.as_slice() else {
        return Err("usage: nbd_mem SOCKET NAME SIZE_BYTES".into());
    };
    let directory = MemDirectory::default();
    directory.insert(name, MemExport::new(size.parse()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = Listener::bind(Path::new(socket)).await?;
        println!("serving {name} on {socket}");
        listener.run(Front::new(directory, Limits::default())).await;
        Ok(())
    })
}
