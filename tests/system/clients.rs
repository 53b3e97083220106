//! Foreign NBD clients: what other people's programs read back must be what they wrote.
use harness::{Lab, tools};

const MIB: u64 = 1 << 20;

#[test]
fn nbdcopy_in_and_out_over_four_connections_is_equal() {
    let lab = Lab::ready(3, "1x1GiB", 3600);
    lab.volume("copy", 256 * MIB, None);
    let uri = lab.server.nbd_uri("copy");
    let (sent, back) = (lab.folder.path().join("sent"), lab.folder.path().join("back"));
    tools::random_file(&sent, 256 << 20, 7);
    let (sent, back) = (sent.to_str().expect("plain"), back.to_str().expect("plain"));
    tools::ok("nbdcopy", &["--connections=4", "--requests=64", "--flush", sent, &uri]);
    tools::ok("nbdcopy", &["--connections=4", "--requests=64", &uri, back]);
    tools::ok("cmp", &[sent, back]);
    let info = tools::ok("nbdinfo", &["--json", &uri]);
    for flag in [
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_multi_conn\": true",
    ] {
        assert!(info.contains(flag), "{flag} is missing in {info}");
    }
}

#[test]
fn qemu_img_convert_and_compare_say_identical() {
    let lab = Lab::ready(3, "1x1GiB", 3600);
    lab.volume("image", 64 * MIB, None);
    let uri = lab.server.nbd_uri("image");
    let raw = lab.folder.path().join("raw");
    // Half data, half hole: both must survive the round trip.
    tools::random_file(&raw, 32 << 20, 11);
    let (raw, qcow) = (raw.to_str().expect("plain").to_owned(), format!("{}.qcow2", raw.display()));
    tools::ok("truncate", &["-s", "64M", &raw]);
    tools::ok("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &raw, &qcow]);
    tools::ok("qemu-img", &["convert", "-n", "-f", "qcow2", "-O", "raw", &qcow, &uri]);
    let said = tools::ok("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &qcow, &uri]);
    assert!(said.contains("Images are identical"), "{said}");
}

#[test]
fn qemu_io_patterns_at_512_byte_offsets_read_back() {
    let lab = Lab::ready(3, "1x1GiB", 3600);
    lab.volume("small", 16 * MIB, None);
    let uri = lab.server.nbd_uri("small");
    let commands = [
        "write -P 0x11 512 512",
        "write -P 0x22 4096 8192",
        "write -P 0x33 5120 1536",
        "write -z 6144 512",
        "discard 8192 4096",
        "flush",
        "read -P 0x00 0 512",
        "read -P 0x11 512 512",
        "read -P 0x00 1024 3072",
        "read -P 0x22 4096 1024",
        "read -P 0x33 5120 1024",
        "read -P 0x00 6144 512",
        "read -P 0x22 6656 1536",
        "read -P 0x00 8192 4096",
        "aio_write -P 0x44 1048064 1024",
        "aio_flush",
        "read -P 0x44 1048064 1024",
    ];
    let mut args = vec!["-f", "raw", &uri];
    for command in &commands {
        args.extend(["-c", command]);
    }
    let output = tools::run("qemu-io", &args);
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && !said.contains("Pattern verification failed") && !said.contains("failed"),
        "{said}"
    );
}

#[test]
fn fio_verify_runs_clean() {
    let lab = Lab::ready(3, "1x1GiB", 3600);
    lab.volume("fio", 128 * MIB, None);
    let uri = lab.server.nbd_uri("fio");
    let uri = format!("--uri={uri}");
    let args = [
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=512-64k",
        "--blockalign=512",
        "--size=96m",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--randseed=42",
        "--allrandrepeat=1",
        // Else it leaves a file in the source folder.
        "--verify_state_save=0",
        "--minimal",
    ];
    tools::ok("fio", &args);
}
