//! Makes the description of the API from the route table: a route that is served is described, and no other.
use super::{DOCUMENT, Facts};
use crate::api::dto::List;
use crate::http::auth::Access;
use crate::http::failure::{Problem, is_api};
use crate::router::{self, Route};
use axum::http::Method;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{Object, Ref, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, Content, Info, OpenApi, OpenApiBuilder, Paths, RefOr, Required, ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};

/// Schemas by name, in the order in which they were met.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// Adds a type and all that it refers to, and answers its name.
fn schema_of<T: ToSchema + PartialSchema>(schemas: &mut Schemas) -> String {
    let name = T::name().into_owned();
    schemas.push((name.clone(), T::schema()));
    T::schemas(schemas);
    name
}

/// Adds the schema of one type to a list and answers its name.
pub type SchemaOf = fn(&mut Schemas) -> String;

impl Facts {
    /// Nothing said yet.
    pub const NONE: Self = Self { summary: "", takes: None, answers: None, status: 200 };

    /// Says in one line what the route is.
    pub fn says(&mut self, summary: &'static str) {
        self.summary = summary;
    }

    /// Says what its body is.
    pub fn takes<T: ToSchema>(&mut self) {
        self.takes = Some(schema_of::<T>);
    }

    /// Says what it answers.
    pub fn answers<T: ToSchema>(&mut self) {
        self.answers = Some(schema_of::<T>);
    }

    /// Says that it answers a list.
    pub fn lists<T: ToSchema>(&mut self) {
        self.answers = Some(|schemas| {
            schema_of::<T>(schemas);
            schema_of::<List<T>>(schemas)
        });
    }

    /// Says the status when it went well.
    pub fn status(&mut self, status: u16) {
        self.status = status;
    }
}

fn method(method: &Method) -> Option<HttpMethod> {
    Some(match *method {
        Method::GET => HttpMethod::Get,
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => return None,
    })
}

fn content(name: &str) -> Content {
    Content::new(Some(RefOr::Ref(Ref::from_schema_name(name))))
}

fn operation(route: &Route, schemas: &mut Schemas) -> utoipa::openapi::path::Operation {
    let needs = match route.access {
        Access::Open => "no token".to_owned(),
        Access::Role(role) => format!("role `{}`", role.word()),
    };
    let mut operation = OperationBuilder::new()
        .summary(Some(route.facts.summary))
        .description(Some(format!("Needs {needs}.")));
    for part in route.path.split('/').filter_map(|part| part.strip_prefix('{')) {
        let text = RefOr::T(Schema::Object(Object::with_type(Type::String)));
        let name = part.trim_end_matches('}').trim_start_matches('*');
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
        operation = operation.parameter(parameter.required(Required::True).schema(Some(text)));
    }
    if let Some(body) = route.facts.takes {
        let name = body(schemas);
        let body = RequestBodyBuilder::new().content("application/json", content(&name));
        operation = operation.request_body(Some(body.required(Some(Required::True)).build()));
    }
    let mut good = ResponseBuilder::new().description("Done, or under way.");
    if let Some(answer) = route.facts.answers {
        good = good.content("application/json", content(&answer(schemas)));
    }
    let problem = ResponseBuilder::new().description("What went wrong, and what to do.");
    let problem = problem.content("application/problem+json", content("Problem"));
    operation =
        operation.response(route.facts.status.to_string(), good.build()).response("default", problem.build());
    if route.access != Access::Open {
        operation = operation.security(SecurityRequirement::new("token", Vec::<String>::new()));
    }
    operation.build()
}

/// The document.
pub(crate) fn document() -> OpenApi {
    let mut schemas = Schemas::new();
    schema_of::<Problem>(&mut schemas);
    let mut paths = Paths::new();
    for route in router::all().iter().filter(|route| is_api(&route.path)) {
        let Some(method) = method(&route.method) else { continue };
        let operation = operation(route, &mut schemas);
        let item = PathItem::new(method, operation);
        match paths.paths.get_mut(&route.path) {
            Some(known) => known.merge_operations(item),
            None => drop(paths.paths.insert(route.path.clone(), item)),
        }
    }
    let mut components = Components::new();
    components.schemas.extend(schemas);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.security_schemes.insert("token".into(), bearer.into());
    let info = Info::new("Millpond", env!("CARGO_PKG_VERSION"));
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build()
}

/// The file is what the routes say. After a change of the API: `MILLPOND_WRITE=1 cargo test -p millpond openapi`, then read the difference.
#[test]
fn the_file_says_what_the_routes_say() {
    let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("MILLPOND_WRITE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json"), &made).unwrap();
    } else {
        assert!(made == DOCUMENT, "openapi.json is old; make it again as the comment above says");
    }
}
