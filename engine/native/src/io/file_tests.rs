//! Real files: the ring under load, short and unaligned ends, locks, and what is never overwritten.
use super::*;
use crate::io::DiskError;
use std::io::Write;
use tokio::task::LocalSet;

const OPTIONS: OpenOptions = OpenOptions { writable: true, lock_wait: Duration::ZERO, media: Media::Flash };

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    LocalSet::new().block_on(&runtime, test)
}

async fn blank(folder: &tempfile::TempDir, size_bytes: u64) -> (Ring, PathBuf, Disk) {
    let path = folder.path().join("disk.img");
    create_file(&path, size_bytes).await.expect("create");
    let ring = Ring::new().expect("ring");
    let disk = open_file(&ring, &path, OPTIONS).await.expect("open");
    (ring, path, disk)
}

fn page(number: u64) -> IoBuf {
    let mut buf = IoBuf::zeroed(4096);
    buf.as_mut().chunks_mut(8).for_each(|word| word.copy_from_slice(&(number + 1).to_le_bytes()));
    buf
}

#[test]
fn many_writes_in_flight_all_arrive() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (_ring, path, disk) = blank(&folder, 64 << 20).await;
        // More than the ring holds at once.
        let writers: Vec<_> = (0..3000)
            .map(|number| {
                let disk = disk.clone();
                tokio::task::spawn_local(async move { disk.write(number * 4096, vec![page(number)]).await })
            })
            .collect();
        for writer in writers {
            writer.await.expect("task").expect("write");
        }
        disk.flush().await.expect("flush");
        let readers: Vec<_> = (0..3000)
            .map(|number| {
                let disk = disk.clone();
                tokio::task::spawn_local(async move { disk.read(number * 4096, IoBuf::for_read(4096)).await })
            })
            .collect();
        for (number, reader) in readers.into_iter().enumerate() {
            let read = reader.await.expect("task").expect("read");
            assert_eq!(&read[..], &page(number as u64)[..]);
        }
        drop(disk);
        let bytes = std::fs::read(path).expect("file");
        assert_eq!(&bytes[4096 * 2999..4096 * 3000], &page(2999)[..]);
    });
}

#[test]
fn vectored_write_of_many_buffers_is_whole() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (_ring, _, disk) = blank(&folder, 16 << 20).await;
        // More vectors than one call takes, of unequal lengths.
        let bufs: Vec<IoBuf> =
            (0..1500).map(|number| page(number).slice(0..512 + 512 * (number as usize % 3))).collect();
        let want: Vec<u8> = bufs.iter().flat_map(|buf| buf.to_vec()).collect();
        disk.write(512, bufs).await.expect("write");
        let read = disk.read(512, IoBuf::for_read(want.len())).await.expect("read");
        assert!(read[..] == want[..]);
    });
}

#[test]
fn dropped_future_leaves_its_write_whole_and_quiesce_waits_for_it() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (_ring, _, disk) = blank(&folder, 16 << 20).await;
        for number in 0..64 {
            let mut write = Box::pin(disk.write(number * 65536, vec![page(number); 16]));
            let polled = futures_poll_once(write.as_mut()).await;
            assert!(polled.is_none(), "submitted at the end of the turn");
            drop(write);
        }
        disk.quiesce().await;
        for number in 0..64 {
            let read = disk.read(number * 65536, IoBuf::for_read(65536)).await.expect("read");
            assert_eq!(&read[61440..], &page(number)[..]);
        }
    });
}

async fn futures_poll_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[test]
fn ring_dropped_with_io_under_way_waits_for_the_kernel() {
    let folder = tempfile::tempdir().expect("folder");
    let path = run(async {
        let (ring, path, disk) = blank(&folder, 16 << 20).await;
        for number in 0..100 {
            let disk = disk.clone();
            tokio::task::spawn_local(async move { disk.write(number * 4096, vec![page(number)]).await });
        }
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        drop((ring, disk));
        path
    });
    // The lock is free: no slot holds the file any more.
    run(async {
        let ring = Ring::new().expect("ring");
        open_file(&ring, &path, OPTIONS).await.expect("the lock is free");
    });
}

#[test]
fn discard_reads_as_zeros_and_gives_space_back() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (_ring, _, disk) = blank(&folder, 16 << 20).await;
        disk.write(1 << 20, vec![page(1); 32]).await.expect("write");
        disk.flush().await.expect("flush");
        disk.discard(1 << 20, 65536).await.expect("discard");
        let read = disk.read(1 << 20, IoBuf::for_read(131_072)).await.expect("read");
        assert!(read[..65536].iter().all(|byte| *byte == 0));
        assert_eq!(&read[65536..69632], &page(1)[..]);
        disk.faults().set_full(true);
        assert_eq!(disk.write(1 << 20, vec![page(2)]).await, Err(DiskError::NoSpace));
        disk.write((1 << 20) + 65536, vec![page(2)]).await.expect("allocated space stays writable");
    });
}

#[test]
fn power_off_ends_io_under_way_and_what_comes_later() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (_ring, _, disk) = blank(&folder, 16 << 20).await;
        disk.faults().set_slow(Duration::from_secs(3600));
        let waiting = tokio::task::spawn_local({
            let disk = disk.clone();
            async move { disk.write(0, vec![page(1)]).await }
        });
        tokio::task::yield_now().await;
        disk.faults().power_off();
        assert_eq!(waiting.await.expect("task"), Err(DiskError::Gone));
        assert_eq!(disk.flush().await, Err(DiskError::Gone));
        disk.faults().set_slow(Duration::ZERO);
        disk.quiesce().await;
        disk.faults().power_on();
        disk.flush().await.expect("flush");
    });
}

#[test]
fn second_open_is_refused_and_names_the_holder() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let (ring, path, disk) = blank(&folder, 1 << 20).await;
        let refused = open_file(&ring, &path, OPTIONS).await;
        let Err(OpenError::InUse { holder, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(holder.pid, Some(std::process::id()));
        assert!(holder.command.is_some());
        let patient = OpenOptions { lock_wait: LOCK_WAIT, ..OPTIONS };
        let (second, ()) = tokio::join!(open_file(&ring, &path, patient), async { drop(disk) });
        second.expect("free as soon as the first is closed");
    });
}

#[test]
fn lock_of_another_process_is_seen() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("lock");
    std::fs::write(&path, b"").expect("file");
    let mut other = std::process::Command::new("flock")
        .args(["-x", path.to_str().expect("path"), "sh", "-c", "echo locked; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("flock");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(other.stdout.take().expect("stdout"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("line");
    run(async {
        let refused = lock_file(&path, Duration::ZERO).await;
        let Err(OpenError::InUse { holder, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(holder.pid, Some(other.id()));
        assert_eq!(holder.command.as_deref(), Some("flock"));
        other.stdin.take().expect("stdin").write_all(b"\n").expect("end");
        lock_file(&path, LOCK_WAIT).await.expect("free when the process has ended");
    });
    other.wait().expect("wait");
}

#[test]
fn files_that_hold_data_are_never_made_into_disks() {
    let folder = tempfile::tempdir().expect("folder");
    run(async {
        let path = folder.path().join("letter.txt");
        std::fs::write(&path, b"dear reader").expect("file");
        let refused = create_file(&path, 1 << 20).await;
        assert!(matches!(refused, Err(OpenError::NotBlank { .. })), "{refused:?}");
        assert_eq!(std::fs::read(&path).expect("file"), b"dear reader");

        let sparse = folder.path().join("sparse.img");
        let file = File::create(&sparse).expect("file");
        file.set_len(512 << 20).expect("length");
        create_file(&sparse, 512 << 20).await.expect("a blank file may be used");
        rustix::fs::seek(&file, SeekFrom::Start(256 << 20)).expect("seek");
        (&file).write_all(b"x").expect("write");
        let refused = create_file(&sparse, 512 << 20).await;
        assert!(matches!(refused, Err(OpenError::NotBlank { .. })), "{refused:?}");
        let refused = create_file(Path::new("/dev/null"), 1 << 20).await;
        assert!(matches!(refused, Err(OpenError::WrongKind { .. })), "{refused:?}");
    });
}
