//! kill -9 at any moment loses nothing that was acknowledged.
//!
//! A writer puts numbered blocks through NBD and remembers what was acknowledged; the server is killed under it, started again, and
//! every acknowledged block must be there. A block whose write was under way may hold the old or the new number.
use harness::Lab;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 2048;

/// Kills in the ordinary run; 20 with `tests/run --long`.
fn rounds() -> u32 {
    if std::env::var("MILLPOND_LONG").is_ok_and(|long| long == "1") { 20 } else { 5 }
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let mut lab = Lab::ready(3, "1x512MiB", 3600);
    lab.volume("numbers", BLOCKS * BLOCK as u64, None);
    let mut expected: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut number = 1_u64;
    for round in 0..rounds() {
        let mut client = Client::connect(&lab.server.data.join("nbd.sock"), "numbers");
        // A different number of writes each round, so that the kill meets different moments of log, destage and checkpoint.
        let writes = 300 + u64::from(round) * 97;
        for step in 0..writes {
            let block = (number * 7919 + step) % BLOCKS;
            client.write(block, number);
            expected.insert(block, (number, number));
            number += 1;
        }
        // One more is sent and not waited for: it may be there or not.
        let block = (number * 7919) % BLOCKS;
        let old = expected.get(&block).map_or(0, |(_, newest)| *newest);
        client.send_write(block, number);
        expected.insert(block, (old, number));
        number += 1;
        lab = lab.restart(true, &[]);
        lab.api.until("/api/v1/volumes/numbers", "the volume is healthy again", |volume| {
            volume["health"] == "healthy"
        });
        let mut client = Client::connect(&lab.server.data.join("nbd.sock"), "numbers");
        for (block, (old, new)) in &mut expected {
            let found = client.read(*block);
            assert!(
                found == *old || found == *new,
                "round {round}: block {block} holds {found}, acknowledged {old}, last sent {new}"
            );
            (*old, *new) = (found, found);
        }
    }
    lab.check_deep();
}

/// A client of its own, so that nothing under test checks itself: one request at a time, simple replies.
struct Client {
    stream: UnixStream,
}

impl Client {
    fn connect(socket: &std::path::Path, name: &str) -> Self {
        let mut stream = harness::until("the NBD socket accepts", || UnixStream::connect(socket).ok());
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("the greeting");
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3_u32.to_be_bytes()).expect("client flags");
        stream.write_all(b"IHAVEOPT").expect("option");
        stream.write_all(&1_u32.to_be_bytes()).expect("EXPORT_NAME");
        stream.write_all(&u32::try_from(name.len()).expect("short").to_be_bytes()).expect("length");
        stream.write_all(name.as_bytes()).expect("name");
        let mut export = [0; 10];
        stream.read_exact(&mut export).expect("the export");
        Self { stream }
    }

    fn send(&mut self, command: u16, block: u64) {
        let mut request = Vec::with_capacity(28);
        request.extend(0x2560_9513_u32.to_be_bytes());
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(block.to_be_bytes());
        request.extend((block * BLOCK as u64).to_be_bytes());
        request.extend((BLOCK as u32).to_be_bytes());
        self.stream.write_all(&request).expect("a request");
    }

    fn reply(&mut self) {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        assert_eq!(reply[4..8], [0; 4], "the request failed");
    }

    fn send_write(&mut self, block: u64, number: u64) {
        self.send(1, block);
        let payload: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(BLOCK).collect();
        self.stream.write_all(&payload).expect("the payload");
    }

    fn write(&mut self, block: u64, number: u64) {
        self.send_write(block, number);
        self.reply();
    }

    fn read(&mut self, block: u64) -> u64 {
        self.send(0, block);
        self.reply();
        let mut payload = vec![0; BLOCK];
        self.stream.read_exact(&mut payload).expect("the payload");
        let number = u64::from_le_bytes(payload[..8].try_into().expect("eight bytes"));
        assert!(payload.chunks(8).all(|chunk| chunk == number.to_le_bytes()), "block {block} is torn");
        number
    }
}
