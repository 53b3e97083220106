//! The policy form: what was typed, and the policy it means. What cannot be read keeps its text and says why.
use crate::error::FieldError;
use crate::service::draft::policy_problems;
use crate::web::view::policy::method_value;
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};

/// What the form sends; every field as it was typed.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct PolicyForm {
    /// Name.
    pub name: String,
    /// `raid1`, `raid5`, `raid6`.
    pub fault_tolerance_method: String,
    /// 0 to 3.
    pub failures_to_tolerate: String,
    /// Empty, or 2 to 4.
    pub data_legs: String,
    /// 1 to 12.
    pub stripe_width: String,
    /// 0 to 100.
    pub object_space_reservation_percent: String,
    /// Empty: none.
    pub iops_limit: String,
    /// `on`.
    pub checksum: String,
    /// `on`.
    pub force_provisioning: String,
    /// `none`, …
    pub site_tolerance: String,
    /// The version that the edit is based on.
    pub version: String,
    /// `now` or `later`.
    pub apply: String,
}

impl PolicyForm {
    /// The form that shows a policy.
    pub fn of(policy: &Policy) -> Self {
        let on = |yes: bool| if yes { "on".to_owned() } else { String::new() };
        Self {
            name: policy.name.clone(),
            fault_tolerance_method: method_value(policy).into(),
            failures_to_tolerate: policy.failures_to_tolerate.to_string(),
            data_legs: policy.data_legs.map(|legs| legs.to_string()).unwrap_or_default(),
            stripe_width: policy.stripe_width.to_string(),
            object_space_reservation_percent: policy.object_space_reservation_percent.to_string(),
            iops_limit: policy.iops_limit.map(|limit| limit.to_string()).unwrap_or_default(),
            checksum: on(policy.checksum),
            force_provisioning: on(policy.force_provisioning),
            site_tolerance: "none".into(),
            version: policy.version.to_string(),
            apply: String::new(),
        }
    }

    /// The policy that it means.
    ///
    /// # Errors
    /// Every field that cannot be read or is not allowed.
    pub fn policy(&self) -> Result<Policy, Vec<FieldError>> {
        let mut errors = Vec::new();
        let method = match self.fault_tolerance_method.as_str() {
            "raid5" => FaultToleranceMethod::Raid5,
            "raid6" => FaultToleranceMethod::Raid6,
            _ => FaultToleranceMethod::Raid1,
        };
        let parity = method != FaultToleranceMethod::Raid1;
        let policy = Policy {
            name: self.name.trim().to_owned(),
            failures_to_tolerate: number("failures_to_tolerate", &self.failures_to_tolerate, 1, &mut errors),
            fault_tolerance_method: method,
            data_legs: match self.data_legs.trim() {
                text if parity && !text.is_empty() => Some(number("data_legs", text, 3, &mut errors)),
                _ => None,
            },
            stripe_width: number("stripe_width", &self.stripe_width, 1, &mut errors),
            object_space_reservation_percent: number(
                "object_space_reservation_percent",
                &self.object_space_reservation_percent,
                0,
                &mut errors,
            ),
            iops_limit: match self.iops_limit.trim() {
                "" => None,
                text => Some(number("iops_limit", text, 1, &mut errors)),
            },
            checksum: self.checksum == "on",
            force_provisioning: self.force_provisioning == "on",
            site_tolerance: match self.site_tolerance.as_str() {
                "mirroring" => SiteTolerance::Mirroring,
                "preferred" => SiteTolerance::Preferred,
                "secondary" => SiteTolerance::Secondary,
                _ => SiteTolerance::None,
            },
            version: self.version.trim().parse().unwrap_or(0),
        };
        let read: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
        errors.extend(policy_problems(&policy).into_iter().filter(|problem| !read.contains(&problem.field)));
        if errors.is_empty() { Ok(policy) } else { Err(errors) }
    }
}

fn number<T: std::str::FromStr>(field: &str, text: &str, empty: T, errors: &mut Vec<FieldError>) -> T {
    let text = text.trim();
    if text.is_empty() {
        return empty;
    }
    text.parse().unwrap_or_else(|_| {
        errors.push(FieldError::new(field, format!("\"{text}\" is not a whole number that fits here")));
        empty
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_back_from_its_form() {
        let policy = Policy {
            iops_limit: Some(900),
            stripe_width: 3,
            force_provisioning: true,
            version: 7,
            ..Policy::built_in()
        };
        assert_eq!(PolicyForm::of(&policy).policy().unwrap(), policy);
    }

    #[test]
    fn every_wrong_field_is_named_once() {
        let form = PolicyForm {
            name: "../x".into(),
            stripe_width: "many".into(),
            failures_to_tolerate: "9".into(),
            iops_limit: "-1".into(),
            ..PolicyForm::default()
        };
        let mut fields: Vec<String> =
            form.policy().unwrap_err().into_iter().map(|error| error.field).collect();
        fields.sort();
        assert_eq!(fields, ["failures_to_tolerate", "iops_limit", "name", "stripe_width"]);
    }
}
