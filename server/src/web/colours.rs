//! The colours of states can be told apart, by everybody: CIEDE2000 between every two of them, as seen with normal colour vision and
//! with each of the three dichromacies, and contrast on every surface that they lie on. Both are computed from `static/app.css`.
use std::collections::BTreeMap;

/// States that have a colour.
const STATES: [&str; 7] = ["healthy", "degraded", "absent", "rebuilding", "evacuating", "failed", "maint"];
/// Smallest CIEDE2000 between two fills, in light and dark. 2.3 is just noticeable; these are what the present colours reach.
const APART_MIN: [f64; 2] = [11.5, 7.9];
/// WCAG 2.2: graphical objects, and text.
const CONTRAST_FILL_MIN: f64 = 3.0;
const CONTRAST_TEXT_MIN: f64 = 4.5;

type Rgb = [f64; 3];
type Lab = [f64; 3];

/// Linear RGB as it is seen. Source: Machado, Oliveira, Fernandes 2009, severity 1.0.
const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    ),
    (
        "deuteranopia",
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ),
    (
        "tritanopia",
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ),
];

/// `#rrggbb` as linear RGB.
fn linear(hex: &str) -> Rgb {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("two hex digits")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

fn seen(colour: Rgb, vision: &[[f64; 3]; 3]) -> Rgb {
    vision.map(|row| row.iter().zip(colour).map(|(factor, part)| factor * part).sum::<f64>().clamp(0.0, 1.0))
}

fn luminance(colour: Rgb) -> f64 {
    0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
}

/// Contrast as WCAG computes it, 1 to 21.
fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(linear(a)), luminance(linear(b)));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// CIELAB under D65.
fn lab(c: Rgb) -> Lab {
    let x = (0.4124 * c[0] + 0.3576 * c[1] + 0.1805 * c[2]) / 0.95047;
    let z = (0.0193 * c[0] + 0.1192 * c[1] + 0.9505 * c[2]) / 1.08883;
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let (fx, fy, fz) = (f(x), f(luminance(c)), f(z));
    [116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)]
}

/// Hue angle in degrees, 0 to 360.
fn hue(a: f64, b: f64) -> f64 {
    if a == 0.0 && b == 0.0 { 0.0 } else { b.atan2(a).to_degrees().rem_euclid(360.0) }
}

/// Difference of two hues along the shorter way, and their middle.
fn hues(one: f64, two: f64, grey: bool) -> (f64, f64) {
    if grey {
        return (0.0, one + two);
    }
    let far = (one - two).abs() > 180.0;
    let turned = match two - one {
        difference if difference > 180.0 => difference - 360.0,
        difference if difference < -180.0 => difference + 360.0,
        difference => difference,
    };
    let sum = one + two;
    let middle = match (far, sum < 360.0) {
        (false, _) => sum / 2.0,
        (true, true) => (sum + 360.0) / 2.0,
        (true, false) => (sum - 360.0) / 2.0,
    };
    (turned, middle)
}

/// CIEDE2000 with all weights 1.
fn difference([l1, a1, b1]: Lab, [l2, a2, b2]: Lab) -> f64 {
    let seventh = |chroma: f64| (chroma.powi(7) / (chroma.powi(7) + 25_f64.powi(7))).sqrt();
    let cosine = |degrees: f64| degrees.to_radians().cos();
    let g = 0.5 * (1.0 - seventh((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
    let (a1, a2) = (a1 * (1.0 + g), a2 * (1.0 + g));
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let (turned, h) = hues(hue(a1, b1), hue(a2, b2), c1 * c2 == 0.0);
    let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
    let t = 1.0 - 0.17 * cosine(h - 30.0) + 0.24 * cosine(2.0 * h) + 0.32 * cosine(3.0 * h + 6.0)
        - 0.20 * cosine(4.0 * h - 63.0);
    let dl = (l2 - l1) / (1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt());
    let dc = (c2 - c1) / (1.0 + 0.045 * c);
    let dh = 2.0 * (c1 * c2).sqrt() * (turned / 2.0).to_radians().sin() / (1.0 + 0.015 * c * t);
    let rotation = -(60.0 * (-((h - 275.0) / 25.0).powi(2)).exp()).to_radians().sin() * 2.0 * seventh(c);
    (dl * dl + dc * dc + dh * dh + rotation * dc * dh).sqrt()
}

/// `--name: light-dark(#rrggbb, #rrggbb)` of the sheet.
fn tokens(sheet: &str) -> BTreeMap<String, [String; 2]> {
    let mut found = BTreeMap::new();
    for (at, word) in sheet.match_indices(": light-dark(#") {
        let name = sheet[..at].rsplit("--").next().unwrap_or_default();
        let values = sheet[at + word.len() - 1..].split(')').next().unwrap_or_default();
        if let Some((light, dark)) = values.split_once(", ")
            && light.len() == 7
            && dark.len() == 7
        {
            found.insert(name.to_owned(), [light.to_owned(), dark.to_owned()]);
        }
    }
    found
}

fn sheet() -> BTreeMap<String, [String; 2]> {
    tokens(&crate::http::assets::text("app.css"))
}

/// The closest two fills of a theme: how far apart, and which, seen how.
fn closest(tokens: &BTreeMap<String, [String; 2]>, theme: usize) -> (f64, String) {
    let mut closest = (f64::INFINITY, String::new());
    for (name, vision) in &VISIONS {
        let seen: Vec<Lab> =
            STATES.iter().map(|state| lab(seen(linear(&tokens[*state][theme]), vision))).collect();
        for one in 0..STATES.len() {
            for two in one + 1..STATES.len() {
                let apart = difference(seen[one], seen[two]);
                if apart < closest.0 {
                    closest = (apart, format!("{} and {} with {name}", STATES[one], STATES[two]));
                }
            }
        }
    }
    closest
}

#[test]
fn no_two_states_look_alike_to_anybody() {
    for (theme, word) in ["light", "dark"].into_iter().enumerate() {
        let (apart, which) = closest(&sheet(), theme);
        assert!(apart >= APART_MIN[theme], "{word}: {which} are only {apart:.1} apart");
    }
}

#[test]
fn states_can_be_read_on_every_surface() {
    let tokens = sheet();
    for (theme, word) in ["light", "dark"].into_iter().enumerate() {
        for state in STATES {
            let (fill, text) = (&tokens[state][theme], &tokens[&format!("{state}-t")][theme]);
            for surface in ["surface", "bg"] {
                let found = contrast(fill, &tokens[surface][theme]);
                assert!(found >= CONTRAST_FILL_MIN, "{word}: {state} on {surface} has {found:.2}");
            }
            for surface in ["surface", "bg", &format!("{state}-s")] {
                let found = contrast(text, &tokens[surface][theme]);
                assert!(found >= CONTRAST_TEXT_MIN, "{word}: text of {state} on {surface} has {found:.2}");
            }
        }
    }
}

#[test]
fn alike_colours_are_noticed() {
    let mut tokens = sheet();
    tokens.insert("failed".into(), ["#b3430b".into(), "#ee7a35".into()]);
    for theme in [0, 1] {
        let (apart, which) = closest(&tokens, theme);
        assert!(apart < 2.3 && which.contains("degraded and failed"), "{which} {apart}");
    }
}

/// Pairs and differences of the test data that Sharma, Wu and Dalal published with the formula.
#[test]
fn the_formula_gives_the_published_values() {
    for (one, two, expected) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, -1.3802, -84.2814], [50.0, 0.0, -82.7485], 1.0000),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([50.0, 2.49, -0.001], [50.0, -2.49, 0.0009], 7.1792),
        ([50.0, 2.49, -0.001], [50.0, -2.49, 0.0011], 7.2195),
        ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
        ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
    ] {
        let found = difference(one, two);
        assert!((found - expected).abs() < 0.0001, "{one:?} {two:?}: {found}, not {expected}");
        assert!((difference(two, one) - found).abs() < 1e-9, "it has no direction");
    }
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
}
