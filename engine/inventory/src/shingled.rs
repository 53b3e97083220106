//! Disks that shingle without saying so. They report "zoned: none"; only the model tells.
//!
//! Sources, all public statements of the makers: Western Digital's list of 22 April 2020 (the letters alone say nothing:
//! WD80EFAX is conventional), Toshiba's list of 28 April 2020, Seagate's confirmation to the press of April 2020 and its
//! later page "CMR and SMR hard drives". Matched as the beginning of a word of the model.
const MODELS: &[&str] = &[
    // Western Digital Red, 2 to 6 TB.
    "WD20EFAX",
    "WD30EFAX",
    "WD40EFAX",
    "WD60EFAX",
    // Western Digital Blue and Black, 3.5 and 2.5 inch.
    "WD20EZAZ",
    "WD60EZAZ",
    "WD10SPZX",
    "WD20SPZX",
    "WD10SPSX",
    // Toshiba P300, DT02, DT02-V, L200, MQ04.
    "HDWD240",
    "HDWD260",
    "DT02ABA400",
    "DT02ABA600",
    "HDWL110",
    "HDWL120",
    "MQ04ABF100",
    "MQ04ABD200",
    "MQ04UBF100",
    "MQ04UBD200",
    // Seagate BarraCuda and Desktop, 3.5 inch.
    "ST2000DM005",
    "ST2000DM008",
    "ST3000DM007",
    "ST4000DM004",
    "ST5000DM000",
    "ST6000DM003",
    "ST8000DM004",
    // Seagate BarraCuda 2.5 inch.
    "ST1000LM048",
    "ST2000LM015",
    "ST3000LM024",
    "ST4000LM024",
    "ST5000LM000",
    // Seagate Archive, sold as shingled.
    "ST5000AS0011",
    "ST6000AS0002",
    "ST8000AS0002",
];

/// The entry that a model belongs to.
pub(crate) fn known_model(model: &str) -> Option<&'static str> {
    let upper = model.to_uppercase();
    let mut words = upper.split([' ', '_', '/']);
    words.find_map(|word| MODELS.iter().copied().find(|known| word.starts_with(known)))
}
