//! Listings that no tool should print: what is odd costs its own row alone, and nothing doubtful is ever offered.
use super::*;
use proptest::prelude::*;

#[test]
fn markup_and_odd_names_stay_text() {
    let evil = r#"<img src=x onerror=document.title=1>'"&"#;
    let inventory = listed(
        json!([{"name": "sda", "type": "disk", "size": "1000204886016", "model": evil, "serial": evil},
        {"name": 7, "size": -1, "type": ["disk"], "children": "no"}, 3, null, {"size": 5}]),
    );
    assert_eq!(inventory.disks.len(), 2);
    assert_eq!(inventory.disks[0].facts.model.as_deref(), Some(evil));
    assert_eq!(inventory.notes.len(), 3);
    assert!(reason(&inventory, "7").1.contains("size is unknown"));
}

/// Every fixture with every field of every row taken away or made odd: the other rows stay as they were.
#[test]
fn an_odd_field_costs_its_own_row_alone() {
    let files =
        ["E2_lsblk_usb_dock.json", "E6_lsblk_zero_size.json", "E9_lsblk_signatures.json", "E10_lsblk.json"];
    let odd = [
        Value::Null,
        json!(-3),
        json!("x"),
        json!([]),
        json!({"a": 1}),
        json!(true),
        json!("0B"),
        json!(1e300),
    ];
    for file in files {
        let whole: Value = serde_json::from_slice(&std::fs::read(fixture(file)).unwrap()).unwrap();
        let rows = whole["blockdevices"].as_array().unwrap();
        let verdicts = |inventory: &Inventory, without: &Value| {
            let others = inventory.disks.iter().filter(|disk| Some(disk.name()) != without.as_str());
            others.map(|disk| (disk.name().to_owned(), disk.verdict.clone())).collect::<Vec<_>>()
        };
        let sound = listed(whole["blockdevices"].clone());
        for (index, row) in rows.iter().enumerate() {
            for key in row.as_object().unwrap().keys().filter(|key| *key != "name") {
                // A third of the values each: all of them come up on every key.
                for value in odd.iter().skip((index + key.len()) % 3).step_by(3) {
                    let mut changed = rows.clone();
                    changed[index][key] = value.clone();
                    let inventory = listed(Value::Array(changed));
                    assert_eq!(
                        verdicts(&inventory, &row["name"]),
                        verdicts(&sound, &row["name"]),
                        "{file} {} {key} {value}",
                        row["name"]
                    );
                    assert!(inventory.raw_bytes() <= 16 * crate::disk::SIZE_BYTES_MAX);
                }
            }
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "disk",
            "part",
            "rom",
            "loop",
            "mpath",
            "/",
            "[SWAP]",
            "sda",
            "sdb",
            "zfs_member"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Any listing at all: no panic, and whatever is mounted, swap or without a size is never offered.
    #[test]
    fn nothing_odd_is_ever_offered(
        rows in prop::collection::vec(prop::collection::btree_map(
            prop::sample::select(vec!["name", "kname", "path", "type", "size", "rota", "ro", "serial", "wwn", "tran", "fstype",
                "mountpoints", "mountpoint", "children", "pkname", "zoned", "log-sec", "phy-sec", "maj:min", "model"]),
            any_json(), 0..12), 0..6),
    ) {
        let rows: Vec<Value> = rows.into_iter().map(|row| json!(row)).collect();
        let inventory = listed(json!(rows));
        for disk in &inventory.disks {
            prop_assert_eq!(disk.verdict.reason.is_none(), disk.verdict.eligibility == Eligibility::Eligible);
            if disk.can_be_claimed() {
                prop_assert!(disk.facts.size_bytes.is_some_and(disk::is_plausible));
                prop_assert!(disk.uses.is_empty() && disk.class == Class::Disk);
                prop_assert!(disk.facts.node.walk().iter().all(|node| node.mounts.is_empty()));
            }
        }
        let mut ids: Vec<_> = inventory.disks.iter().filter(|disk| disk.can_be_claimed()).map(|disk| disk.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert!(ids.len() == count, "two disks with one id");
    }
}
